-- Health of a GPTService, from the conditions that the operator keeps in its status.
-- It needs no library beyond Lua's base: Argo CD runs the scripts of argocd-cm without the string library.

local function tableOrEmpty(value)
  if type(value) == "table" then
    return value
  end
  return {}
end

local metadata = tableOrEmpty(obj.metadata)
local status = tableOrEmpty(obj.status)

-- The condition of that type, empty if there is none that speaks of the current spec.
local function condition(kind)
  for _, value in ipairs(tableOrEmpty(status.conditions)) do
    local found = tableOrEmpty(value)
    if found.type == kind and found.observedGeneration == metadata.generation then
      return found
    end
  end
  return {}
end

local function text(value, otherwise)
  if type(value) == "string" and value ~= "" then
    return value
  end
  return otherwise
end

-- "Reason: message", as far as the condition has them.
local function said(found)
  local reason = text(found.reason, found.type .. " is " .. text(found.status, "Unknown"))
  local message = text(found.message, nil)
  if message == nil then
    return reason
  end
  return reason .. ": " .. message
end

local function health(code, message)
  return { status = code, message = message }
end

if metadata.deletionTimestamp ~= nil then
  return health("Progressing", "The service is being deleted")
end

local ready = condition("Ready")
if status.observedGeneration ~= metadata.generation or ready.type == nil then
  return health("Progressing", "Waiting for the operator to observe the current spec")
end
if ready.reason == "Stopped" then
  return health("Suspended", said(ready))
end

-- A refusal is a fault unless Degraded says that it is none: a model or a Secret that is still to come is waited for.
local accepted = condition("Accepted")
local degraded = condition("Degraded")
if accepted.status == "False" and degraded.status ~= "False" then
  return health("Degraded", said(accepted))
end
if degraded.status == "True" then
  -- All replicas serve, only their number does not follow the load.
  if degraded.reason == "AutoscalingInactive" and ready.status == "True" then
    return health("Healthy", said(degraded))
  end
  return health("Degraded", said(degraded))
end

if ready.status == "True" then
  return health("Healthy", said(ready))
end
return health("Progressing", said(ready))
