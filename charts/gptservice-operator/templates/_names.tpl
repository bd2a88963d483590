{{/* Name of every object: the release's, with the chart's in it once. */}}
{{- define "gptservice-operator.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 53 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "gptservice-operator.selector" -}}
app.kubernetes.io/name: gptservice-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* Without what Flux adds to a version for each commit: no label may have a `+`, and no commit is to restart the operator. */}}
{{- define "gptservice-operator.labels" -}}
{{ include "gptservice-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | splitList "+" | first) }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Of every object but the CRDs, which carry an annotation of their own. */}}
{{- define "gptservice-operator.marks" -}}
labels:
  {{- include "gptservice-operator.labels" . | nindent 2 }}
{{- with .Values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* A quantity as text. Go prints a whole number of a values file that has seven digits as 8.589934592e+09; JSON does not. */}}
{{- define "gptservice-operator.quantity" -}}
{{ toJson . | trimAll "\"" | quote }}
{{- end -}}

{{- define "gptservice-operator.image" -}}
{{- with .Values.image -}}
{{ if .digest }}{{ printf "%s@%s" .repository .digest }}{{ else }}{{ printf "%s:%s" .repository .tag }}{{ end }}
{{- end -}}
{{- end -}}

{{- /*
The names of its rights, the same for every release: Helm refuses a second operator for the same namespaces, or one in the
same namespace as another, with which it would share the Lease.
*/}}
{{- define "gptservice-operator.rights" -}}
gptservice-operator
{{- end -}}
