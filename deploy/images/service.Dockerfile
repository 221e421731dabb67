# The services: one image, one module each.
#   docker run cutwater-service cutwater.commit_signal /etc/cutwater/job.yaml
# Its context is made by deploy/images/build; nothing is fetched here.
ARG BASE=cutwater-base:python
FROM ${BASE}
RUN echo 'cutwater:x:10001:10001::/data:/usr/sbin/nologin' >>/etc/passwd && echo 'cutwater:x:10001:' >>/etc/group \
 && mkdir /data && chown 10001:10001 /data
COPY healthy /usr/local/bin/healthy
COPY site /opt/cutwater
ENV PYTHONPATH=/opt/cutwater PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    CUTWATER_DATA_DIR=/data CUTWATER_LOG_JSON=true
USER 10001:10001
WORKDIR /data
VOLUME /data
HEALTHCHECK --interval=5s --timeout=4s --start-period=60s --retries=6 CMD ["healthy"]
ENTRYPOINT ["python3", "-m"]
