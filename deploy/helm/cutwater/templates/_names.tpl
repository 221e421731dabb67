{{/*
Names, labels and addresses. Every template gets a context: root (the chart's own), job (its name), values (those of
the job: the chart's, and what the job overrides), spec (the parsed job file), and mostly component (in kebab case).
*/}}

{{- define "cutwater.name" -}}
{{ printf "%s-%s-%s" .root.Release.Name .job .component }}
{{- end }}

{{- define "cutwater.selector" -}}
app.kubernetes.io/name: cutwater
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
cutwater-job: {{ .job }}
{{- end }}

{{- define "cutwater.labels" -}}
{{ include "cutwater.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "cutwater.metadata" -}}
metadata:
  name: {{ include "cutwater.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "cutwater.labels" . | nindent 4 }}
{{- end }}

{{/* The values of a component: `rehydrator` has those of standbys too. */}}
{{- define "cutwater.key" -}}
{{ dict "driver" "driver" "commit-signal" "commitSignal" "publisher" "publisher" "watch" "watch" "rehydrator" "rehydrator" "standby" "rehydrator" "reader" "readers" "mirror" "mirror" "topics" "topics" "executor" "driver" | dig .component "" }}
{{- end }}

{{/* The port of each component, as in docker-compose.yml; the setting that has it; the name that its metrics have. */}}
{{- define "cutwater.ports" -}}
driver: {port: 9101, setting: DRIVER_PORT, scraped: driver}
commit-signal: {port: 9102, setting: SIGNAL_PORT, scraped: commit-signal}
publisher: {port: 9103, setting: PUBLISHER_PORT, scraped: publisher}
watch: {port: 9104, setting: WATCH_PORT, scraped: watch}
mirror: {port: 9105, setting: MIRROR_PORT, scraped: mirror}
rehydrator: {port: 8321, setting: PORT, scraped: rehydrator}
standby: {port: 8321, setting: PORT, scraped: rehydrator}
reader: {port: 8321, setting: PORT, scraped: rehydrator}
{{- end }}

{{- define "cutwater.port" -}}
{{ dig .component "port" 0 (include "cutwater.ports" . | fromYaml) }}
{{- end }}

{{/* The address of one pod of a StatefulSet. `at`: its number, or $(POD_NAME) of itself. */}}
{{- define "cutwater.podUrl" -}}
{{- $set := include "cutwater.name" . -}}
{{- $pod := ternary (printf "%s-%v" $set .at) (toString .at) (kindIs "int" .at) -}}
{{ printf "http://%s.%s.%s.svc.%s:8321" $pod $set .root.Release.Namespace .values.clusterDomain }}
{{- end }}

{{/* Owners with commas, the standbys of each behind bars: CUTWATER_PEERS, and what the watch asks. */}}
{{- define "cutwater.owners" -}}
{{- $owners := int .values.rehydrator.owners -}}
{{- $standbys := int .values.rehydrator.standbys -}}
{{- $groups := list -}}
{{- range $owner := until $owners -}}
{{- $group := list (include "cutwater.podUrl" (merge (dict "component" "rehydrator" "at" $owner) $)) -}}
{{- range $number := until $standbys -}}
{{- $group = append $group (include "cutwater.podUrl" (merge (dict "component" "standby" "at" (add (mul $number $owners) $owner | int)) $)) -}}
{{- end -}}
{{- $groups = append $groups (join "|" $group) -}}
{{- end -}}
{{ join "," $groups }}
{{- end }}

{{/* Empty for a lone rehydrator. */}}
{{- define "cutwater.peers" -}}
{{- if gt (add (int .values.rehydrator.owners) (int .values.rehydrator.standbys)) 1 -}}
{{ include "cutwater.owners" . }}
{{- end -}}
{{- end }}

{{- define "cutwater.image" -}}
{{- $image := index .values.image (ternary "spark" "service" (has .component (list "driver" "executor"))) -}}
{{- if $image.digest -}}
{{ printf "%s@%s" $image.repository $image.digest }}
{{- else -}}
{{ printf "%s:%s" $image.repository (default .root.Chart.AppVersion $image.tag) }}
{{- end -}}
{{- end }}

{{/* Whether a component of a job runs: "true" or nothing. */}}
{{- define "cutwater.runs" -}}
{{- $values := index .values (include "cutwater.key" .) -}}
{{- $runs := $values.enabled -}}
{{- if eq .component "publisher" -}}
{{- $runs = and $runs (ne (dig "output" "mode" "" .spec) "none") -}}
{{- else if eq .component "standby" -}}
{{- $runs = and $runs (gt (int $values.standbys) 0) -}}
{{- else if eq .component "executor" -}}
{{- $runs = and $runs (eq $values.spark.mode "kubernetes") -}}
{{- end -}}
{{- if $runs -}}true{{- end -}}
{{- end }}
