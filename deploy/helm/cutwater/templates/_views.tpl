{{/* Rehydrators: owners and standbys, which share the partitions, and readers, which each hold the whole view. */}}

{{- define "cutwater.viewSet" -}}
{{- $own := .values.rehydrator -}}
---
apiVersion: apps/v1
kind: StatefulSet
{{ include "cutwater.metadata" . }}
spec:
  replicas: {{ ternary (int $own.owners) (mul (int $own.owners) (int $own.standbys)) (eq .component "rehydrator") }}
  serviceName: {{ include "cutwater.name" . }}
  podManagementPolicy: Parallel
  revisionHistoryLimit: 3
  selector:
    matchLabels:
      {{- include "cutwater.selector" . | nindent 6 }}
  persistentVolumeClaimRetentionPolicy:
    whenDeleted: {{ $own.storage.retention.whenDeleted }}
    whenScaled: {{ $own.storage.retention.whenScaled }}
  template:
    {{- include "cutwater.podMetadata" . | nindent 4 }}
    spec:
      {{- include "cutwater.podFrame" . | nindent 6 }}
      {{- include "cutwater.apart" . | nindent 6 }}
      containers:
        - {{- include "cutwater.container" . | nindent 10 }}
          args: [cutwater.rehydrator, /etc/cutwater/{{ .job }}.yaml]
      volumes:
        {{- include "cutwater.volumes" . | nindent 8 }}
  volumeClaimTemplates:
    - metadata:
        name: data
        labels:
          {{- include "cutwater.selector" . | nindent 10 }}
      spec:
        {{- include "cutwater.claim" $own.storage | nindent 8 }}
{{- end }}

{{/* Owners and standbys of one job on different nodes, as far as there are some. */}}
{{- define "cutwater.apart" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      {{- include "cutwater.viewSelector" . | nindent 6 }}
{{- end }}

{{- define "cutwater.viewSelector" -}}
{{- if eq .component "reader" -}}
matchLabels:
  {{- include "cutwater.selector" . | nindent 2 }}
{{- else -}}
matchLabels:
  app.kubernetes.io/name: cutwater
  app.kubernetes.io/instance: {{ .root.Release.Name }}
  cutwater-job: {{ .job }}
  cutwater-view: shares
{{- end -}}
{{- end }}

{{- define "cutwater.readers" -}}
{{- $own := .values.readers -}}
---
apiVersion: apps/v1
kind: Deployment
{{ include "cutwater.metadata" . }}
spec:
  {{- if not $own.autoscaling.enabled }}
  replicas: {{ $own.replicas }}
  {{- end }}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  revisionHistoryLimit: 3
  selector:
    matchLabels:
      {{- include "cutwater.selector" . | nindent 6 }}
  template:
    {{- include "cutwater.podMetadata" . | nindent 4 }}
    spec:
      {{- include "cutwater.podFrame" . | nindent 6 }}
      {{- include "cutwater.apart" . | nindent 6 }}
      containers:
        - {{- include "cutwater.container" . | nindent 10 }}
          args: [cutwater.rehydrator, /etc/cutwater/{{ .job }}.yaml]
      volumes:
        {{- include "cutwater.volumes" . | nindent 8 }}
{{- end }}

{{- define "cutwater.autoscaler" -}}
{{- $scaling := .values.readers.autoscaling -}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
{{ include "cutwater.metadata" . }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ include "cutwater.name" . }}}
  minReplicas: {{ $scaling.minReplicas }}
  maxReplicas: {{ $scaling.maxReplicas }}
  metrics:
    {{- with $scaling.cpuPercent }}
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: {{ . }}}}
    {{- end }}
    {{- with $scaling.requestsInProgress }}
    - type: Pods
      pods: {metric: {name: cutwater_http_requests}, target: {type: AverageValue, averageValue: {{ . | quote }}}}
    {{- end }}
    {{- with $scaling.backlogMilestones }}
    - type: Pods
      pods: {metric: {name: cutwater_view_backlog_milestones}, target: {type: AverageValue, averageValue: {{ . | quote }}}}
    {{- end }}
  behavior:
    scaleUp:
      stabilizationWindowSeconds: {{ $scaling.scaleUp.stabilizationSeconds }}
      selectPolicy: Max
      policies:
        - {type: Pods, value: {{ $scaling.scaleUp.pods }}, periodSeconds: {{ $scaling.scaleUp.periodSeconds }}}
        - {type: Percent, value: {{ $scaling.scaleUp.percent }}, periodSeconds: {{ $scaling.scaleUp.periodSeconds }}}
    scaleDown:
      stabilizationWindowSeconds: {{ $scaling.scaleDown.stabilizationSeconds }}
      policies:
        - {type: Pods, value: {{ $scaling.scaleDown.pods }}, periodSeconds: {{ $scaling.scaleDown.periodSeconds }}}
{{- end }}
