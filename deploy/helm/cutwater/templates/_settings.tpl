{{/*
The environment of a component. Secrets are named, never written; what is empty is left out, so that the process
keeps its default. docs/SETTINGS.md describes each variable.
*/}}

{{- define "cutwater.env" -}}
{{- $component := .component -}}
{{- $values := .values -}}
{{- $key := include "cutwater.key" . -}}
{{- $own := index $values $key -}}
{{- $view := has $component (list "rehydrator" "standby" "reader") -}}
{{- $plain := dict "CUTWATER_BOOTSTRAP_SERVERS" $values.kafka.bootstrapServers "CUTWATER_REGION" $values.region -}}
{{- $secrets := list -}}

{{- $_ := set $plain "CUTWATER_KAFKA_SECURITY_PROTOCOL" $values.kafka.securityProtocol -}}
{{- $_ := set $plain "CUTWATER_KAFKA_SASL_MECHANISM" $values.kafka.saslMechanism -}}
{{- $credentials := merge (dict "existingSecret" (dig $key $values.kafka.credentials.existingSecret $values.kafka.credentialsOf)) $values.kafka.credentials -}}
{{- $secrets = concat $secrets (include "cutwater.kafkaSecrets" (dict "prefix" "CUTWATER_KAFKA" "credentials" $credentials "tls" $values.kafka.tls) | fromYamlArray) -}}
{{- $_ := include "cutwater.tlsFiles" (dict "into" $plain "prefix" "CUTWATER_KAFKA" "folder" "/etc/kafka-tls" "tls" $values.kafka.tls) -}}

{{- if and $values.origin.region (has $component (list "driver" "commit-signal" "mirror")) -}}
{{- $_ := set $plain "CUTWATER_ORIGIN_REGION" $values.origin.region -}}
{{- $_ := set $plain "CUTWATER_ORIGIN_BOOTSTRAP_SERVERS" $values.origin.bootstrapServers -}}
{{- $_ := set $plain "CUTWATER_ORIGIN_KAFKA_SECURITY_PROTOCOL" $values.origin.securityProtocol -}}
{{- $_ := set $plain "CUTWATER_ORIGIN_KAFKA_SASL_MECHANISM" $values.origin.saslMechanism -}}
{{- $secrets = concat $secrets (include "cutwater.kafkaSecrets" (dict "prefix" "CUTWATER_ORIGIN_KAFKA" "credentials" $values.origin.credentials "tls" $values.origin.tls) | fromYamlArray) -}}
{{- $_ := include "cutwater.tlsFiles" (dict "into" $plain "prefix" "CUTWATER_ORIGIN_KAFKA" "folder" "/etc/origin-tls" "tls" $values.origin.tls) -}}
{{- if and (eq $component "mirror") $values.origin.registry.url -}}
{{- $_ := set $plain "CUTWATER_ORIGIN_REGISTRY_URL" $values.origin.registry.url -}}
{{- $secrets = concat $secrets (include "cutwater.user" (dict "prefix" "CUTWATER_ORIGIN_REGISTRY" "secret" $values.origin.registry) | fromYamlArray) -}}
{{- end -}}
{{- end -}}

{{- if has $component (list "driver" "publisher" "mirror") -}}
{{- $_ := set $plain "CUTWATER_REGISTRY_URL" $values.registry.url -}}
{{- $secrets = concat $secrets (include "cutwater.user" (dict "prefix" "CUTWATER_REGISTRY" "secret" $values.registry) | fromYamlArray) -}}
{{- end -}}

{{- if or $view (eq $component "driver") -}}
{{- $_ := set $plain "CUTWATER_S3_ENDPOINT" $values.objectStore.endpoint -}}
{{- $_ := set $plain "AWS_REGION" $values.objectStore.region -}}
{{- if $values.objectStore.anonymous -}}{{- $_ := set $plain "CUTWATER_S3_ANONYMOUS" "true" -}}{{- end -}}
{{- $secrets = concat $secrets (include "cutwater.storeKeys" $values.objectStore.credentials | fromYamlArray) -}}
{{- end -}}
{{- if or $view (eq $component "driver") -}}
{{- $_ := set $plain "CUTWATER_SNAPSHOTS" $values.snapshots.location -}}
{{- $secrets = concat $secrets (include "cutwater.secret" (dict "name" "CUTWATER_SNAPSHOT_KEY" "secret" $values.snapshots.signingKey.existingSecret "key" $values.snapshots.signingKey.key) | fromYamlArray) -}}
{{- end -}}
{{- if and $values.snapshots.location (eq $component "rehydrator") -}}
{{- $_ := set $plain "CUTWATER_SNAPSHOT_EVERY_MS" (mul 1000 (int $values.snapshots.everySeconds) | toString) -}}
{{- end -}}

