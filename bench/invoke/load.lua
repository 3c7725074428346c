-- wrk's side: which session a request is for, and what it says. Arguments: sessions, operation, "nimbus" or "handwritten".
local sessions, operation, kind

function init(arguments)
  sessions, operation, kind = tonumber(arguments[1]), arguments[2], arguments[3]
  math.randomseed(os.time())
  wrk.headers["Content-Type"] = "application/json"
  body = '{"payload": {"operation": "' .. operation .. '"}}'
end

function request()
  local session = "s" .. math.random(sessions)
  if kind == "handwritten" then return wrk.format("POST", "/" .. operation .. "/" .. session, nil, body) end
  return wrk.format("POST", "/api/v1/functions/bench/invoke?session_key=" .. session, nil, body)
end
