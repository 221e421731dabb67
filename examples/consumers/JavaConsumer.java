import java.io.File;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads whole milestones from a job's output into a table, with kafka-clients and avro only: one line per milestone
 * and per row, and one for each earlier row that a correction or a tombstone contradicts.
 *
 * <p>usage: java -cp JARS JavaConsumer.java BROKERS TOPIC OUTPUT_SCHEMA.avsc END_SCHEMA.avsc
 *
 * <p>Ends after 5 s without a new record.
 */
public final class JavaConsumer {
  private static final int HEADER_BYTES = 10; // c3 01 and the schema's fingerprint
  private static final Duration IDLE = Duration.ofSeconds(5);

  /** The last row of each key and window: what stands after the newest whole milestone. */
  private static final Map<List<Object>, GenericRecord> TABLE = new HashMap<>();

  private record Group(GenericRecord end, List<GenericRecord> rows) {}

  public static void main(String[] arguments) throws Exception {
    String topic = arguments[1];
    Schema rowSchema = new Schema.Parser().parse(new File(arguments[2]));
    Schema endSchema = new Schema.Parser().parse(new File(arguments[3]));
    Map<String, Object> settings =
        Map.of(
            "bootstrap.servers", arguments[0],
            "isolation.level", "read_committed", // not the default of Java's client
            "enable.auto.commit", false); // a partition's offset says nothing of the milestone
    var bytes = new ByteArrayDeserializer();
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
      int partitions = consumer.partitionsFor(topic).size();
      List<List<GenericRecord>> open = new ArrayList<>(); // rows whose end marker has not arrived yet
      List<Deque<Group>> ended = new ArrayList<>(); // milestones that a partition has ended
      for (int number = 0; number < partitions; number++) {
        open.add(new ArrayList<>());
        ended.add(new ArrayDeque<>());
      }
      consumer.assign(
          IntStream.range(0, partitions).mapToObj(number -> new TopicPartition(topic, number)).toList());
      consumer.seekToBeginning(consumer.assignment());
      ConsumerRecords<byte[], byte[]> records;
      while (!(records = consumer.poll(IDLE)).isEmpty()) {
        for (ConsumerRecord<byte[], byte[]> record : records) {
          int number = record.partition();
          if (record.key() != null) {
            open.get(number).add(decode(record.value(), rowSchema));
            continue;
          }
          GenericRecord end = decode(record.value(), endSchema);
          if (!(boolean) end.get("last")) {
            continue; // a milestone too large for one transaction continues
          }
          List<GenericRecord> rows = open.set(number, new ArrayList<>());
          if (rows.size() != (long) end.get("rows")) {
            throw new IllegalStateException("partition " + number + " has " + rows.size() + " rows, not " + end);
          }
          ended.get(number).add(new Group(end, rows));
          while (ended.stream().noneMatch(Deque::isEmpty)) { // every partition has ended it: whole
            take(ended.stream().map(Deque::remove).toList());
          }
        }
      }
    }
  }

  private static void take(List<Group> groups) {
    GenericRecord end = groups.get(0).end();
    System.out.println(end.get("generation") + ":" + end.get("sequence"));
    groups.forEach(group -> group.rows().forEach(JavaConsumer::apply));
  }

  private static void apply(GenericRecord row) {
    List<Object> place = List.of(row.get("key").toString(), row.get("window_start"));
    String kind = row.get("kind").toString();
    GenericRecord before = kind.equals("tombstone") ? TABLE.remove(place) : TABLE.put(place, row);
    if (kind.equals("tombstone") || kind.equals("correction")) {
      System.out.println("take back " + before); // and what was derived from it; null if none was read
    }
    System.out.println(row);
  }

  private static GenericRecord decode(byte[] value, Schema schema) throws Exception {
    ByteBuffer header = ByteBuffer.wrap(value, 0, HEADER_BYTES);
    if (header.getShort() != (short) 0xC301) {
      throw new IllegalStateException("not a single object of Avro");
    }
    var decoder = DecoderFactory.get().binaryDecoder(value, HEADER_BYTES, value.length - HEADER_BYTES, null);
    return new GenericDatumReader<GenericRecord>(schema).read(null, decoder);
  }
}
