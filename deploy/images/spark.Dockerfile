# Spark with the connectors, and Cutwater's driver.
#   docker run cutwater-spark cutwater_spark.driver /etc/cutwater/job.yaml
# A master or a worker: the same image with the entry point spark-class.
ARG BASE=cutwater-base:java
FROM ${BASE}
RUN echo 'cutwater:x:10001:10001::/data:/usr/sbin/nologin' >>/etc/passwd && echo 'cutwater:x:10001:' >>/etc/group \
 && mkdir /data /checkpoints && chown 10001:10001 /data /checkpoints && ln -s /opt/cutwater/pyspark/bin/spark-class /usr/local/bin/spark-class
COPY healthy /usr/local/bin/healthy
COPY site /opt/cutwater
COPY jars /opt/cutwater/pyspark/jars
COPY conf /opt/cutwater/pyspark/conf
ENV PYTHONPATH=/opt/cutwater PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    SPARK_HOME=/opt/cutwater/pyspark PYSPARK_PYTHON=python3 \
    CUTWATER_DATA_DIR=/data CUTWATER_LOG_JSON=true
USER 10001:10001
WORKDIR /data
VOLUME /data
HEALTHCHECK --interval=5s --timeout=4s --start-period=180s --retries=6 CMD ["healthy"]
ENTRYPOINT ["python3", "-m"]
