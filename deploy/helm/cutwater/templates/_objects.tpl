{{/* What workloads need beside them: files, accounts, services, budgets. */}}

{{- define "cutwater.jobFiles" -}}
{{ .job }}.yaml: {{ .file | quote }}
{{- range $name, $text := .files }}
{{ $name }}: {{ $text | quote }}
{{- end }}
{{- end }}

{{- define "cutwater.config" -}}
---
apiVersion: v1
kind: ConfigMap
{{ include "cutwater.metadata" (merge (dict "component" "job") .) }}
data:
  {{- include "cutwater.jobFiles" . | nindent 2 }}
{{- end }}

{{- define "cutwater.account" -}}
{{- $own := index .values (include "cutwater.key" .) -}}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "cutwater.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "cutwater.labels" . | nindent 4 }}
  {{- with $own.serviceAccountAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}

{{/* One for each component: names of single pods, and what Prometheus reads. */}}
{{- define "cutwater.headless" -}}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ include "cutwater.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "cutwater.labels" . | nindent 4 }}
    cutwater-scraped-as: {{ dig .component "scraped" "" (include "cutwater.ports" . | fromYaml) }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true  # peers and the watch ask a rehydrator that is not ready too
  selector:
    {{- include "cutwater.selector" . | nindent 4 }}
  ports:
    - {name: http, port: {{ include "cutwater.port" . }}, targetPort: http, protocol: TCP}
{{- end }}

{{/* For users. Any owner or standby that is ready answers for all partitions. */}}
{{- define "cutwater.viewService" -}}
---
apiVersion: v1
kind: Service
{{ include "cutwater.metadata" (merge (dict "component" .service) .) }}
spec:
  type: ClusterIP
  selector:
    app.kubernetes.io/name: cutwater
    app.kubernetes.io/instance: {{ .root.Release.Name }}
    cutwater-job: {{ .job }}
    {{- if eq .component "reader" }}
    app.kubernetes.io/component: reader
    {{- else }}
    cutwater-view: shares
    {{- end }}
  ports:
    - {name: http, port: 8321, targetPort: http, protocol: TCP}
{{- end }}

{{- define "cutwater.budget" -}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
{{ include "cutwater.metadata" . }}
spec:
  maxUnavailable: {{ (index .values (include "cutwater.key" .)).disruptionsAllowed }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    {{- if eq .component "driver" }}
    matchLabels:
      {{- include "cutwater.selector" . | nindent 6 }}
    {{- else }}
    {{- include "cutwater.viewSelector" . | nindent 4 }}
    {{- end }}
{{- end }}

{{- define "cutwater.serviceMonitor" -}}
{{- $token := ternary .values.auth.metricsToken .values.auth.apiToken (ne .values.auth.metricsToken.existingSecret "") -}}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ printf "%s-%s" .root.Release.Name .job }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    app.kubernetes.io/name: cutwater
    app.kubernetes.io/instance: {{ .root.Release.Name }}
    cutwater-job: {{ .job }}
    {{- with .values.serviceMonitor.labels }}{{- toYaml . | nindent 4 }}{{- end }}
spec:
  # Prometheus' label `job`: two rules of deploy/prometheus/alerts.yml and the dashboards use these names.
  jobLabel: cutwater-scraped-as
  targetLabels: [cutwater-job]
  selector:
    matchLabels:
      app.kubernetes.io/name: cutwater
      app.kubernetes.io/instance: {{ .root.Release.Name }}
      cutwater-job: {{ .job }}
    matchExpressions:
      - {key: cutwater-scraped-as, operator: Exists}
  endpoints:
    - port: http
      path: /metrics
      interval: {{ .values.serviceMonitor.interval }}
      {{- with $token.existingSecret }}
      authorization:
        type: Bearer
        credentials: {name: {{ . }}, key: {{ $token.key }}}
      {{- end }}
{{- end }}
