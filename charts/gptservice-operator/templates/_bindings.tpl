{{- define "gptservice-operator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "gptservice-operator.name" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{- /* Gives the operator a ClusterRole everywhere: (list $ the role's name). */}}
{{- define "gptservice-operator.cluster-binding" -}}
{{- $root := index . 0 -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ index . 1 }}
  {{- include "gptservice-operator.marks" $root | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ index . 1 }}
subjects:
  {{- include "gptservice-operator.subjects" $root | nindent 2 }}
{{- end -}}

{{- /* Gives the operator a Role: (list $ the role's name and namespace). */}}
{{- define "gptservice-operator.binding" -}}
{{- $root := index . 0 -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ index . 1 }}
  namespace: {{ index . 2 }}
  {{- include "gptservice-operator.marks" $root | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ index . 1 }}
subjects:
  {{- include "gptservice-operator.subjects" $root | nindent 2 }}
{{- end -}}
