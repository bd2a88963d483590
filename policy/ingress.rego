# What lets the world in speaks TLS, and sends plain HTTP there.
package main

import rego.v1

deny contains message if {
	input.kind == "Ingress"
	count(object.get(input.spec, "tls", [])) == 0
	message := sprintf("Ingress %s: spec.tls is not set: API keys would cross the network in the clear", [input.metadata.name])
}

deny contains message if {
	input.kind == "Ingress"
	some suffix in ["ssl-redirect", "force-ssl-redirect"]
	name := sprintf("nginx.ingress.kubernetes.io/%s", [suffix])
	object.get(input.metadata, ["annotations", name], "true") == "false"
	message := sprintf("Ingress %s: annotation %s: plain HTTP would be answered instead of redirected", [input.metadata.name, name])
}

# A Gateway's plain listener is for routes that do nothing but redirect.
deny contains message if {
	input.kind == "HTTPRoute"
	some parent in input.spec.parentRefs
	parent.sectionName == "http"
	not redirects
	message := sprintf(
		"HTTPRoute %s: is on the listener http: its rules must be a RequestRedirect with scheme https",
		[input.metadata.name],
	)
}

redirects if {
	every rule in input.spec.rules {
		some filter in rule.filters
		filter.type == "RequestRedirect"
		filter.requestRedirect.scheme == "https"
	}
}
