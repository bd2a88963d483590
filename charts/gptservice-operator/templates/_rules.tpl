{{- /* What the operator does where GPTServices are. */}}
{{- define "gptservice-operator.rules" -}}
- apiGroups: [ai.example.com]
  resources: [gptservices]
  verbs: [get, list, watch]
- apiGroups: [ai.example.com]
  resources: [gptservices/status]
  verbs: [patch]
# The children. Server-side apply is a patch, and a create where the object is new; owner references delete.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch]
# Revisions leave the history.
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, configmaps]
  verbs: [get, list, watch, create, patch]
# These come and go with the field that asks for them, but the claim, which goes with its GPTService only.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
# Children of kinds that come with other operators; where they are not installed, this grants nothing.
- apiGroups: [cert-manager.io]
  resources: [certificates]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [monitoring.coreos.com]
  resources: [podmonitors]
  verbs: [get, list, watch, create, patch, delete]
# What happens to the children's pods; one on a GPU that is called unhealthy goes.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, delete]
# Why one of them cannot start; and what happened to a service, one Event for each reason.
- apiGroups: [""]
  resources: [events]
  verbs: [list, create, patch]
# Generated API keys are made, and never read, changed or deleted.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
{{- end }}

{{- define "gptservice-operator.catalogue-rules" -}}
- apiGroups: [ai.example.com]
  resources: [gptmodels]
  verbs: [list, watch]
{{- end }}
