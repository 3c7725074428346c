-- wrk's side: each request appends one event to one of the sessions s0, s1, ... Arguments: sessions.
local sessions, text
local count = 0

function init(arguments)
  sessions = tonumber(arguments[1])
  math.randomseed(os.time())
  wrk.headers["Content-Type"] = "application/json"
  text = '","author":"user","content":{"role":"user","parts":[{"text":"' .. string.rep("x", 200) .. '"}]}}'
end

function request()
  count = count + 1
  return wrk.format("POST", "/api/v1/apps/bench/users/u/sessions/s" .. math.random(0, sessions - 1) .. "/events", nil,
                    '{"request_id":"r' .. math.floor(count / 5) .. text)
end
