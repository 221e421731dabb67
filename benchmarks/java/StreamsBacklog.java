import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.state.WindowStore;

/**
 * What the Kafka Streams programs of B2 share: windows of a key in a RocksDB window store with its changelog
 * topic, every update to an output topic.
 *
 * Arguments: bootstrap source output application-id state-folder result-file events fingerprint-hex size-ms
 * slide-ms grace-ms guarantee, then further settings as NAME=VALUE. Writes a file `ready` beside the result file
 * once it runs. Ends once all events are processed, flushed and committed; writes the times as JSON, and what
 * Streams' own metrics say of its commits.
 */
final class StreamsBacklog {
    /** A program: its events `E`, and a window's measures `T`. */
    interface Measures<E, T> {
        /** An event from its bytes behind the header. */
        E event(ByteBuffer from);

        /** An event's time. This is where the event may keep its record's place: nothing else sees the record. */
        long at(E event, ConsumerRecord<Object, Object> record);

        T none();

        T plus(T total, E event);

        byte[] bytes(T total);

        T total(ByteBuffer from);
    }

    private StreamsBacklog() {}

    private static Properties settings(String bootstrap, String applicationId, String stateFolder,
            List<String> more) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, applicationId);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, stateFolder);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "2");
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.ISOLATION_LEVEL_CONFIG), "read_committed");
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.ACKS_CONFIG), "all");
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4");
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, more.get(0));
        for (String one : more.subList(1, more.size())) {
            int middle = one.indexOf('=');
            settings.put(one.substring(0, middle), one.substring(middle + 1));
        }
        return settings;
    }

    /** Milliseconds of Streams' own metrics over its newest minute: the slowest thread counts. */
    private static String commits(KafkaStreams streams) {
        Map<String, Double> found = new TreeMap<>();
        streams.metrics().forEach((name, metric) -> {
            boolean wanted = name.group().equals("stream-thread-metrics") && name.name().startsWith("commit-");
            if (wanted && metric.metricValue() instanceof Double value && !value.isNaN()) {
                found.merge(name.name(), value, Math::max);
            }
        });
        StringBuilder told = new StringBuilder("{");
        found.forEach((name, value) -> told.append(told.length() > 1 ? ", " : "")
                .append(String.format(Locale.ROOT, "\"%s\": %.3f", name, value)));
        return told.append("}").toString();
    }

    private static <E> Serde<E> events(Measures<E, ?> program, byte[] header) {
        return Serdes.serdeFrom((topic, event) -> {
            throw new UnsupportedOperationException("events are only read");
        }, (topic, data) -> program.event(EventBytes.body(data, header)));
    }

    private static <T> Serde<T> totals(Measures<?, T> program) {
        return Serdes.serdeFrom(
                (topic, total) -> total == null ? null : program.bytes(total),
                (topic, data) -> data == null ? null : program.total(ByteBuffer.wrap(data)));
    }

    @SuppressWarnings("unchecked")
    private static <E, T> Topology topology(Measures<E, T> program, String[] args, LongAdder processed,
            AtomicLong firstMs) {
        Duration size = Duration.ofMillis(Long.parseLong(args[8]));
        Duration slide = Duration.ofMillis(Long.parseLong(args[9]));
        Duration grace = Duration.ofMillis(Long.parseLong(args[10]));
        Serde<E> events = events(program, HexFormat.of().parseHex(args[7]));
        Serde<T> totals = totals(program);
        TimestampExtractor eventTime = (record, partitionTime) -> program.at((E) record.value(), record);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(args[1], Consumed.with(Serdes.String(), events).withTimestampExtractor(eventTime))
                .peek((key, event) -> {
                    if (firstMs.get() == 0) firstMs.compareAndSet(0, System.currentTimeMillis());
                    processed.increment();
                })
                .groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(size, grace).advanceBy(slide))
                .aggregate(program::none, (key, event, total) -> program.plus(total, event),
                        Materialized.<String, T, WindowStore<Bytes, byte[]>>as("totals")
                                .withKeySerde(Serdes.String()).withValueSerde(totals))
                .toStream()
                .to(args[2], Produced.with(
                        WindowedSerdes.timeWindowedSerdeFrom(String.class, size.toMillis()), totals));
        return builder.build();
    }

    static <E, T> void run(Measures<E, T> program, String[] args) throws Exception {
        long events = Long.parseLong(args[6]);
        LongAdder processed = new LongAdder();
        AtomicLong firstMs = new AtomicLong();
        KafkaStreams streams = new KafkaStreams(topology(program, args, processed, firstMs), settings(
                args[0], args[3], args[4], List.of(args).subList(11, args.length)));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            System.exit(1);
            return null;
        });
        Path result = Path.of(args[5]), fresh = Path.of(args[5] + ".part");
        streams.setStateListener((state, before) -> {
            if (state != KafkaStreams.State.RUNNING) return;
            try {
                Files.write(result.resolveSibling("ready"), new byte[0]);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        });
        streams.start();
        while (processed.sum() < events) Thread.sleep(5);
        long processedMs = System.currentTimeMillis();
        String commits = commits(streams);
        if (!streams.close(Duration.ofSeconds(60))) throw new IllegalStateException("not closed within 60 s");
        long closedMs = System.currentTimeMillis();
        String told = String.format(
                "{\"first_ms\": %d, \"processed_ms\": %d, \"closed_ms\": %d, \"events\": %d, \"commits\": %s}",
                firstMs.get(), processedMs, closedMs, processed.sum(), commits);
        Files.write(fresh, told.getBytes(StandardCharsets.UTF_8));
        Files.move(fresh, result, StandardCopyOption.ATOMIC_MOVE);
        Thread.sleep(30_000); // the harness takes a last sample of our CPU time, and ends us
    }
}
