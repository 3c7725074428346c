#include "store/redis/commit_script.h"

namespace nimbus::store::redis {

// KEYS: meta, the hashes of spaces as for putScript(), the three of the log, two of every
// directory. ARGV: now, fence's lease ('' = none), fence's token, number of conditions, (kind,
// number of the hash or name of the log, key, what it must be) for each, number of Puts, those as
// for putScript(), number of the log's first key, its name, number of Appends, (id, value,
// fingerprint, terms) for each, then (number of the directory's first key, key, '1' = set, value)
// for every listing.
const char* const kAppendBody = R"lua(
local meta = KEYS[1]
if ARGV[2] ~= '' then
  local raw = call('HGET', meta, 'lease:' .. ARGV[2])
  if not raw or match(raw, '^%d+ %d+') ~= ARGV[3] then return {'no', 'f', 0, 'fenced', ARGV[2]} end
end
local i = 5
for condition = 1, tonumber(ARGV[4]) do
  local kind, wanted = ARGV[i], ARGV[i + 3]
  if kind == 'V' then
    local raw = call('HGET', KEYS[tonumber(ARGV[i + 1])], ARGV[i + 2])
    local version, expires
    if raw then version, expires = match(raw, '^(%d+) (%S+)') end
    if not raw or (expires ~= '-' and tonumber(expires) <= now) then version = '0' end
    if version ~= wanted then return {'no', 'c', condition - 1, 'version', version} end
  else
    local info = call('HMGET', meta, 'seq:' .. ARGV[i + 1], 'rev:' .. ARGV[i + 1])
    local seq, rev = info[1] or '0', info[2] or '0'
    if (kind == 'E' and seq or rev) ~= wanted then
      return {'no', 'c', condition - 1, 'moved', ARGV[i + 1], seq, rev}
    end
  end
  i = i + 4
end
local first = i + 1
local last = i + tonumber(ARGV[i]) * 7
local sizes, expiries, versions = {}, {}, {}
for i = first, last, 7 do
  local raw = call('HGET', KEYS[tonumber(ARGV[i])], ARGV[i + 2])
  local version, expires, live, at
  if raw then
    version, expires, at = match(raw, '^(%d+) (%S+) %S+ ()')
    live = expires == '-' or tonumber(expires) > now
    sizes[i], expiries[i] = #raw - at + 1, expires
  else
    version = call('HGET', meta, 'floor:' .. ARGV[i + 1]) or '0'
  end
  local expected, given = ARGV[i + 5], ARGV[i + 6]
  if expected ~= '' and expected ~= (live and version or '0') then
    return {'no', 'o', (i - first) / 7, 'version', live and version or '0'}
  end
  if given == '' then
    if #version > 15 then return {'other'} end  -- beyond what is counted here
    given = format('%.0f', version + 1)
  elseif #given < #version or (#given == #version and given <= version) then
    return {'no', 'o', (i - first) / 7, 'toolow', given, version}
  end
  versions[i] = given
end
i = last + 1
local base, name = tonumber(ARGV[i]), ARGV[i + 1]
local data, ids, index = KEYS[base], KEYS[base + 1], KEYS[base + 2]
local firstEntry = i + 3
local lastEntry = i + 2 + ARGV[i + 2] * 4
for i = firstEntry, lastEntry, 4 do
  if call('HEXISTS', data, ARGV[i]) == 1 then return {'other'} end  -- a repetition, or another's
end
local info = call('HMGET', meta, 'seq:' .. name, 'rev:' .. name)
if #(info[2] or '') > 15 then return {'other'} end
local seq, rev = tonumber(info[1] or 0), tonumber(info[2] or 0)

local out = {'ok'}
local updated = format('%.0f', now)
for i = first, last, 7 do
  local hash, key, value, expires = tonumber(ARGV[i]), ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local size = sizes[i]
  if expires == '' then expires = '-' end
  call('HSET', KEYS[hash], key, versions[i] .. ' ' .. expires .. ' ' .. updated .. ' ' .. value)
  if not size then
    call('ZADD', KEYS[hash + 1], 0, key)
    call('HINCRBY', meta, 'bytes:' .. ARGV[i + 1], #value)
  elseif size ~= #value then
    call('HINCRBY', meta, 'bytes:' .. ARGV[i + 1], #value - size)
  end
  if expires ~= '-' then
    if expiries[i] ~= expires then call('ZADD', KEYS[hash + 2], expires, key) end
  elseif size and expiries[i] ~= '-' then
    call('ZREM', KEYS[hash + 2], key)
  end
  out[#out + 1] = versions[i]
  out[#out + 1] = expires
end
for i = firstEntry, lastEntry, 4 do
  local id, value, fingerprint, terms = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  seq, rev = seq + 1, rev + 1
  local digits = format('%.0f', seq)
  call('HSET', data, id, digits .. ' 1 ' .. #fingerprint .. ' ' .. #terms .. ' ' .. fingerprint .. terms .. value)
  call('ZADD', ids, digits, id)
  local members, suffix = {}, ' ' .. string.rep('0', 20 - #digits) .. digits
  for term in string.gmatch(terms, '[^\n]+') do
    members[#members + 1] = 0
    members[#members + 1] = term .. suffix
  end
  if #members > 2000 then
    for j = 2, #members, 2 do call('ZADD', index, 0, members[j]) end
  elseif #members > 0 then
    call('ZADD', index, unpack(members))
  end
  out[#out + 1] = digits
  out[#out + 1] = 1
  out[#out + 1] = 0
end
call('HSET', meta, 'seq:' .. name, format('%.0f', seq), 'rev:' .. name, format('%.0f', rev))
for i = lastEntry + 1, #ARGV, 4 do
  local at = tonumber(ARGV[i])
  if ARGV[i + 2] == '1' then
    call('HSET', KEYS[at], ARGV[i + 1], ARGV[i + 3])
    call('ZADD', KEYS[at + 1], 0, ARGV[i + 1])
  else
    call('HDEL', KEYS[at], ARGV[i + 1])
    call('ZREM', KEYS[at + 1], ARGV[i + 1])
  end
end
call('SPUBLISH', meta, '')
return out
)lua";

}  // namespace nimbus::store::redis
