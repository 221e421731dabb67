{{/*
Executors as pods. Spark's own settings and the template of an executor are files of a ConfigMap. The images' entry
point is Python; so the template starts the executor itself, as Spark's own image does.
*/}}

{{- define "cutwater.sparkConfig" -}}
{{- $spark := .values.driver.spark -}}
---
apiVersion: v1
kind: ConfigMap
{{ include "cutwater.metadata" (merge (dict "component" "spark") .) }}
data:
  spark-defaults.conf: |
    spark.kubernetes.namespace {{ .root.Release.Namespace }}
    spark.kubernetes.container.image {{ include "cutwater.image" (merge (dict "component" "executor") .) }}
    spark.kubernetes.container.image.pullPolicy {{ .values.image.pullPolicy }}
    {{- with .values.image.pullSecrets }}
    spark.kubernetes.container.image.pullSecrets {{ join "," . }}
    {{- end }}
    spark.kubernetes.authenticate.executor.serviceAccountName {{ include "cutwater.name" (merge (dict "component" "executor") .) }}
    spark.kubernetes.executor.podTemplateFile /etc/spark/executor.yaml
    spark.kubernetes.executor.podTemplateContainerName executor
    spark.kubernetes.driver.ownPersistentVolumeClaim false
    spark.kubernetes.driver.reusePersistentVolumeClaim false
    spark.driver.port 7078
    spark.blockManager.port 7079
    spark.dynamicAllocation.enabled false
    spark.executor.instances {{ $spark.executors.instances }}
    spark.executor.cores {{ $spark.executors.cores }}
    spark.kubernetes.executor.request.cores {{ $spark.executors.cpu }}
    spark.executor.memory {{ $spark.executors.memory }}
    spark.executor.memoryOverhead {{ $spark.executors.memoryOverhead }}
  executor.yaml: |
    {{- include "cutwater.executorPod" (merge (dict "component" "executor") .) | nindent 4 }}
{{- end }}

{{/* Of a size as Java writes it: 512m, 2g. */}}
{{- define "cutwater.mebibytes" -}}
{{- $number := regexFind "^[0-9]+" . | int -}}
{{ ternary (mul 1024 $number) $number (hasSuffix "g" .) }}
{{- end }}

{{- define "cutwater.executorPod" -}}
{{- $executors := .values.driver.spark.executors -}}
apiVersion: v1
kind: Pod
metadata:
  labels:
    {{- include "cutwater.selector" . | nindent 4 }}
spec:
  {{- include "cutwater.podFrame" . | nindent 2 }}
  containers:
    - name: executor
      image: {{ include "cutwater.image" . }}
      {{- include "cutwater.rights" . | nindent 6 }}
      resources:
        # Spark writes the same.
        {{- $memory := printf "%dMi" (add (include "cutwater.mebibytes" $executors.memory | int) (include "cutwater.mebibytes" $executors.memoryOverhead | int)) }}
        requests: {cpu: {{ $executors.cpu | quote }}, memory: {{ $memory }}}
        limits: {memory: {{ $memory }}}
      env:
        {{- include "cutwater.executorEnv" . | nindent 8 }}
      command:
        - bash
        - -c
        - |
          mapfile -t options < <(env | grep '^SPARK_JAVA_OPT_' | sort -t_ -k4 -n | sed 's/^[^=]*=//')
          exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
            -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*" \
            org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
            --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
            --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
            --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        {{- include "cutwater.tlsMounts" . | nindent 8 }}
  volumes:
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
    {{- include "cutwater.tlsVolumes" . | nindent 4 }}
{{- end }}

{{/* What Spark's driver does with the API of Kubernetes: its executors' pods, and the ConfigMap of their settings. */}}
{{- define "cutwater.sparkRights" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
{{ include "cutwater.metadata" . }}
rules:
  - apiGroups: [""]
    resources: [pods]
    verbs: [create, get, list, watch, patch, delete, deletecollection]
  - apiGroups: [""]
    resources: [configmaps]
    verbs: [create, get, list, delete, deletecollection]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
{{ include "cutwater.metadata" . }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ include "cutwater.name" . }}}
subjects:
  - {kind: ServiceAccount, name: {{ include "cutwater.name" . }}, namespace: {{ .root.Release.Namespace }}}
{{- end }}
