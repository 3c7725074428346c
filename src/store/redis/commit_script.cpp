#include "store/redis/commit_script.h"

namespace nimbus::store::redis {

const char* const kCommitBody = R"lua(
local meta = KEYS[1]

-- ---- reading what the batch asks for

local readers = {
  p = function(o) o.c = tonumber(arg()); o.key = arg(); o.value = arg(); o.at = optional(); o.keep = arg() == '1'
        o.expected = optional(); o.version = optional() end,
  e = function(o) o.c = tonumber(arg()); o.key = arg(); o.expected = optional(); o.last = arg() end,
  x = function(o) o.c = tonumber(arg()); o.last = arg() end,
  a = function(o) o.c = tonumber(arg()); o.key = arg(); o.delta = arg(); o.at = optional(); o.keep = arg() == '1'
        o.expected = optional() end,
  t = function(o) o.c = tonumber(arg()); o.key = arg(); o.at = optional(); o.expected = optional()
        o.version = optional() end,
  A = function(o) o.c = tonumber(arg()); o.id = arg(); o.value = arg(); o.fingerprint = arg(); o.terms = arg() end,
  M = function(o) o.c = tonumber(arg()); o.id = arg(); o.value = arg(); o.terms = arg(); o.expected = optional() end,
  R = function(o) o.c = tonumber(arg()); o.id = arg(); o.expected = optional() end,
  G = function(o) o.c = tonumber(arg()); o.from = arg(); o.to = arg() end,
  T = function(o) o.c = tonumber(arg()); o.term = arg() end,
  L = function(o) o.c = tonumber(arg()) end,
  q = function(o) o.lease = arg(); o.holder = arg(); o.nonce = arg(); o.ttl = optional(); o.over = optional() end,
  n = function(o) o.lease = arg(); o.token = arg(); o.ttl = optional() end,
  r = function(o) o.lease = arg(); o.token = arg() end,
  P = function(o) o.c = tonumber(arg()); o.id = arg(); o.payload = arg(); o.due = optional() end,
  F = function(o) o.c = tonumber(arg()); o.id = arg(); o.notBefore = arg() end,
  K = function(o) o.c = tonumber(arg()); o.id = arg(); o.reason = arg() end,
  C = function(o) o.c = tonumber(arg()); o.id = arg() end,
  k = function(o) o.limiter = arg(); o.interval = tonumber(arg()); o.burst = tonumber(arg()); o.cost = tonumber(arg()) end,
  D = function() end,
}
readers.J, readers.V = readers.C, readers.C

local fenceLease, fenceToken = optional(), arg()
local conditions, operations, listings = {}, {}, {}
for i = 1, tonumber(arg()) do
  conditions[i] = {kind = arg(), c = tonumber(arg()), a = arg(), b = arg()}
end
for i = 1, tonumber(arg()) do
  local o = {kind = arg()}
  readers[o.kind](o)
  operations[i] = o
end
for i = 1, tonumber(arg()) do
  listings[i] = {keys = tonumber(arg()), key = arg(), set = arg() == '1', value = arg()}
end
local drops = #operations == 1 and operations[1].kind == 'D'

-- ---- what is there

local records = {}
local function stored(c, key)
  local known = records[c]
  if not known then known = {}; records[c] = known end
  local record = known[key]
  if record == nil then
    record = readRecord(KEYS[base[c]], key) or false
    known[key] = record
  end
  return record or nil
end

local floors = {}
local function floorOf(c)
  local floor = floors[c]
  if not floor then
    floor = call('HGET', meta, 'floor:' .. name[c]) or '0'
    floors[c] = floor
  end
  return floor
end

-- spaces that EraseSpace empties: how many are live in them, and the highest version ever
local cleared = {}
for _, o in ipairs(operations) do
  if o.kind == 'x' then
    local highest, count = floorOf(o.c), 0
    for _, raw in ipairs(call('HVALS', KEYS[base[o.c]])) do
      local version, expires = match(raw, '^(%d+) (%S+) ')
      if less(highest, version) then highest = version end
      if expires == '-' or tonumber(expires) > now then count = count + 1 end
    end
    if less(highest, o.last) then highest = o.last end
    cleared[o.c] = {highest = highest, count = count}
  end
end

-- the live record that an operation finds
local function found(c, key)
  if cleared[c] then return nil end
  local record = stored(c, key)
  if record and record.live then return record end
end

local function readLease(lease)
  local raw = call('HGET', meta, 'lease:' .. lease)
  if not raw then return nil, 0 end
  local epoch, nonce, expires, holder = match(raw, '^(%d+) (%d+) (%S+) (.*)$')
  if not epoch then return nil, tonumber(raw) end
  return {epoch = epoch, nonce = nonce, token = epoch .. ' ' .. nonce, expires = expires, holder = holder,
          live = expires == '-' or tonumber(expires) > now}, tonumber(epoch)
end

-- "seq version fingerprint-bytes terms-bytes fingerprint terms value"
local function readEntry(c, id)
  local raw = call('HGET', KEYS[base[c]], id)
  if not raw then return nil end
  local seq, version, f, t, start = match(raw, '^(%d+) (%d+) (%d+) (%d+) ()')
  f, t = tonumber(f), tonumber(t)
  return {id = id, seq = seq, version = version, fingerprint = string.sub(raw, start, start + f - 1),
          terms = string.sub(raw, start + f, start + f + t - 1)}
end
local function eachTerm(terms)
  return string.gmatch(terms, '[^\n]+')
end
local function hasTerm(terms, wanted)
  for term in eachTerm(terms) do
    if term == wanted then return true end
  end
  return false
end

-- "part position due not-before attempts reason-bytes reason payload"
local function readItem(c, id)
  local raw = call('HGET', KEYS[base[c]], id)
  if not raw then return nil end
  local part, position, due, notBefore, attempts, r, start = match(raw, '^(%a) (%d+) (%S+) (%S+) (%d+) (%d+) ()')
  r = tonumber(r)
  return {id = id, part = part, position = position, due = due, notBefore = notBefore, attempts = attempts,
          reason = string.sub(raw, start, start + r - 1), payload = string.sub(raw, start + r)}
end

local function padded(number)
  return string.rep('0', 20 - #number) .. number
end

-- ---- checks; each answers nil, or what refuses

local function checkVersion(wanted, current)
  if wanted and wanted ~= current then return {'version', current} end
end
local function expectedOf(o)
  if not o.expected then return nil end
  local record = found(o.c, o.key)
  return checkVersion(o.expected, record and record.version or '0')
end
local function canTake(o)
  if not o.version then return nil end
  local highest
  if cleared[o.c] then
    highest = cleared[o.c].highest
  else
    local record = stored(o.c, o.key)
    highest = record and record.version or floorOf(o.c)
  end
  if not less(highest, o.version) then return {'toolow', o.version, highest} end
end
local function fenceHolds(lease, token)
  local held = readLease(lease)
  if not held or held.token ~= token then return {'fenced', lease} end
end

local kMax, kMin = '9223372036854775807', '9223372036854775808'
local function isInteger(text)
  if text == '0' then return true end
  local sign, digits = match(text, '^(%-?)([1-9]%d*)$')
  return digits and not less(sign == '-' and kMin or kMax, digits)
end
-- the sum that an Add makes, or nil and what refuses it
local function added(o, record)
  local text = record and string.sub(record.raw, record.at) or '0'
  if not isInteger(text) then return nil, {'integer'} end
  local total = sum(text, o.delta)
  if not total then return nil, {'overflow'} end
  return total
end
local function expiryAfter(o, record)
  if o.keep and record then return record.expires end
  return o.at or '-'
end
local function lives(expires)
  return expires == '-' or tonumber(expires) > now
end

-- the size of the live record that an operation leaves behind
local sizeAfter = {
  p = function(o, record) return lives(expiryAfter(o, record)) and #o.value or nil end,
  a = function(o, record)
    local total = added(o, record)
    if not total then return record and record.size end
    return lives(expiryAfter(o, record)) and #total or nil
  end,
  t = function(o, record) return record and lives(o.at or '-') and record.size or nil end,
  e = function() return nil end,
}

local function exceeds(limit, before, after)
  return limit ~= 0 and after > limit and after > before
end

local function logInfo(c)
  local info = call('HMGET', meta, 'seq:' .. name[c], 'rev:' .. name[c])
  return info[1] or '0', info[2] or '0'
end

local lineChange = {
  P = function(item, o) return not item and not o.due and 1 or 0 end,
  J = function(item) return item and item.part == 'S' and 1 or 0 end,
  V = function(item) return item and item.part == 'P' and 1 or 0 end,
  C = function(item) return item and item.part == 'L' and -1 or 0 end,
  K = function(item) return item and item.part == 'L' and -1 or 0 end,
}

local checkCondition = {
  V = function(k)
    local record = stored(k.c, k.a)
    return checkVersion(k.b, record and record.live and record.version or '0')
  end,
  W = function(k)
    local n, bytes = usageOf(base[k.c], name[k.c])
    local n2, bytes2 = n, bytes
    if cleared[k.c] or drops then n2, bytes2 = 0, 0 end
    for _, o in ipairs(operations) do
      local after = sizeAfter[o.kind]
      if after and o.c == k.c then
        local record = found(o.c, o.key)
        if record then n2, bytes2 = n2 - 1, bytes2 - record.size end
        local size = after(o, record)
        if size then n2, bytes2 = n2 + 1, bytes2 + size end
      end
    end
    if exceeds(tonumber(k.a), n, n2) then return {'quota', 'records', k.a} end
    if exceeds(tonumber(k.b), bytes, bytes2) then return {'quota', 'bytes', k.b} end
  end,
  E = function(k)
    local seq, rev = logInfo(k.c)
    if seq ~= k.a then return {'moved', name[k.c], seq, rev} end
  end,
  U = function(k)
    local seq, rev = logInfo(k.c)
    if rev ~= k.a then return {'moved', name[k.c], seq, rev} end
  end,
  Q = function(k)
    local before = call('ZCARD', KEYS[base[k.c] + 1])
    local after = before
    for _, o in ipairs(operations) do
      local change = lineChange[o.kind]
      if change and o.c == k.c then after = after + change(readItem(o.c, o.id), o) end
    end
    if drops then after = 0 end
    if after > tonumber(k.a) and after > before then return {'quota', 'waiting items', k.a} end
  end,
}

local function removedByBatch(c, entry)
  local seq = tonumber(entry.seq)
  for _, o in ipairs(operations) do
    if o.c == c and o.kind == 'G' and tonumber(o.from) <= seq and seq <= tonumber(o.to) then return true end
    if o.c == c and o.kind == 'T' and hasTerm(entry.terms, o.term) then return true end
  end
  return false
end
local function checkEntry(o)
  local entry = readEntry(o.c, o.id)
  if not entry then return {'missing', 'entry', o.id} end
  return checkVersion(o.expected, entry.version)
end
local function checkItem(part)
  return function(o)
    local item = readItem(o.c, o.id)
    if not item or (part and item.part ~= part) then return {'missing', 'item', o.id} end
  end
end

-- GCRA, as in rules.cpp: the arrival to store, what remains, when it is full; or what refuses
local function gcra(o)
  if o.interval < 1 or o.interval > 86400000000 or o.burst < 1 or o.burst > 10000000 or
     o.cost < 1 or o.cost > o.burst then
    return nil, {'limiter'}
  end
  local micros = now * 1000
  local capacity = o.interval * o.burst
  local arrival = tonumber(call('ZSCORE', KEYS[2], o.limiter) or 0)
  local start = math.min(math.max(arrival, micros), micros + capacity)
  local after = start + o.interval * o.cost
  local over = after - (micros + capacity)
  if over > 0 then
    return nil, {'rate', format('%.0f', math.ceil(over / 1000)), format('%.0f', math.ceil((start - micros) / 1000))}
  end
  return after, math.floor(-over / o.interval), math.ceil((after - micros) / 1000)
end

local check = {
  p = function(o) return expectedOf(o) or canTake(o) end,
  e = expectedOf,
  a = function(o)
    local wrong = expectedOf(o)
    if wrong then return wrong end
    local total, why = added(o, found(o.c, o.key))
    if not total then return why end
  end,
  t = function(o)
    local wrong = expectedOf(o)
    if wrong then return wrong end
    if not found(o.c, o.key) then return {'missing', 'record', o.key} end
    return canTake(o)
  end,
  A = function(o)
    local entry = readEntry(o.c, o.id)
    if not entry or entry.fingerprint == o.fingerprint or removedByBatch(o.c, entry) then return nil end
    return {'taken', o.id, entry.seq}
  end,
  M = checkEntry,
  R = checkEntry,
  q = function(o)
    local held = readLease(o.lease)
    if not held or not held.live or held.token == o.over then return nil end
    return {'held', o.lease, held.holder}
  end,
  n = function(o)
    local held = readLease(o.lease)
    if not held or held.token ~= o.token or not held.live then return {'fenced', o.lease} end
  end,
  r = function(o) return fenceHolds(o.lease, o.token) end,
  J = checkItem('S'),
  F = checkItem('L'),
  K = checkItem('L'),
  V = checkItem('P'),
  C = checkItem(nil),
  k = function(o)
    local after, why = gcra(o)
    if not after then return why end
  end,
  D = function()
    -- All that the partition has must be among the declared keys; somebody may have added to it.
    for _, field in ipairs(call('HKEYS', meta)) do
      local kind, rest = match(field, '^(%a+):(.*)$')
      local declared = ({bytes = 's', floor = 's', seq = 'l', rev = 'l', last = 'q'})[kind]
      if declared and not fields[declared .. rest] then return {'again'} end
    end
  end,
}

local function refuse(where, index, why)
  return {'no', where, index, unpack(why)}
end
if fenceLease then
  local wrong = fenceHolds(fenceLease, fenceToken)
  if wrong then return refuse('f', 0, wrong) end
end
for i, k in ipairs(conditions) do
  local wrong = checkCondition[k.kind](k)
  if wrong then return refuse('c', i - 1, wrong) end
end
for i, o in ipairs(operations) do
  local checked = check[o.kind]
  local wrong = checked and checked(o)
  if wrong then return refuse('o', i - 1, wrong) end
end

-- ---- from here on nothing is refused

local out = {'ok'}
local function answer(value)
  out[#out + 1] = value
end

local function raiseFloor(c, version)
  if less(floorOf(c), version) then
    floors[c] = version
    call('HSET', meta, 'floor:' .. name[c], version)
  end
end
local function writeRecord(o, old, version, expires, updated, value)
  local b, field = base[o.c], 'bytes:' .. name[o.c]
  call('HSET', KEYS[b], o.key, version .. ' ' .. expires .. ' ' .. updated .. ' ' .. value)
  if not old then
    call('ZADD', KEYS[b + 1], 0, o.key)
    call('HINCRBY', meta, field, #value)
  elseif old.size ~= #value then
    call('HINCRBY', meta, field, #value - old.size)
  end
  if expires ~= '-' then
    if not old or old.expires ~= expires then call('ZADD', KEYS[b + 2], expires, o.key) end
  elseif old and old.expires ~= '-' then
    call('ZREM', KEYS[b + 2], o.key)
  end
end
-- a record that has expired but is still here goes on with its own versions
local function writeNow(o, value)
  local old = not cleared[o.c] and stored(o.c, o.key) or nil
  local version = o.version or sum(old and old.version or floorOf(o.c), '1')
  local expires = expiryAfter(o, old and old.live and old or nil)
  writeRecord(o, old, version, expires, format('%.0f', now), value)
  return version, expires
end

local logs = {}
local function logOf(c)
  local log = logs[c]
  if not log then
    local seq, rev = logInfo(c)
    log = {seq = tonumber(seq), rev = tonumber(rev)}
    logs[c] = log
  end
  return log
end
local function saveLog(c)
  local log = logOf(c)
  call('HSET', meta, 'seq:' .. name[c], format('%.0f', log.seq), 'rev:' .. name[c], format('%.0f', log.rev))
end
local function index(command, c, terms, seq)
  for term in eachTerm(terms) do
    if command == 'ZADD' then
      call('ZADD', KEYS[base[c] + 2], 0, term .. ' ' .. padded(seq))
    else
      call('ZREM', KEYS[base[c] + 2], term .. ' ' .. padded(seq))
    end
  end
end
local function writeEntry(c, entry, value)
  call('HSET', KEYS[base[c]], entry.id,
       entry.seq .. ' ' .. entry.version .. ' ' .. #entry.fingerprint .. ' ' .. #entry.terms .. ' ' ..
       entry.fingerprint .. entry.terms .. value)
  index('ZADD', c, entry.terms, entry.seq)
end
local function removeEntries(c, ids)
  for _, id in ipairs(ids) do
    local entry = readEntry(c, id)
    index('ZREM', c, entry.terms, entry.seq)
    call('HDEL', KEYS[base[c]], id)
    call('ZREM', KEYS[base[c] + 1], id)
  end
  if #ids > 0 then
    local log = logOf(c)
    log.rev = log.rev + 1
    saveLog(c)
  end
  answer(#ids)
end

local function until_(ttl)
  if not ttl then return '-' end
  return format('%.0f', now + ttl)
end
local function writeLease(lease, epoch, nonce, expires, holder)
  call('HSET', meta, 'lease:' .. lease, epoch .. ' ' .. nonce .. ' ' .. expires .. ' ' .. holder)
end

local function nextPosition(c)
  return format('%.0f', call('HINCRBY', meta, 'last:' .. name[c], 1))
end
local function takeItem(c, id)
  local item = readItem(c, id)
  local b = base[c]
  if item.part == 'L' then
    call('ZREM', KEYS[b + 1], id)
  elseif item.part == 'S' then
    call('ZREM', KEYS[b + 2], padded(item.position) .. ' ' .. id)
  else
    call('ZREM', KEYS[b + 3], id)
  end
  return item
end
local function writeItem(c, item)
  call('HSET', KEYS[base[c]], item.id,
       item.part .. ' ' .. item.position .. ' ' .. item.due .. ' ' .. item.notBefore .. ' ' .. item.attempts ..
       ' ' .. #item.reason .. ' ' .. item.reason .. item.payload)
end
local function placeItem(c, item)
  local b = base[c]
  if item.part == 'L' then
    call('ZADD', KEYS[b + 1], item.position, item.id)
  elseif item.part == 'S' then
    call('ZADD', KEYS[b + 2], item.due, padded(item.position) .. ' ' .. item.id)
  else
    call('ZADD', KEYS[b + 3], item.position, item.id)
  end
  writeItem(c, item)
end
local function lineUp(o)
  local item = takeItem(o.c, o.id)
  local position = nextPosition(o.c)
  placeItem(o.c, {id = o.id, part = 'L', position = position, due = '0', notBefore = '0', attempts = '0',
                  reason = '', payload = item.payload})
  answer(position)
  answer(0)
end

local apply = {
  p = function(o)
    local version, expires = writeNow(o, o.value)
    answer(version)
    answer(expires)
  end,
  a = function(o)
    local total = added(o, found(o.c, o.key))
    local version, expires = writeNow(o, total)
    answer(total)
    answer(version)
    answer(expires)
  end,
  t = function(o)
    local old = stored(o.c, o.key)
    local version, expires = o.version or sum(old.version, '1'), o.at or '-'
    writeRecord(o, old, version, expires, old.updated, string.sub(old.raw, old.at))
    answer(version)
    answer(expires)
  end,
  e = function(o)
    raiseFloor(o.c, o.last)
    local old = stored(o.c, o.key)
    if old then
      raiseFloor(o.c, old.version)
      local b = base[o.c]
      call('HDEL', KEYS[b], o.key)
      call('ZREM', KEYS[b + 1], o.key)
      if old.expires ~= '-' then call('ZREM', KEYS[b + 2], o.key) end
      if old.size > 0 then call('HINCRBY', meta, 'bytes:' .. name[o.c], -old.size) end
    end
    answer(old and old.live and 1 or 0)
  end,
  x = function(o)
    local b = base[o.c]
    raiseFloor(o.c, cleared[o.c].highest)
    call('UNLINK', KEYS[b], KEYS[b + 1], KEYS[b + 2])
    call('HDEL', meta, 'bytes:' .. name[o.c])
    answer(cleared[o.c].count)
  end,
  A = function(o)
    local first = readEntry(o.c, o.id)
    if first then
      answer(first.seq)
      answer(1)
      answer(1)
      return
    end
    local log = logOf(o.c)
    log.seq, log.rev = log.seq + 1, log.rev + 1
    local seq = format('%.0f', log.seq)
    call('ZADD', KEYS[base[o.c] + 1], seq, o.id)
    writeEntry(o.c, {id = o.id, seq = seq, version = '1', fingerprint = o.fingerprint, terms = o.terms}, o.value)
    saveLog(o.c)
    answer(seq)
    answer(1)
    answer(0)
  end,
  M = function(o)
    local entry = readEntry(o.c, o.id)
    local log = logOf(o.c)
    log.rev = log.rev + 1
    saveLog(o.c)
    index('ZREM', o.c, entry.terms, entry.seq)
    entry.version, entry.terms = sum(entry.version, '1'), o.terms
    writeEntry(o.c, entry, o.value)
    answer(entry.seq)
    answer(entry.version)
    answer(0)
  end,
  R = function(o) removeEntries(o.c, {o.id}) end,
  G = function(o) removeEntries(o.c, call('ZRANGEBYSCORE', KEYS[base[o.c] + 1], o.from, o.to)) end,
  T = function(o)
    local ids = {}
    for i, member in ipairs(call('ZRANGEBYLEX', KEYS[base[o.c] + 2], '[' .. o.term .. ' ', '(' .. o.term .. '!')) do
      local seq = string.sub(member, -20)
      ids[i] = call('ZRANGEBYSCORE', KEYS[base[o.c] + 1], seq, seq)[1]
    end
    removeEntries(o.c, ids)
  end,
  L = function(o)
    local b = base[o.c]
    answer(call('ZCARD', KEYS[b + 1]))
    call('UNLINK', KEYS[b], KEYS[b + 1], KEYS[b + 2])
    call('HDEL', meta, 'seq:' .. name[o.c], 'rev:' .. name[o.c])
  end,
  q = function(o)
    local _, epoch = readLease(o.lease)
    epoch = format('%.0f', epoch + 1)
    local expires = until_(o.ttl)
    writeLease(o.lease, epoch, o.nonce, expires, o.holder)
    answer(epoch)
    answer(expires)
  end,
  n = function(o)
    local held = readLease(o.lease)
    local expires = until_(o.ttl)
    writeLease(o.lease, held.epoch, held.nonce, expires, held.holder)
    answer(expires)
  end,
  r = function(o)
    local held = readLease(o.lease)
    call('HSET', meta, 'lease:' .. o.lease, held.epoch)
  end,
  P = function(o)
    local first = readItem(o.c, o.id)
    if first then
      answer(first.position)
      answer(1)
      return
    end
    local position = nextPosition(o.c)
    placeItem(o.c, {id = o.id, part = o.due and 'S' or 'L', position = position, due = o.due or '0', notBefore = '0',
                    attempts = '0', reason = '', payload = o.payload})
    answer(position)
    answer(0)
  end,
  J = lineUp,
  V = lineUp,
  F = function(o)
    local item = readItem(o.c, o.id)
    item.attempts, item.notBefore = item.attempts + 1, o.notBefore
    writeItem(o.c, item)
  end,
  K = function(o)
    local item = takeItem(o.c, o.id)
    item.part, item.notBefore, item.reason = 'P', '0', o.reason
    placeItem(o.c, item)
  end,
  C = function(o)
    takeItem(o.c, o.id)
    call('HDEL', KEYS[base[o.c]], o.id)
    answer(1)
  end,
  k = function(o)
    local after, remaining, reset = gcra(o)
    call('ZADD', KEYS[2], format('%.0f', after), o.limiter)
    answer(remaining)
    answer(reset)
  end,
  D = function()
    for i = 1, nextBase - 1 do call('UNLINK', KEYS[i]) end
  end,
}
for _, o in ipairs(operations) do apply[o.kind](o) end

for _, l in ipairs(listings) do
  if l.set then
    call('HSET', KEYS[l.keys], l.key, l.value)
    call('ZADD', KEYS[l.keys + 1], 0, l.key)
  else
    call('HDEL', KEYS[l.keys], l.key)
    call('ZREM', KEYS[l.keys + 1], l.key)
  end
end
call('SPUBLISH', meta, '')
return out
)lua";

}  // namespace nimbus::store::redis
