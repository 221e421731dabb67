{{/* Which pods may talk to which: nothing but what is written here. */}}

{{- define "cutwater.denyAll" -}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .Release.Name }}-deny
  namespace: {{ .Release.Namespace }}
  labels:
    app.kubernetes.io/name: cutwater
    app.kubernetes.io/instance: {{ .Release.Name }}
    app.kubernetes.io/managed-by: {{ .Release.Service }}
spec:
  podSelector:
    matchLabels:
      app.kubernetes.io/name: cutwater
      app.kubernetes.io/instance: {{ .Release.Name }}
  policyTypes: [Ingress, Egress]
{{- end }}

{{- define "cutwater.networkPolicy" -}}
{{- $rules := .values.networkPolicy -}}
{{- $ingress := include "cutwater.ingress" . | trim -}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
{{ include "cutwater.metadata" . }}
spec:
  podSelector:
    matchLabels:
      {{- include "cutwater.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  {{- with $ingress }}
  ingress:
    {{- . | nindent 4 }}
  {{- end }}
  egress:
    - to: {{ $rules.dns | toJson }}
      ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
    {{- include "cutwater.outside" (dict "rule" $rules.kafka "address" .values.kafka.bootstrapServers "default" 9092) | nindent 4 }}
    {{- include "cutwater.egress" . | trim | nindent 4 }}
{{- end }}

{{/* Egress to what is not part of the release. `address`: host:port or a URL, also us=URL; several with commas. */}}
{{- define "cutwater.outside" -}}
{{- $ports := .rule.ports -}}
{{- if not $ports -}}
{{- range splitList "," (toString .address) -}}
{{- $bare := regexReplaceAll "/.*$" (regexReplaceAll "^.*://" (trim .) "") "" -}}
{{- $port := regexFind ":[0-9]+$" $bare | trimPrefix ":" -}}
{{- if not $port -}}{{- $port = ternary "80" (toString $.default) (contains "http://" .) -}}{{- end -}}
{{- $ports = append $ports (int $port) -}}
{{- end -}}
{{- end -}}
- ports:
    {{- range $ports | uniq }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
  {{- with .rule.to }}
  to: {{ . | toJson }}
  {{- end }}
{{- end }}

{{- define "cutwater.egress" -}}
{{- $rules := .values.networkPolicy -}}
{{- $origin := .values.origin -}}
{{- $registry := default (dig "registry" "url" "" .spec) .values.registry.url -}}
{{- $view := has .component (list "rehydrator" "standby" "reader") -}}
{{- if and $origin.region (has .component (list "driver" "commit-signal" "mirror")) }}
{{ include "cutwater.outside" (dict "rule" $rules.origin "address" $origin.bootstrapServers "default" 9092) }}
{{- end }}
{{- if and $registry (has .component (list "driver" "publisher" "mirror")) }}
{{ include "cutwater.outside" (dict "rule" $rules.registry "address" $registry "default" 443) }}
{{- end }}
{{- if and $origin.region $origin.registry.url (eq .component "mirror") }}
{{ include "cutwater.outside" (dict "rule" $rules.registry "address" $origin.registry.url "default" 443) }}
{{- end }}
{{- if include "cutwater.usesStore" . }}
{{ include "cutwater.outside" (dict "rule" $rules.objectStore "address" (default "https://store" .values.objectStore.endpoint) "default" 443) }}
{{- end }}
{{- if and $view .values.regions.urls }}
{{ include "cutwater.outside" (dict "rule" $rules.regions "address" (.values.regions.urls | replace "|" ",") "default" 443) }}
{{- end }}
{{- if and (eq .component "watch") .values.alerts.webhook.existingSecret }}
{{ include "cutwater.outside" (dict "rule" $rules.webhook "address" "" "default" 443) }}
{{- end }}
{{- with include "cutwater.tracesUrl" . }}
{{ include "cutwater.outside" (dict "rule" $rules.traces "address" . "default" 443) }}
{{- end }}
{{- if and (eq .component "driver") (eq .values.driver.spark.mode "kubernetes") }}
{{ include "cutwater.outside" (dict "rule" $rules.apiServer "address" "" "default" 443) }}
{{- end }}
{{- include "cutwater.toPods" . }}
{{- end }}

{{/* Where a component sends traces. Nothing for one that sends none. */}}
{{- define "cutwater.tracesUrl" -}}
{{- if has .component (list "driver" "mirror" "watch") -}}{{ .values.traces.url }}{{- end -}}
{{- end }}

{{/* Whether a component reads or writes an object store: "true" or nothing. */}}
{{- define "cutwater.usesStore" -}}
{{- $snapshots := and .values.snapshots.location (has .component (list "rehydrator" "standby" "reader" "driver")) -}}
{{- $checkpoint := and .values.driver.checkpoint (has .component (list "driver" "executor")) -}}
{{- if or $snapshots $checkpoint -}}true{{- end -}}
{{- end }}

{{/* The flows between pods of one job, by source: who is asked, at which ports. */}}
{{- define "cutwater.flows" -}}
watch: [{to: [rehydrator, standby], ports: [8321]}]
{{- if include "cutwater.peers" . }}
rehydrator: [{to: [rehydrator, standby], ports: [8321]}]
standby: [{to: [rehydrator, standby], ports: [8321]}]
{{- end }}
driver: [{to: [executor], ports: [7079]}]
executor: [{to: [driver], ports: [7078, 7079]}, {to: [executor], ports: [7079]}]
{{- end }}

{{- define "cutwater.podsOf" -}}
podSelector:
  matchLabels:
    app.kubernetes.io/name: cutwater
    app.kubernetes.io/instance: {{ .root.Release.Name }}
    cutwater-job: {{ .job }}
  matchExpressions:
    - {key: app.kubernetes.io/component, operator: In, values: {{ .components | toJson }}}
{{- end }}

{{- define "cutwater.toPods" -}}
{{- range $flow := dig .component list (include "cutwater.flows" . | fromYaml) -}}
{{- $running := list -}}
{{- range $flow.to -}}
{{- if include "cutwater.runs" (merge (dict "component" .) $) -}}{{- $running = append $running . -}}{{- end -}}
{{- end -}}
{{- if $running }}
- to:
    - {{- include "cutwater.podsOf" (merge (dict "components" $running) $) | nindent 6 }}
  ports: [{{ range $at, $port := $flow.ports }}{{ if $at }}, {{ end }}{port: {{ $port }}, protocol: TCP}{{ end }}]
{{- end }}
{{- end }}
{{- end }}

{{- define "cutwater.ingress" -}}
{{- $rules := .values.networkPolicy -}}
{{- $port := include "cutwater.port" . -}}
{{- range $source, $flows := include "cutwater.flows" . | fromYaml -}}
{{- if include "cutwater.runs" (merge (dict "component" $source) $) -}}
{{- range $flow := $flows -}}
{{- if has $.component $flow.to }}
- from:
    - {{- include "cutwater.podsOf" (merge (dict "components" (list $source)) $) | nindent 6 }}
  ports: [{{ range $at, $one := $flow.ports }}{{ if $at }}, {{ end }}{port: {{ $one }}, protocol: TCP}{{ end }}]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if and $rules.clients (has .component (list "rehydrator" "standby" "reader")) }}
- from: {{ $rules.clients | toJson }}
  ports: [{port: {{ $port }}, protocol: TCP}]
{{- end }}
{{- if and $rules.monitoring (ne .component "executor") (ne .component "topics") }}
- from: {{ $rules.monitoring | toJson }}
  ports: [{port: {{ $port }}, protocol: TCP}]
{{- end }}
{{- end }}