{{- if or $view (eq $component "watch") -}}
{{- $secrets = concat $secrets (include "cutwater.secret" (dict "name" "CUTWATER_API_TOKEN" "secret" $values.auth.apiToken.existingSecret "key" $values.auth.apiToken.key) | fromYamlArray) -}}
{{- end -}}
{{- if $view -}}
{{- $_ := include "cutwater.viewSettings" (merge (dict "into" $plain "own" $own) .) -}}
{{- $secrets = concat $secrets (include "cutwater.secret" (dict "name" "CUTWATER_TOKENS" "secret" $values.auth.tokens.existingSecret "key" $values.auth.tokens.key) | fromYamlArray) -}}
{{- $secrets = concat $secrets (include "cutwater.secret" (dict "name" "CUTWATER_REGION_TOKENS" "secret" $values.regions.tokens.existingSecret "key" $values.regions.tokens.key) | fromYamlArray) -}}
{{- end -}}

{{- if eq $component "watch" -}}
{{- if $values.rehydrator.enabled -}}{{- $_ := set $plain "CUTWATER_WATCH_VIEW_URL" (include "cutwater.owners" .) -}}{{- end -}}
{{- $webhook := $values.alerts.webhook -}}
{{- $secrets = concat $secrets (include "cutwater.secret" (dict "name" "CUTWATER_ALERT_WEBHOOK_URL" "secret" $webhook.existingSecret "key" $webhook.urlKey) | fromYamlArray) -}}
{{- $secrets = concat $secrets (include "cutwater.secret" (dict "name" "CUTWATER_ALERT_WEBHOOK_TOKEN" "secret" $webhook.existingSecret "key" $webhook.tokenKey) | fromYamlArray) -}}
{{- end -}}
{{- if include "cutwater.tracesUrl" . -}}
{{- $_ := set $plain "CUTWATER_OTLP_URL" (include "cutwater.tracesUrl" .) -}}
{{- $secrets = concat $secrets (include "cutwater.secret" (dict "name" "CUTWATER_OTLP_TOKEN" "secret" $values.traces.token.existingSecret "key" $values.traces.token.key) | fromYamlArray) -}}
{{- end -}}
{{- if eq $component "mirror" -}}{{- $_ := set $plain "CUTWATER_MIRROR_SLOTS" .slots -}}{{- end -}}
{{- if eq $component "driver" -}}{{- $_ := include "cutwater.driverSettings" (merge (dict "into" $plain "own" $own) .) -}}{{- end -}}

{{- $port := dig $component dict (include "cutwater.ports" . | fromYaml) -}}
{{- if $port -}}
{{- $_ := set $plain "CUTWATER_HOST" $values.host -}}
{{- $_ := set $plain (printf "CUTWATER_%s" $port.setting) (toString $port.port) -}}
{{- $secrets = concat $secrets (include "cutwater.secret" (dict "name" "CUTWATER_METRICS_TOKEN" "secret" $values.auth.metricsToken.existingSecret "key" $values.auth.metricsToken.key) | fromYamlArray) -}}
{{- end -}}
{{- range $name, $value := $own.settings -}}{{- $_ := set $plain (printf "CUTWATER_%s" (upper $name)) (include "cutwater.text" $value) -}}{{- end -}}

{{- $executors := and (eq $component "driver") (eq $values.driver.spark.mode "kubernetes") }}
{{- if or $executors (has $component (list "rehydrator" "standby")) }}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- end }}
{{- if $executors }}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- end }}
{{- range $name, $value := $plain }}
{{- if $value }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- range $secrets }}
- {{ . | toJson }}
{{- end }}
{{- end }}

