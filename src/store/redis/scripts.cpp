#include "store/redis/scripts.h"

#include "store/redis/commit_script.h"

#include <string>

namespace nimbus::store::redis {
namespace {

using nimbus::redis::Script;

// Every script begins with the time: ARGV[1] if a test owns the clock, else that of Redis.
constexpr const char* kClock = R"lua(
local call = redis.call
local match, format = string.match, string.format
local now
if ARGV[1] ~= '' then
  now = tonumber(ARGV[1])
else
  local t = call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
)lua";

// Records: "version expires updated value"; expires '-' = never.
constexpr const char* kRecords = R"lua(
local function less(a, b)  -- of decimals without leading zeros
  return #a < #b or (#a == #b and a < b)
end

-- a + b as text, both text of int64; nil if it does not fit
local function sum(a, b)
  local x, y = tonumber(a), tonumber(b)
  if x > -4e15 and x < 4e15 and y > -4e15 and y < 4e15 then return format('%.0f', x + y) end
  local function halves(s)
    local sign, digits = match(s, '^(%-?)(%d+)$')
    sign = sign == '-' and -1 or 1
    if #digits <= 9 then return 0, sign * digits end
    return sign * string.sub(digits, 1, -10), sign * string.sub(digits, -9)
  end
  local ah, al = halves(a)
  local bh, bl = halves(b)
  local h, l = ah + bh, al + bl
  if l >= 1e9 then h, l = h + 1, l - 1e9 elseif l <= -1e9 then h, l = h - 1, l + 1e9 end
  if h > 0 and l < 0 then h, l = h - 1, l + 1e9 elseif h < 0 and l > 0 then h, l = h + 1, l - 1e9 end
  local sign = (h < 0 or l < 0) and '-' or ''
  h, l = math.abs(h), math.abs(l)
  local digits = h > 0 and format('%.0f%09.0f', h, l) or format('%.0f', l)
  if less(sign == '-' and '9223372036854775808' or '9223372036854775807', digits) then return nil end
  return sign .. digits
end

local function readRecord(hash, key)
  local raw = call('HGET', hash, key)
  if not raw then return nil end
  local version, expires, updated, at = match(raw, '^(%d+) (%S+) (%S+) ()')
  return {version = version, expires = expires, updated = updated, at = at, raw = raw,
          size = #raw - at + 1, live = expires == '-' or tonumber(expires) > now}
end

-- of a space with the keys at `base`: records, bytes, floor, expired ones not counted
local function usageOf(base, name)
  local stored = call('HMGET', KEYS[1], 'bytes:' .. name, 'floor:' .. name)
  local records = call('HLEN', KEYS[base])
  local bytes, floor = tonumber(stored[1] or 0), stored[2] or '0'
  for _, key in ipairs(call('ZRANGEBYSCORE', KEYS[base + 2], '-inf', now)) do
    local record = readRecord(KEYS[base], key)
    records, bytes = records - 1, bytes - record.size
    if less(floor, record.version) then floor = record.version end
  end
  return records, bytes, floor
end
)lua";

constexpr const char* kReadArguments = R"lua(
local at = 1
local function arg()
  at = at + 1
  return ARGV[at]
end
local function optional()
  local value = arg()
  if value ~= '' then return value end
end

-- spaces have three keys, logs three, queues four
local base, name, fields = {}, {}, {}
local nextBase = 3
for c = 1, tonumber(arg()) do
  local kind = arg()
  name[c] = arg()
  base[c] = nextBase
  fields[kind .. name[c]] = true
  nextBase = nextBase + (kind == 'q' and 4 or 3)
end
)lua";

// KEYS: meta, and the hashes of spaces; of those that are put to all three keys. ARGV: now, fence's
// lease ('' = none), fence's token, number of conditions, (number of the hash among KEYS, key,
// version) for each, then (number of the hash, name of the space, key, value, expires, expected,
// version) for every Put.
constexpr const char* kPut = R"lua(
local meta = KEYS[1]
if ARGV[2] ~= '' then
  local raw = call('HGET', meta, 'lease:' .. ARGV[2])
  if not raw or match(raw, '^%d+ %d+') ~= ARGV[3] then return {'no', 'f', 0, 'fenced', ARGV[2]} end
