# An object store that speaks S3, for trying and testing: Adobe's S3Mock. It asks for no keys; use yours in earnest.
ARG BASE=cutwater-base:java
FROM ${BASE}
RUN echo 'store:x:10001:10001::/data:/usr/sbin/nologin' >>/etc/passwd && echo 'store:x:10001:' >>/etc/group \
 && mkdir /data && chown 10001:10001 /data
COPY jars /opt/objectstore
ENV COM_ADOBE_TESTING_S3MOCK_STORE_ROOT=/data COM_ADOBE_TESTING_S3MOCK_STORE_RETAIN_FILES_ON_EXIT=true \
    COM_ADOBE_TESTING_S3MOCK_STORE_INITIAL_BUCKETS=checkpoints LOGGING_STRUCTURED_FORMAT_CONSOLE=logstash
USER 10001:10001
WORKDIR /data
VOLUME /data
HEALTHCHECK --interval=5s --timeout=4s --start-period=60s --retries=6 \
  CMD ["bash", "-c", "exec 3<>/dev/tcp/localhost/9090"]
ENTRYPOINT ["sh", "-c", "exec java -Xmx192m -jar /opt/objectstore/*.jar"]
