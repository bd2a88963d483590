# Roles grant what is named, and no way to more.
package main

import rego.v1

is_role if input.kind in {"Role", "ClusterRole"}

deny contains message if {
	is_role
	some rule in input.rules
	some field in ["apiGroups", "resources", "verbs"]
	"*" in rule[field]
	message := sprintf("%s %s: %s: name them instead of *", [input.kind, input.metadata.name, field])
}

deny contains message if {
	is_role
	some rule in input.rules
	"secrets" in rule.resources
	some verb in rule.verbs
	verb != "create"
	message := sprintf("%s %s: secrets: %s: whoever may do that has every key in reach", [input.kind, input.metadata.name, verb])
}

deny contains message if {
	is_role
	some rule in input.rules
	some verb in rule.verbs
	verb in {"escalate", "bind", "impersonate"}
	message := sprintf("%s %s: %s: leads to any other right", [input.kind, input.metadata.name, verb])
}

deny contains message if {
	is_role
	some rule in input.rules
	some resource in rule.resources
	resource in {"pods/exec", "pods/attach", "nodes/proxy"}
	message := sprintf("%s %s: %s: leads into every pod", [input.kind, input.metadata.name, resource])
}
