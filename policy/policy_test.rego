# conftest verify --policy policy
package main

import rego.v1

good_container := {
	"name": "engine", "image": "registry.example.com:5000/runtime:1.2",
	"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}},
	"securityContext": {
		"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
		"capabilities": {"drop": ["ALL"]},
	},
}

unbounded_container := object.remove(good_container, ["resources"])

deployment_of(container) := {
	"kind": "Deployment", "metadata": {"name": "chat"},
	"spec": {"template": {"spec": {"securityContext": {"runAsNonRoot": true}, "containers": [container]}}},
}

deployment(changes) := deployment_of(object.union(good_container, changes))

pod_with(changes) := object.union(deployment({}), {"spec": {"template": {"spec": changes}}})

test_a_good_one_passes if count(deny) == 0 with input as deployment({})

test_memory if {
	some message in deny with input as deployment_of(unbounded_container)
	contains(message, "resources.limits.memory")
}

test_memory_of_init_containers if {
	fetch := object.union(unbounded_container, {"name": "fetch"})
	some message in deny with input as pod_with({"initContainers": [fetch]})
	contains(message, "container fetch: resources.limits.memory")
}

test_images if {
	every image in ["runtime", "runtime:latest", "registry.example.com:5000/runtime"] {
		some message in deny with input as deployment({"image": image})
		contains(message, "name a tag other than latest")
	}
	every image in ["runtime:1", "a/b:v2", "a@sha256:00"] {
		count(deny) == 0 with input as deployment({"image": image})
	}
}

test_privilege if {
	every change in [
		{"privileged": true}, {"allowPrivilegeEscalation": true}, {"capabilities": {"drop": []}},
		{"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}, {"readOnlyRootFilesystem": false},
	] {
		count(deny) > 0 with input as deployment({"securityContext": change})
	}
	every change in [
		{"hostNetwork": true}, {"hostPID": true}, {"hostIPC": true},
		{"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}, {"securityContext": {"runAsNonRoot": false}},
	] {
		count(deny) > 0 with input as pod_with(change)
	}
}

test_cron_jobs_too if {
	count(deny) > 0 with input as {
		"kind": "CronJob", "metadata": {"name": "night"},
		"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x:1"}]}}}}},
	}
}

role(rule) := {"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [rule]}

test_rights if {
	every rule in [
		{"apiGroups": ["*"], "resources": ["pods"], "verbs": ["get"]},
		{"apiGroups": [""], "resources": ["*"], "verbs": ["get"]},
		{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]},
		{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "get"]},
		{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]},
		{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["bind"]},
	] {
		count(deny) > 0 with input as role(rule)
	}
	count(deny) == 0 with input as role({"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]})
}

ingress(spec, annotations) := {"kind": "Ingress", "metadata": {"name": "i", "annotations": annotations}, "spec": spec}

test_ingress if {
	tls := {"tls": [{"secretName": "t"}]}
	count(deny) == 0 with input as ingress(tls, {})
	count(deny) > 0 with input as ingress({}, {})
	count(deny) > 0 with input as ingress(tls, {"nginx.ingress.kubernetes.io/ssl-redirect": "false"})
}

route(rules) := {
	"kind": "HTTPRoute", "metadata": {"name": "r"},
	"spec": {"parentRefs": [{"name": "gateway", "sectionName": "http"}], "rules": rules},
}

test_routes if {
	redirect := {"filters": [{"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}]}
	count(deny) == 0 with input as route([redirect])
	count(deny) > 0 with input as route([redirect, {"backendRefs": [{"name": "chat"}]}])
	count(deny) > 0 with input as route([{"filters": [{"type": "RequestRedirect", "requestRedirect": {"scheme": "http"}}]}])
}
