{{- define "crore.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "crore.selector" -}}
app.kubernetes.io/name: crore
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "crore.labels" -}}
{{ include "crore.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "crore.ticketsSecret" -}}
{{- .Values.tickets.existingSecret | default (printf "%s-tickets" (include "crore.name" .)) -}}
{{- end -}}
