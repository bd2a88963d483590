-- Health of a GPTModel: an entry of the catalogue has no status, so it is healthy as soon as it exists.

local deleting = type(obj.metadata) == "table" and obj.metadata.deletionTimestamp ~= nil
if deleting then
  return { status = "Progressing", message = "The model is being deleted" }
end
return { status = "Healthy", message = "The model is in the catalogue" }