{{/* A number of a values file is a float, which would be written as 1e+06. */}}
{{- define "cutwater.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end }}

{{/* One variable of a secret; none without a secret or a key. */}}
{{- define "cutwater.secret" -}}
{{- if and .secret .key }}
- name: {{ .name }}
  valueFrom: {secretKeyRef: {name: {{ .secret | quote }}, key: {{ .key | quote }}}}
{{- else -}}
[]
{{- end }}
{{- end }}

{{- define "cutwater.user" -}}
{{- $given := concat (include "cutwater.secret" (dict "name" (printf "%s_USERNAME" .prefix) "secret" .secret.existingSecret "key" .secret.usernameKey) | fromYamlArray) (include "cutwater.secret" (dict "name" (printf "%s_PASSWORD" .prefix) "secret" .secret.existingSecret "key" .secret.passwordKey) | fromYamlArray) -}}
{{ toYaml $given }}
{{- end }}

{{- define "cutwater.kafkaSecrets" -}}
{{- $given := include "cutwater.user" (dict "prefix" (printf "%s_SASL" .prefix) "secret" .credentials) | fromYamlArray -}}
{{- $given = concat $given (include "cutwater.secret" (dict "name" (printf "%s_SSL_KEY_PASSWORD" .prefix) "secret" .tls.existingSecret "key" .tls.keyPasswordKey) | fromYamlArray) -}}
{{ toYaml $given }}
{{- end }}

{{- define "cutwater.storeKeys" -}}
{{- $given := list -}}
{{- range $name, $key := dict "AWS_ACCESS_KEY_ID" .accessKeyIdKey "AWS_SECRET_ACCESS_KEY" .secretAccessKeyKey "AWS_SESSION_TOKEN" .sessionTokenKey -}}
{{- $given = concat $given (include "cutwater.secret" (dict "name" $name "secret" $.existingSecret "key" $key) | fromYamlArray) -}}
{{- end -}}
{{ toYaml $given }}
{{- end }}

{{/* Sets the paths of mounted files in `into`. */}}
{{- define "cutwater.tlsFiles" -}}
{{- if .tls.existingSecret -}}
{{- range $name, $key := dict "CA" .tls.caKey "CERTIFICATE" .tls.certificateKey "KEY" .tls.keyKey -}}
{{- if $key -}}{{- $_ := set $.into (printf "%s_SSL_%s_FILE" $.prefix $name) (printf "%s/%s" $.folder $key) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "cutwater.viewSettings" -}}
{{- $_ := set .into "CUTWATER_VIEW_MEMORY_MB" (include "cutwater.text" .own.memoryMb) -}}
{{- $_ := set .into "CUTWATER_RESTORE_WORKERS" (toString .own.restoreWorkers) -}}
{{- $_ := set .into "CUTWATER_REGIONS" .values.regions.urls -}}
{{- $names := .values.auth.hosts -}}
{{- if eq .component "reader" -}}
{{- $_ := set .into "CUTWATER_REPLICA" "true" -}}
{{- $_ := set .into "CUTWATER_REPLICA_OF" .own.replicaOf -}}
{{- $names = concat $names (include "cutwater.serviceNames" (merge (dict "service" (include "cutwater.name" (merge (dict "component" "readers") .))) .) | fromYamlArray) -}}
{{- else -}}
{{- $peers := include "cutwater.peers" . -}}
{{- if $peers -}}
{{- $_ := set .into "CUTWATER_PEERS" $peers -}}
{{- $_ := set .into "CUTWATER_PEER" (include "cutwater.podUrl" (merge (dict "at" "$(POD_NAME)") .)) -}}
{{- end -}}
{{- $names = concat $names (include "cutwater.serviceNames" (merge (dict "service" (include "cutwater.name" (merge (dict "component" "view") .))) .) | fromYamlArray) -}}
{{- range splitList "," (include "cutwater.owners" . | replace "|" ",") -}}
{{- $names = append $names (. | trimPrefix "http://" | trimSuffix ":8321") -}}
{{- end -}}
{{- end -}}
{{- if not .values.auth.apiToken.existingSecret -}}{{- $_ := set .into "CUTWATER_API_HOSTS" (join "," $names) -}}{{- end -}}
{{- end }}

{{/* The names under which other pods reach a Service. */}}
{{- define "cutwater.serviceNames" -}}
{{- $short := printf "%s.%s" .service .root.Release.Namespace -}}
{{ list .service $short (printf "%s.svc" $short) (printf "%s.svc.%s" $short .values.clusterDomain) | toJson }}
{{- end }}

{{/* Spark hands executors no secret: each reads its own (docs/SECURITY.md). */}}
{{- define "cutwater.executorEnv" -}}
{{- $credentials := merge (dict "existingSecret" (dig "driver" .values.kafka.credentials.existingSecret .values.kafka.credentialsOf)) .values.kafka.credentials -}}
{{- $given := include "cutwater.kafkaSecrets" (dict "prefix" "CUTWATER_KAFKA" "credentials" $credentials "tls" .values.kafka.tls) | fromYamlArray -}}
{{- $given = concat $given (include "cutwater.storeKeys" .values.objectStore.credentials | fromYamlArray) -}}
{{- with .values.objectStore.region -}}{{- $given = append $given (dict "name" "AWS_REGION" "value" .) -}}{{- end -}}
{{ toYaml $given }}
{{- end }}

{{- define "cutwater.driverSettings" -}}
{{- $_ := set .into "CUTWATER_SPARK_DRIVER_MEMORY" .own.spark.memory -}}
{{- $_ := set .into "CUTWATER_CHECKPOINT" .own.checkpoint -}}
{{- if eq .own.spark.mode "kubernetes" -}}
{{- $_ := set .into "CUTWATER_SPARK_MASTER" (printf "k8s://https://kubernetes.default.svc.%s:443" .values.clusterDomain) -}}
{{- $_ := set .into "SPARK_LOCAL_DIRS" "/data" -}}
{{- $_ := set .into "PYSPARK_SUBMIT_ARGS" "--conf spark.driver.host=$(POD_IP) --conf spark.kubernetes.driver.pod.name=$(POD_NAME) pyspark-shell" -}}
{{- else -}}
{{- $_ := set .into "CUTWATER_SPARK_MASTER" (printf "local[%d]" (int .own.spark.cores)) -}}
{{- end -}}
{{- end }}
