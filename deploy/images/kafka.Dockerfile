# A Kafka node (KRaft). Its settings are environment variables, as of the Kafka project's own image.
ARG BASE=cutwater-base:java
FROM ${BASE}
RUN echo 'kafka:x:10001:10001::/var/lib/kafka:/usr/sbin/nologin' >>/etc/passwd && echo 'kafka:x:10001:' >>/etc/group \
 && mkdir /var/lib/kafka && chown 10001:10001 /var/lib/kafka
COPY log4j2.properties run /opt/kafka/
COPY jars /opt/kafka/jars
USER 10001:10001
WORKDIR /var/lib/kafka
VOLUME /var/lib/kafka
HEALTHCHECK --interval=5s --timeout=4s --start-period=180s --retries=6 \
  CMD ["bash", "-c", "exec 3<>/dev/tcp/localhost/${KAFKA_HEALTH_PORT:-9092}"]
ENTRYPOINT ["/opt/kafka/run"]
