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

{{- define "gptservice-operator.labels" -}}
{{ include "gptservice-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