end
local i = 5
for condition = 1, tonumber(ARGV[4]) do
  local raw = call('HGET', KEYS[tonumber(ARGV[i])], ARGV[i + 1])
  local version, expires
  if raw then version, expires = match(raw, '^(%d+) (%S+)') end
  if not raw or (expires ~= '-' and tonumber(expires) <= now) then version = '0' end
  if version ~= ARGV[i + 2] then return {'no', 'c', condition - 1, 'version', version} end
  i = i + 3
end
local first, last = i, #ARGV
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
call('SPUBLISH', meta, '')
return out
)lua";

constexpr const char* kRead = R"lua(
local function page(limit)
  local items = {0}
  return items, function(...)
    if limit == 0 then
      items[1] = 1
      return false
    end
    limit = limit - 1
    for _, part in ipairs({...}) do items[#items + 1] = part end
    return true
  end
end

local ask = {
  g = function(b)
    local record = readRecord(KEYS[b], arg())
    return record and record.live and record.raw or false
  end,
  s = function(b)
    local from, to, limit, omit = arg(), arg(), tonumber(arg()), arg() == '1'
    local items, add = page(limit)
    while true do
      local keys = call('ZRANGEBYLEX', KEYS[b + 1], from, to, 'LIMIT', 0, math.min(limit + 1, 1000))
      for _, key in ipairs(keys) do
        local record = readRecord(KEYS[b], key)
        if record.live then
          local raw = omit and string.sub(record.raw, 1, record.at - 1) or record.raw
          if not add(key, raw, record.size) then return items end
        end
      end
      if #keys == 0 then return items end
      from = '(' .. keys[#keys]
    end
  end,
  u = function(b, c)
    local records, bytes, floor = usageOf(b, name[c])
    return {records, bytes, floor}
  end,
  i = function(b, c)
    local info = call('HMGET', KEYS[1], 'seq:' .. name[c], 'rev:' .. name[c])
    return {info[1] or '0', call('ZCARD', KEYS[b + 1]), info[2] or '0'}
  end,
  e = function(b) return call('HGET', KEYS[b], arg()) end,
  l = function(b)
    local from, to, descending, limit = arg(), arg(), arg() == '1', tonumber(arg())
    local items, add = page(limit)
    local ids
    if descending then
      ids = call('ZREVRANGEBYSCORE', KEYS[b + 1], to, from, 'LIMIT', 0, limit + 1)
    else
      ids = call('ZRANGEBYSCORE', KEYS[b + 1], from, to, 'LIMIT', 0, limit + 1)
    end
    for _, id in ipairs(ids) do
      if not add(id, call('HGET', KEYS[b], id)) then break end
    end
    return items
  end,
  x = function(b)
    local from, to, descending, limit = arg(), arg(), arg() == '1', tonumber(arg())
    local items, add = page(limit)
    local members
    if descending then
      members = call('ZREVRANGEBYLEX', KEYS[b + 2], to, from, 'LIMIT', 0, limit + 1)
    else
      members = call('ZRANGEBYLEX', KEYS[b + 2], from, to, 'LIMIT', 0, limit + 1)
    end
    for _, member in ipairs(members) do
      local seq = string.sub(member, -20)
      local id = call('ZRANGEBYSCORE', KEYS[b + 1], seq, seq)[1]
      if not add(member, id, call('HGET', KEYS[b], id)) then break end
    end
    return items
  end,
  h = function() return call('HGET', KEYS[1], 'lease:' .. arg()) end,
  n = function(b) return {call('ZCARD', KEYS[b + 1]), call('ZCARD', KEYS[b + 2]), call('ZCARD', KEYS[b + 3])} end,
  m = function(b) return call('HGET', KEYS[b], arg()) end,
  k = function(b)
    local part, due, position, limit = arg(), optional(), optional(), tonumber(arg())
    local items, add = page(limit)
    local ids = {}
    if part == 'S' then
      local from, last = due or '-inf', position and string.rep('0', 20 - #position) .. position
      local skip = 0
      if due then
        -- those due at that very moment that stand before the position
        for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[b + 2], due, due)) do
          if string.sub(member, 1, 20) <= last then skip = skip + 1 end
        end
      end
      for i, member in ipairs(call('ZRANGEBYSCORE', KEYS[b + 2], from, '+inf', 'LIMIT', skip, limit + 1)) do
        ids[i] = string.sub(member, 22)
      end
    else
      local key = KEYS[b + (part == 'L' and 1 or 3)]
      ids = call('ZRANGEBYSCORE', key, position and '(' .. position or '-inf', '+inf', 'LIMIT', 0, limit + 1)
    end
    for _, id in ipairs(ids) do
      if not add(id, call('HGET', KEYS[b], id)) then break end
    end
    return items
  end,
}
local answers = {}
for i = 1, tonumber(arg()) do
  local kind, c = arg(), tonumber(arg())
  answers[i] = ask[kind](base[c], c)
end
return answers
)lua";

