import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import net.jpountz.xxhash.XXHash64;
import net.jpountz.xxhash.XXHashFactory;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.apache.kafka.streams.state.Stores;
import org.rocksdb.Options;

/**
 * B1's peer: a table of bytes over a topic that is its changelog too, restored to RocksDB by Kafka Streams.
 *
 * Arguments: bootstrap topic application-id state-folder told-folder key-hex value-hex, then further settings as
 * NAME=VALUE. The application's group must have the topic's ends as its position. Writes `read.json` once a read of
 * the key gives the value; when a file `count` is there, count and digest of all rows as `contents.json`.
 */
public final class B1Streams {
    private static final String STORE = "rows";
    private static final int SPARK_SEED = 42;

    /** Settings of RocksDB that are no settings of Streams. */
    public static final class Buffers implements RocksDBConfigSetter {
        @Override
        public void setConfig(String store, Options options, Map<String, Object> configs) {
            if (configs.get("b1.write.buffer.mb") instanceof String megabytes) {
                options.setWriteBufferSize(Long.parseLong(megabytes) << 20);
            }
            if ("off".equals(configs.get("b1.compaction"))) {
                options.setDisableAutoCompactions(true);
                options.setLevel0SlowdownWritesTrigger(1 << 20);
                options.setLevel0StopWritesTrigger(1 << 20);
            }
        }

        @Override
        public void close(String store, Options options) {}
    }

    /** When the first partition began, and how many records there were. */
    static final class Restores implements StateRestoreListener {
        final AtomicLong begunMs = new AtomicLong();
        final AtomicLong restored = new AtomicLong();

        @Override
        public void onRestoreStart(TopicPartition partition, String store, long first, long end) {
            begunMs.compareAndSet(0, System.currentTimeMillis());
        }

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long end, long count) {}

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long count) {
            restored.addAndGet(count);
        }
    }

    static Properties settings(String bootstrap, String applicationId, String stateFolder, List<String> more) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, applicationId);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, stateFolder);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "2");
        settings.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.OPTIMIZE);
        if (!more.isEmpty()) settings.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, Buffers.class);
        for (String one : more) {
            int middle = one.indexOf('=');
            settings.put(one.substring(0, middle), one.substring(middle + 1));
        }
        return settings;
    }

    static byte[] read(KafkaStreams streams, byte[] key) {
        try {
            return rows(streams).get(key);
        } catch (InvalidStateStoreException notYet) {
            return null;
        }
    }

    static ReadOnlyKeyValueStore<byte[], byte[]> rows(KafkaStreams streams) {
        return streams.store(StoreQueryParameters.fromNameAndType(STORE, QueryableStoreTypes.keyValueStore()));
    }

    /** The XOR of xxhash64 over key and value, as the changelog's own digests are made. */
    static String contents(KafkaStreams streams) {
        XXHash64 hash = XXHashFactory.fastestInstance().hash64();
        long count = 0, digest = 0;
        try (KeyValueIterator<byte[], byte[]> all = rows(streams).all()) {
            while (all.hasNext()) {
                KeyValue<byte[], byte[]> row = all.next();
                long seed = hash.hash(row.key, 0, row.key.length, SPARK_SEED);
                digest ^= hash.hash(row.value, 0, row.value.length, seed);
                count++;
            }
        }
        return String.format("{\"rows\": %d, \"digest\": \"%016x\"}", count, digest);
    }

    static void tell(Path place, String text) throws IOException {
        Path fresh = place.resolveSibling(place.getFileName() + ".part");
        Files.write(fresh, text.getBytes(StandardCharsets.UTF_8));
        Files.move(fresh, place, StandardCopyOption.ATOMIC_MOVE);
    }

    public static void main(String[] args) throws Exception {
        Path told = Path.of(args[4]);
        byte[] key = HexFormat.of().parseHex(args[5]), value = HexFormat.of().parseHex(args[6]);
        Properties settings = settings(args[0], args[2], args[3], List.of(args).subList(7, args.length));
        StreamsBuilder builder = new StreamsBuilder();
        // A store by supplier is a plain one: by name alone it would keep a timestamp with each value.
        builder.table(args[1], Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()),
                Materialized.<byte[], byte[]>as(Stores.persistentKeyValueStore(STORE))
                        .withKeySerde(Serdes.ByteArray()).withValueSerde(Serdes.ByteArray()));
        Restores restores = new Restores();
        KafkaStreams streams = new KafkaStreams(builder.build(settings), settings);
        streams.setGlobalStateRestoreListener(restores);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            System.exit(1);
            return null;
        });
        streams.start();
        while (!Arrays.equals(read(streams, key), value)) Thread.sleep(5);
        long readMs = System.currentTimeMillis();
        tell(told.resolve("read.json"), String.format(
                "{\"begun_ms\": %d, \"read_ms\": %d, \"restored\": %d}",
                restores.begunMs.get(), readMs, restores.restored.get()));
        while (!Files.exists(told.resolve("count"))) Thread.sleep(50);
        tell(told.resolve("contents.json"), contents(streams));
        Thread.sleep(30_000); // the harness ends us: what is left needs no closing
    }
}
