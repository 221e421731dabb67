# Prometheus and promtool; docker-compose.yml says by arguments what it reads and keeps.
# Its context is made by deploy/images/build with METRICS=1; nothing is fetched here.
ARG BASE=cutwater-base:python
FROM ${BASE}
RUN echo 'prometheus:x:10001:10001::/prometheus:/usr/sbin/nologin' >>/etc/passwd \
 && echo 'prometheus:x:10001:' >>/etc/group && mkdir /prometheus && chown 10001:10001 /prometheus
COPY healthy /usr/local/bin/healthy
COPY files /usr
ENV HEALTHY=9090/-/ready
USER 10001:10001
WORKDIR /prometheus
VOLUME /prometheus
HEALTHCHECK --interval=5s --timeout=4s --start-period=60s --retries=6 CMD ["healthy"]
ENTRYPOINT ["prometheus"]
