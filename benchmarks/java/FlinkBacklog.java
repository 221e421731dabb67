import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * What the Flink programs of B2 share: a local cluster with RocksDB state and exactly-once checkpoints, the
 * topic's events up to the end that it has at the start, rows into transactions, and the times as JSON.
 *
 * Arguments: bootstrap source output name folder events fingerprint-hex size-ms slide-ms lateness-ms, then further
 * settings of Flink as NAME=VALUE. The job ends once all windows are closed and all transactions are committed.
 */
final class FlinkBacklog {
    private static final int PARALLELISM = 2;
    /** At most: after it a partition without events holds no window open. */
    private static final Duration IDLE = Duration.ofMinutes(1);

    // Source, windows and sink run in this process, so all of its tasks count here.
    private static final AtomicLong FIRST_MS = new AtomicLong();
    private static final LongAdder READ = new LongAdder();

    final long sizeMs, slideMs;
    private final String bootstrap, source, output, name;
    private final Path folder;
    private final long events, latenessMs;
    private final byte[] header;
    private final List<String> more;

    FlinkBacklog(String[] args) {
        bootstrap = args[0];
        source = args[1];
        output = args[2];
        name = args[3];
        folder = Path.of(args[4]).toAbsolutePath();
        events = Long.parseLong(args[5]);
        header = HexFormat.of().parseHex(args[6]);
        sizeMs = Long.parseLong(args[7]);
        slideMs = Long.parseLong(args[8]);
        latenessMs = Long.parseLong(args[9]);
        more = List.of(args).subList(10, args.length);
    }

    StreamExecutionEnvironment environment() {
        Map<String, String> settings = new HashMap<>(Map.ofEntries(
                Map.entry("execution.checkpointing.mode", "EXACTLY_ONCE"),
                Map.entry("execution.checkpointing.interval", "10 s"),
                Map.entry("execution.checkpointing.incremental", "true"),
                Map.entry("execution.checkpointing.storage", "filesystem"),
                Map.entry("execution.checkpointing.dir", folder.resolve("checkpoints").toUri().toString()),
                Map.entry("state.backend.type", "rocksdb"),
                Map.entry("state.backend.rocksdb.localdir", folder.resolve("state").toString()),
                Map.entry("state.backend.rocksdb.predefined-options", "FLASH_SSD_OPTIMIZED"),
                Map.entry("state.backend.rocksdb.use-bloom-filter", "true"),
                Map.entry("state.backend.rocksdb.timer-service.factory", "HEAP"),
                Map.entry("taskmanager.memory.managed.size", "512m"),
                Map.entry("pipeline.object-reuse", "true"),
                Map.entry("restart-strategy.type", "none")));
        for (String one : more) {
            int middle = one.indexOf('=');
            settings.put(one.substring(0, middle), one.substring(middle + 1));
        }
        return StreamExecutionEnvironment.createLocalEnvironment(PARALLELISM, Configuration.fromMap(settings));
    }

    <T> KafkaSource<T> source(EventReader<T> reader) {
        return KafkaSource.<T>builder()
                .setBootstrapServers(bootstrap)
                .setTopics(source)
                .setGroupId(name)
                .setClientIdPrefix(name)
                .setProperty("isolation.level", "read_committed")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setBounded(OffsetsInitializer.latest())
                .setDeserializer(reader)
                .build();
    }

    /** Events come out of order by at most the job's lateness. The program says where an event's time is. */
    <T> WatermarkStrategy<T> watermarks() {
        return WatermarkStrategy.<T>forBoundedOutOfOrderness(Duration.ofMillis(latenessMs)).withIdleness(IDLE);
    }

    <T> KafkaSink<T> sink(RowWriter<T> writer) {
        Properties settings = new Properties();
        settings.put("acks", "all");
        settings.put("compression.type", "lz4");
        settings.put("linger.ms", "100"); // as Kafka Streams has it
        settings.put("transaction.timeout.ms", "600000"); // Flink's own hour is more than a broker allows
        return KafkaSink.<T>builder()
                .setBootstrapServers(bootstrap)
                .setKafkaProducerConfig(settings)
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix(name)
                .setRecordSerializer(writer.to(output))
                .build();
    }

    /** Run the job to its end, then say when it began and ended. */
    void run(StreamExecutionEnvironment environment) throws Exception {
        try {
            environment.executeAsync(name).getJobExecutionResult().get();
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1); // threads of the cluster might live on
        }
        long closedMs = System.currentTimeMillis();
        if (READ.sum() != events) throw new IllegalStateException(READ.sum() + " of " + events + " were read");
        String told = String.format("{\"first_ms\": %d, \"closed_ms\": %d, \"events\": %d}",
                FIRST_MS.get(), closedMs, READ.sum());
        Path result = folder.resolve("result.json"), fresh = folder.resolve("result.json.part");
        Files.write(fresh, told.getBytes(StandardCharsets.UTF_8));
        Files.move(fresh, result, StandardCopyOption.ATOMIC_MOVE);
        Thread.sleep(30_000); // the harness takes a last sample of our CPU time, and ends us
    }

    byte[] header() {
        return header;
    }

    /** Reads the topic's events, and counts them. */
    abstract static class EventReader<T> implements KafkaRecordDeserializationSchema<T> {
        private final byte[] header;

        EventReader(FlinkBacklog backlog) {
            header = backlog.header();
        }

        /** An event from its bytes behind the header. */
        abstract T event(ByteBuffer from);

        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<T> out) {
            if (FIRST_MS.get() == 0) FIRST_MS.compareAndSet(0, System.currentTimeMillis());
            READ.increment();
            out.collect(event(EventBytes.body(record.value(), header)));
        }
    }

    /** One window's row as a record, in the bytes that the Kafka Streams program writes. */
    interface RowWriter<T> extends java.io.Serializable {
        Row row(T from);

        default KafkaRecordSerializationSchema<T> to(String topic) {
            return (from, context, timestamp) -> {
                Row row = row(from);
                return new ProducerRecord<>(topic, null, row.start(), row.keyBytes(), row.valueBytes());
            };
        }
    }

    record Row(byte[] key, long start, long... measures) {
        byte[] keyBytes() {
            return ByteBuffer.allocate(key.length + 8).put(key).putLong(start).array();
        }

        byte[] valueBytes() {
            ByteBuffer to = ByteBuffer.allocate(8 * measures.length);
            for (long measure : measures) to.putLong(measure);
            return to.array();
        }
    }
}
