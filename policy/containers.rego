# Containers of everything that has pods: memory bounded, images pinned, no privilege.
package main

import rego.v1

# The pod of a workload, or nothing for what has none.
pod := input.spec if input.kind == "Pod"

pod := input.spec.template.spec if input.kind in {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"}

pod := input.spec.jobTemplate.spec.template.spec if input.kind == "CronJob"

containers contains container if some container in pod.containers

containers contains container if some container in pod.initContainers

where(container) := sprintf("%s %s, container %s", [input.kind, input.metadata.name, container.name])

deny contains message if {
	some container in containers
	not container.resources.limits.memory
	message := sprintf("%s: resources.limits.memory is not set: one pod could take the node's memory", [where(container)])
}

deny contains message if {
	some container in containers
	not container.resources.requests.memory
	not container.resources.limits.memory
	message := sprintf("%s: resources.requests.memory is not set: the scheduler would count it as nothing", [where(container)])
}

deny contains message if {
	some container in containers
	not pinned(container.image)
	message := sprintf("%s: image %s: name a tag other than latest, or a digest", [where(container), container.image])
}

pinned(image) if contains(image, "@sha256:")

pinned(image) if {
	parts := split(image, "/")
	[_, tag] := split(parts[count(parts) - 1], ":")
	tag != "latest"
}

deny contains message if {
	some container in containers
	container.securityContext.privileged
	message := sprintf("%s: securityContext.privileged: it would own the node", [where(container)])
}

deny contains message if {
	some container in containers
	not container.securityContext.allowPrivilegeEscalation == false
	message := sprintf("%s: securityContext.allowPrivilegeEscalation must be false", [where(container)])
}

deny contains message if {
	some container in containers
	not "ALL" in object.get(container, ["securityContext", "capabilities", "drop"], [])
	message := sprintf("%s: securityContext.capabilities.drop must hold ALL", [where(container)])
}

deny contains message if {
	some container in containers
	count(object.get(container, ["securityContext", "capabilities", "add"], [])) > 0
	message := sprintf("%s: securityContext.capabilities.add must be empty", [where(container)])
}

deny contains message if {
	some container in containers
	not container.securityContext.readOnlyRootFilesystem
	message := sprintf("%s: securityContext.readOnlyRootFilesystem must be true", [where(container)])
}

deny contains message if {
	some container in containers
	not object.get(pod, ["securityContext", "runAsNonRoot"], false)
	not object.get(container, ["securityContext", "runAsNonRoot"], false)
	message := sprintf("%s: runAsNonRoot must be true", [where(container)])
}

deny contains message if {
	some field in ["hostNetwork", "hostPID", "hostIPC"]
	pod[field]
	message := sprintf("%s %s: %s: the pod would share it with the node", [input.kind, input.metadata.name, field])
}

deny contains message if {
	some volume in pod.volumes
	volume.hostPath
	message := sprintf("%s %s: volume %s: hostPath: a folder of the node", [input.kind, input.metadata.name, volume.name])
}
