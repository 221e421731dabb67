{{/* Mistakes between values. Those of single values are in values.schema.json. */}}

{{- define "cutwater.check" -}}
{{- $job := .job -}}
{{- $values := .values -}}
{{- $owners := int $values.rehydrator.owners -}}
{{- if hasKey .spec "Error" -}}
{{- fail (printf "jobs.%s.file: is no YAML: %s" $job .spec.Error) -}}
{{- end -}}
{{- if ne (toString (get .spec "job")) $job -}}
{{- fail (printf "jobs.%s.file: the job file has job: %v. Use the same name in both places" $job (get .spec "job")) -}}
{{- end -}}
{{- $longest := printf "%s-%s-commit-signal" .root.Release.Name $job -}}
{{- if gt (len $longest) 52 -}}
{{- fail (printf "jobs.%s: the release's and the job's name have %d characters together, and at most %d are possible: choose a shorter release name" $job (add (len .root.Release.Name) (len $job)) (sub 52 (len "--commit-signal"))) -}}
{{- end -}}
{{- $partitions := int (default 4 (get .spec "partitions")) -}}
{{- if gt $owners $partitions -}}
{{- fail (printf "jobs.%s: rehydrator.owners is %d, and the job file has %d partitions: each owner needs one. A later generation may have more (set partitions in the job file to theirs)" $job $owners $partitions) -}}
{{- end -}}
{{- if and (hasKey .spec "attached") $values.driver.enabled -}}
{{- fail (printf "jobs.%s: the job is attached to a query of your own, which your program runs: set jobs.%s.driver.enabled=false" $job $job) -}}
{{- end -}}
{{- if and $values.auth.tokens.existingSecret (not $values.auth.apiToken.existingSecret) -}}
{{- fail "auth.tokens.existingSecret is set: set auth.apiToken.existingSecret too, with which the services ask each other" -}}
{{- end -}}
{{- include "cutwater.checkKafka" (dict "at" "kafka" "kafka" $values.kafka) -}}
{{- include "cutwater.checkOrigin" . -}}
{{- include "cutwater.checkSpark" . -}}
{{- include "cutwater.checkReaders" . -}}
{{- end }}

{{- define "cutwater.checkKafka" -}}
{{- $sasl := hasPrefix "SASL" .kafka.securityProtocol -}}
{{- if and $sasl (not .kafka.saslMechanism) -}}
{{- fail (printf "%s.securityProtocol is %s: set %s.saslMechanism too" .at .kafka.securityProtocol .at) -}}
{{- end -}}
{{- if and (not $sasl) .kafka.saslMechanism -}}
{{- fail (printf "%s.saslMechanism is %s, and %s.securityProtocol is %s: set it to SASL_SSL" .at .kafka.saslMechanism .at .kafka.securityProtocol) -}}
{{- end -}}
{{- if and $sasl (not .kafka.credentials.existingSecret) (not .kafka.credentialsOf) -}}
{{- fail (printf "%s.saslMechanism is %s: name a secret with user and password in %s.credentials.existingSecret" .at .kafka.saslMechanism .at) -}}
{{- end -}}
{{- $tls := .kafka.tls -}}
{{- if and (or $tls.caKey $tls.certificateKey $tls.keyKey $tls.keyPasswordKey) (not $tls.existingSecret) -}}
{{- fail (printf "%s.tls names keys of a secret, and no secret: set %s.tls.existingSecret" .at .at) -}}
{{- end -}}
{{- end }}

{{- define "cutwater.checkOrigin" -}}
{{- $origin := .values.origin -}}
{{- if and .values.mirror.enabled (not $origin.region) -}}
{{- fail (printf "jobs.%s: mirror.enabled is true: set origin.region and origin.bootstrapServers, which it copies from" .job) -}}
{{- end -}}
{{- if $origin.region -}}
{{- if not $origin.bootstrapServers -}}{{- fail "origin.region is set: set origin.bootstrapServers too" -}}{{- end -}}
{{- if eq $origin.region .values.region -}}
{{- fail (printf "origin.region and region are both %s: no region mirrors itself" $origin.region) -}}
{{- end -}}
{{- include "cutwater.checkKafka" (dict "at" "origin" "kafka" (merge (dict "credentialsOf" dict) $origin)) -}}
{{- end -}}
{{- end }}

{{- define "cutwater.checkSpark" -}}
{{- $driver := .values.driver -}}
{{- if and $driver.enabled (eq $driver.spark.mode "kubernetes") (not $driver.checkpoint) -}}
{{- fail (printf "jobs.%s: driver.spark.mode is kubernetes: executors on other nodes need a checkpoint that all reach. Set driver.checkpoint to s3a://BUCKET/PREFIX" .job) -}}
{{- end -}}
{{- end }}

{{- define "cutwater.checkReaders" -}}
{{- $readers := .values.readers -}}
{{- $scaling := $readers.autoscaling -}}
{{- if and $readers.enabled $scaling.enabled -}}
{{- if gt (int $scaling.minReplicas) (int $scaling.maxReplicas) -}}
{{- fail (printf "jobs.%s: readers.autoscaling.minReplicas is %v, and maxReplicas is %v" .job $scaling.minReplicas $scaling.maxReplicas) -}}
{{- end -}}
{{- if not (or $scaling.cpuPercent $scaling.requestsInProgress) -}}
{{- fail (printf "jobs.%s: readers.autoscaling needs cpuPercent or requestsInProgress. A backlog alone is zero as long as there are enough readers, so they would come and go all the time" .job) -}}
{{- end -}}
{{- end -}}
{{- if and (hasKey .values.rehydrator "autoscaling") -}}
{{- fail (printf "jobs.%s: rehydrator.autoscaling: owners divide the partitions by a fixed list, so an autoscaler would start pods that hold nothing. Set readers.autoscaling, or change rehydrator.owners yourself" .job) -}}
{{- end -}}
{{- end }}
