{{/* Workloads without a share of the state: each once, and the old one ends before the new one starts. */}}

{{- define "cutwater.single" -}}
{{- $modules := dict "driver" "cutwater_spark.driver" "commit-signal" "cutwater.commit_signal" "publisher" "cutwater.publisher" "watch" "cutwater.watch" -}}
---
apiVersion: apps/v1
kind: Deployment
{{ include "cutwater.metadata" . }}
spec:
  replicas: 1
  strategy: {type: Recreate}
  revisionHistoryLimit: 3
  selector:
    matchLabels:
      {{- include "cutwater.selector" . | nindent 6 }}
  template:
    {{- include "cutwater.podMetadata" . | nindent 4 }}
    spec:
      {{- include "cutwater.podFrame" . | nindent 6 }}
      containers:
        - {{- include "cutwater.container" . | nindent 10 }}
          args: [{{ index $modules .component }}, /etc/cutwater/{{ .job }}.yaml]
      volumes:
        {{- include "cutwater.volumes" . | nindent 8 }}
{{- end }}

{{/* A Job, since a mirror that was fenced must not come back by itself (docs/FAILOVER.md), and a Deployment restarts always. */}}
{{- define "cutwater.mirrorJob" -}}
{{- $template := include "cutwater.mirrorPod" . -}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ printf "%s-%s" (include "cutwater.name" .) (sha256sum (printf "%s %v" $template .values.mirror.run) | trunc 8) }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "cutwater.labels" . | nindent 4 }}
spec:
  parallelism: 1
  completions: 1
  backoffLimit: 1000000
  # A pod that still ends must not have a successor beside it.
  podReplacementPolicy: Failed
  podFailurePolicy:
    rules:
      # 6: fenced by a failover or a resync. 2: a setting or right is wrong. 5, 7: what was found contradicts itself.
      - action: FailJob
        onExitCodes: {containerName: mirror, operator: In, values: [2, 5, 6, 7]}
      - action: Ignore
        onPodConditions: [{type: DisruptionTarget}]
  template:
    {{- $template | nindent 4 }}
{{- end }}

{{- define "cutwater.mirrorPod" -}}
{{ include "cutwater.podMetadata" . }}
spec:
  restartPolicy: Never
  {{- include "cutwater.podFrame" . | nindent 2 }}
  containers:
    - {{- include "cutwater.container" . | nindent 6 }}
      # A drained node asks the mirror to stop, and it ends with 0. For a Job that would be the end of its work.
      command:
        - bash
        - -c
        - |
          python3 -m cutwater.mirror "$1" & child=$!
          trap 'kill -TERM "$child"' TERM INT
          wait "$child"; code=$?
          while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
          [ "$code" != 0 ] || code=143
          exit "$code"
        - mirror
      args: [/etc/cutwater/{{ .job }}.yaml]
  volumes:
    {{- include "cutwater.volumes" . | nindent 4 }}
{{- end }}

{{/* A Job of this name runs once; another job file or setting makes another one. */}}
{{- define "cutwater.topicsJob" -}}
{{- $template := include "cutwater.topicsPod" . -}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ printf "%s-%s" (include "cutwater.name" .) (sha256sum $template | trunc 8) }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "cutwater.labels" . | nindent 4 }}
spec:
  backoffLimit: 20
  template:
    {{- $template | nindent 4 }}
{{- end }}

{{- define "cutwater.topicsPod" -}}
{{ include "cutwater.podMetadata" . }}
spec:
  restartPolicy: OnFailure
  {{- include "cutwater.podFrame" . | nindent 2 }}
  containers:
    - {{- include "cutwater.container" . | nindent 6 }}
      args: [cutwater.cli.main, prepare, /etc/cutwater/{{ .job }}.yaml{{ if .values.topics.source }}, --source{{ end }}]
  volumes:
    {{- include "cutwater.volumes" . | nindent 4 }}
{{- end }}

{{- define "cutwater.driverClaim" -}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ include "cutwater.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "cutwater.labels" . | nindent 4 }}
  annotations:
    helm.sh/resource-policy: keep  # the checkpoint: without it the generation ends
spec:
  {{- include "cutwater.claim" .values.driver.storage | nindent 2 }}
{{- end }}