// What most reads are: records by their keys, and what is known of logs. The same in less time.
constexpr const char* kLook = R"lua(
local answers = {}
for i = 1, tonumber(arg()) do
  local kind, c = arg(), tonumber(arg())
  local b = base[c]
  if kind == 'g' then
    local raw = call('HGET', KEYS[b], arg())
    local expires = raw and match(raw, '^%d+ (%S+)')
    answers[i] = raw and (expires == '-' or tonumber(expires) > now) and raw or false
  else
    local info = call('HMGET', KEYS[1], 'seq:' .. name[c], 'rev:' .. name[c])
    answers[i] = {info[1] or '0', call('ZCARD', KEYS[b + 1]), info[2] or '0'}
  end
end
return answers
)lua";

// KEYS: meta, then either the limiters or the three keys of a space. ARGV: now, how many at most,
// name of the space ('' for limiters). Answers how many went, and whether there are more.
constexpr const char* kSweep = R"lua(
local most, name = tonumber(ARGV[2]), ARGV[3]
if name == '' then
  local full = call('ZRANGEBYSCORE', KEYS[2], '-inf', format('%.0f', now * 1000), 'LIMIT', 0, most)
  for _, limiter in ipairs(full) do call('ZREM', KEYS[2], limiter) end
  return {#full, #full == most and 1 or 0}
end
if call('HEXISTS', KEYS[1], 'bytes:' .. name) == 0 then return {0, 0} end  -- not ours
local keys = call('ZRANGEBYSCORE', KEYS[4], '-inf', now, 'LIMIT', 0, most)
if #keys == 0 then return {0, 0} end
local floor, bytes = call('HGET', KEYS[1], 'floor:' .. name) or '0', 0
for _, key in ipairs(keys) do
  local record = readRecord(KEYS[2], key)
  if less(floor, record.version) then floor = record.version end
  bytes = bytes + record.size
  call('HDEL', KEYS[2], key)
  call('ZREM', KEYS[3], key)
  call('ZREM', KEYS[4], key)
end
call('HSET', KEYS[1], 'floor:' .. name, floor)
if bytes > 0 then call('HINCRBY', KEYS[1], 'bytes:' .. name, -bytes) end
return {#keys, #keys == most and 1 or 0}
)lua";

constexpr const char* kList = R"lua(
if ARGV[1] == '1' then
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
  redis.call('ZADD', KEYS[2], 0, ARGV[2])
else
  redis.call('HDEL', KEYS[1], ARGV[2])
  redis.call('ZREM', KEYS[2], ARGV[2])
end
return 1
)lua";

constexpr const char* kReadDirectory = R"lua(
local items = {}
local keys = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], ARGV[2], 'LIMIT', 0, tonumber(ARGV[3]))
for _, key in ipairs(keys) do
  items[#items + 1] = key
  items[#items + 1] = redis.call('HGET', KEYS[1], key)
end
return items
)lua";

// With the first line Redis looks at the memory before a script begins, not at its first write.
constexpr const char* kWrites = "#!lua\n";
constexpr const char* kReads = "#!lua flags=no-writes\n";

}  // namespace

const Script& commitScript() {
  static const Script kScript(std::string(kWrites) + kClock + kRecords + kReadArguments +
                              kCommitBody);
  return kScript;
}
const Script& putScript() {
  static const Script kScript(std::string(kWrites) + kClock + kPut);
  return kScript;
}
const Script& appendScript() {
  static const Script kScript(std::string(kWrites) + kClock + kAppendBody);
  return kScript;
}
const Script& readScript() {
  static const Script kScript(std::string(kReads) + kClock + kRecords + kReadArguments + kRead);
  return kScript;
}
const Script& lookScript() {
  static const Script kScript(std::string(kReads) + kClock + kReadArguments + kLook);
  return kScript;
}
const Script& sweepScript() {
  static const Script kScript(std::string(kWrites) + kClock + kRecords + kSweep);
  return kScript;
}
const Script& listScript() {
  static const Script kScript(std::string(kWrites) + kList);
  return kScript;
}
const Script& readDirectoryScript() {
  static const Script kScript(std::string(kReads) + kReadDirectory);
  return kScript;
}

}  // namespace nimbus::store::redis
