{{- define "kvchaos.name" -}}
{{- if contains .Chart.Name .Release.Name -}}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "kvchaos.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kvchaos.labels" -}}
{{ include "kvchaos.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "kvchaos.hardened" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* What a change of needs a restart. The faults are not in it: they are reloaded. */}}
{{- define "kvchaos.staticConfig" -}}
version: 1
listen:
  cache: unix:/run/kvchaos/cache.sock
  control: {{ if .Values.control.expose }}0.0.0.0:{{ .Values.control.port }}{{ else }}unix:/run/kvchaos-control/control.sock{{ end }}
  http: 0.0.0.0:{{ .Values.sidecar.httpPort }}
  {{- if .Values.control.expose }}
  tls: {certificate: /etc/kvchaos-tls/tls.crt, key: /etc/kvchaos-tls/tls.key}
  token_file: /etc/kvchaos-token/token
  {{- end }}
handoff:
  allow_uids:
    - {{ .Values.cacheServer.runAsUser | int64 }}
    {{- if and .Values.blend.enabled (ne (int64 .Values.blend.runAsUser) (int64 .Values.cacheServer.runAsUser)) }}
    - {{ .Values.blend.runAsUser | int64 }}
    {{- end }}
backend:
  {{- .Values.config.backend | default (dict "type" "redis" "host" "redis") | toYaml | nindent 2 }}
{{- with .Values.config.environment }}
environment: {{ . | quote }}
{{- end }}
{{- with .Values.config.safety }}
safety:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.config.limits }}
limits:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
