{{/*
Pods: nobody's rights, a read-only root file system, two folders to write to, probes at the process' own port.
*/}}

{{/* Of every pod. shareProcessNamespace: its first process reaps what ends, as `init: true` of the compose file. */}}
{{- define "cutwater.podFrame" -}}
{{- $own := index .values (include "cutwater.key" .) -}}
serviceAccountName: {{ include "cutwater.name" . }}
automountServiceAccountToken: false
enableServiceLinks: false
shareProcessNamespace: true
terminationGracePeriodSeconds: {{ default 30 $own.terminationGracePeriodSeconds }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $own.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $own.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "cutwater.podMetadata" -}}
{{- $own := index .values (include "cutwater.key" .) -}}
metadata:
  labels:
    {{- include "cutwater.selector" . | nindent 4 }}
    {{- if has .component (list "rehydrator" "standby") }}
    cutwater-view: shares
    {{- end }}
    {{- with $own.podLabels }}{{- toYaml . | nindent 4 }}{{- end }}
  annotations:
    checksum/job: {{ include "cutwater.jobFiles" . | sha256sum }}
    {{- with $own.podAnnotations }}{{- toYaml . | nindent 4 }}{{- end }}
{{- end }}

{{- define "cutwater.rights" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* The only container of a pod, but for its command. */}}
{{- define "cutwater.container" -}}
{{- $own := index .values (include "cutwater.key" .) -}}
name: {{ .component }}
image: {{ include "cutwater.image" . }}
imagePullPolicy: {{ .values.image.pullPolicy }}
{{ include "cutwater.rights" . }}
resources:
  {{- toYaml $own.resources | nindent 2 }}
env:
  {{- include "cutwater.env" . | trim | nindent 2 }}
volumeMounts:
  {{- include "cutwater.mounts" . | nindent 2 }}
{{- if ne .component "topics" }}
ports:
  - {name: http, containerPort: {{ include "cutwater.port" . }}, protocol: TCP}
{{- if and (eq .component "driver") (eq $own.spark.mode "kubernetes") }}
  - {name: spark-rpc, containerPort: 7078, protocol: TCP}
  - {name: spark-blocks, containerPort: 7079, protocol: TCP}
{{- end }}
{{ include "cutwater.probes" . }}
{{- if has .component (list "rehydrator" "standby" "reader") }}
lifecycle:
  preStop: {exec: {command: [sleep, "5"]}}  # until no Service leads here any more
{{- end }}
{{- end }}
{{- end }}

{{/* /healthz answers as soon as the process has reached its brokers. /readyz of a view is 503 until it shows a milestone. */}}
{{- define "cutwater.probes" -}}
{{- $own := index .values (include "cutwater.key" .) -}}
startupProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 5
  timeoutSeconds: 4
  failureThreshold: {{ div (add (int $own.startupSeconds) 4) 5 }}
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  # A driver that has waited for another region's answer closes its port once more, until Spark has started.
  failureThreshold: {{ ternary 30 6 (eq .component "driver") }}
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 4
  failureThreshold: 2
{{- end }}

{{- define "cutwater.mounts" -}}
- {name: job, mountPath: /etc/cutwater, readOnly: true}
- {name: data, mountPath: /data}
- {name: tmp, mountPath: /tmp}
{{- include "cutwater.tlsMounts" . }}
{{- if and (eq .component "driver") (eq .values.driver.spark.mode "kubernetes") }}
- {name: spark, mountPath: /opt/cutwater/pyspark/conf/spark-defaults.conf, subPath: spark-defaults.conf, readOnly: true}
- {name: spark, mountPath: /etc/spark, readOnly: true}
- {name: api-token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}
{{- end }}

{{- define "cutwater.tlsMounts" -}}
{{- if .values.kafka.tls.existingSecret }}
- {name: kafka-tls, mountPath: /etc/kafka-tls, readOnly: true}
{{- end }}
{{- if and .values.origin.region .values.origin.tls.existingSecret (has .component (list "driver" "commit-signal" "mirror")) }}
- {name: origin-tls, mountPath: /etc/origin-tls, readOnly: true}
{{- end }}
{{- end }}

{{/* `data` is a claim of the set or the pod, or a folder that ends with the pod. */}}
{{- define "cutwater.volumes" -}}
- name: job
  configMap: {name: {{ include "cutwater.name" (merge (dict "component" "job") .) }}}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
{{- if not (has .component (list "rehydrator" "standby")) }}
- name: data
  {{- include "cutwater.dataVolume" . | nindent 2 }}
{{- end }}
{{- include "cutwater.tlsVolumes" . }}
{{- if and (eq .component "driver") (eq .values.driver.spark.mode "kubernetes") }}
- name: spark
  configMap: {name: {{ include "cutwater.name" (merge (dict "component" "spark") .) }}}
- name: api-token
  projected:
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3600}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
      - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- end }}
{{- end }}

{{- define "cutwater.tlsVolumes" -}}
{{- if .values.kafka.tls.existingSecret }}
- name: kafka-tls
  secret: {secretName: {{ .values.kafka.tls.existingSecret }}, defaultMode: 0440}
{{- end }}
{{- if and .values.origin.region .values.origin.tls.existingSecret (has .component (list "driver" "commit-signal" "mirror")) }}
- name: origin-tls
  secret: {secretName: {{ .values.origin.tls.existingSecret }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{- define "cutwater.dataVolume" -}}
{{- $own := index .values (include "cutwater.key" .) -}}
{{- if and (eq .component "driver") (not .values.driver.checkpoint) -}}
persistentVolumeClaim: {claimName: {{ include "cutwater.name" . }}}
{{- else if eq .component "reader" -}}
ephemeral:
  volumeClaimTemplate:
    metadata:
      labels:
        {{- include "cutwater.selector" . | nindent 8 }}
    spec:
      {{- include "cutwater.claim" $own.storage | nindent 6 }}
{{- else -}}
emptyDir: {sizeLimit: {{ dig "storage" "size" "1Gi" $own }}}
{{- end -}}
{{- end }}

{{- define "cutwater.claim" -}}
accessModes: {{ default (list "ReadWriteOnce") .accessModes | toJson }}
{{- with .className }}
storageClassName: {{ . }}
{{- end }}
resources: {requests: {storage: {{ .size }}}}
{{- end }}
