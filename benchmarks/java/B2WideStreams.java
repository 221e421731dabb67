import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.datasketches.hll.HllSketch;
import org.apache.datasketches.memory.Memory;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** B2's shape `wide` in Kafka Streams: the demonstration's ten measures per key. See `StreamsBacklog`. */
public final class B2WideStreams implements StreamsBacklog.Measures<B2WideStreams.Movement, B2WideStreams.Row> {
    private static final int LG_K = 12; // as Spark's sketches

    static final class Movement {
        long at, offset;
        int partition, delay, distance;
        boolean delayKnown;
        byte[] carrier, flight;
    }

    /** A text, and its event's place in the order of all events: time, partition, offset. */
    record Placed(long at, int partition, long offset, byte[] text) {
        boolean before(Movement other) {
            if (at != other.at) return at < other.at;
            return partition != other.partition ? partition < other.partition : offset < other.offset;
        }

        int size() {
            return 24 + text.length;
        }

        void put(ByteBuffer to) {
            to.putLong(at).putInt(partition).putLong(offset).putInt(text.length).put(text);
        }

        static Placed from(ByteBuffer from) {
            long at = from.getLong();
            int partition = from.getInt();
            long offset = from.getLong();
            byte[] text = new byte[from.getInt()];
            from.get(text);
            return new Placed(at, partition, offset, text);
        }
    }

    /** One window's measures. The mean is that of total and delayed. */
    static final class Row {
        long movements, delayed, totalDelay, worst = Long.MIN_VALUE, best = Long.MAX_VALUE, miles;
        Placed firstFlight, lastCarrier;
        HllSketch carriers;
    }

    @Override
    public Movement event(ByteBuffer from) {
        Movement made = new Movement();
        EventBytes.skipText(from); // the record's key says the same
        EventBytes.skipText(from); // kind
        made.at = EventBytes.number(from);
        made.delayKnown = EventBytes.number(from) == 1;
        if (made.delayKnown) made.delay = (int) EventBytes.number(from);
        made.carrier = EventBytes.text(from);
        made.flight = EventBytes.text(from);
        EventBytes.skipText(from); // the other airport
        made.distance = (int) EventBytes.number(from);
        return made;
    }

    @Override
    public long at(Movement event, ConsumerRecord<Object, Object> record) {
        event.partition = record.partition();
        event.offset = record.offset();
        return event.at;
    }

    @Override
    public Row none() {
        Row row = new Row();
        row.carriers = new HllSketch(LG_K);
        return row;
    }

    @Override
    public Row plus(Row row, Movement event) {
        row.movements++;
        if (event.delayKnown) {
            row.delayed++;
            row.totalDelay += event.delay;
            row.worst = Math.max(row.worst, event.delay);
            row.best = Math.min(row.best, event.delay);
        }
        if (row.firstFlight == null || !row.firstFlight.before(event)) {
            row.firstFlight = new Placed(event.at, event.partition, event.offset, event.flight);
        }
        if (row.lastCarrier == null || row.lastCarrier.before(event)) {
            row.lastCarrier = new Placed(event.at, event.partition, event.offset, event.carrier);
        }
        row.carriers.update(event.carrier);
        row.miles += event.distance;
        return row;
    }

    @Override
    public byte[] bytes(Row row) {
        byte[] sketch = row.carriers.toUpdatableByteArray();
        ByteBuffer to = ByteBuffer.allocate(
                48 + row.firstFlight.size() + row.lastCarrier.size() + sketch.length);
        to.putLong(row.movements).putLong(row.delayed).putLong(row.totalDelay).putLong(row.worst)
                .putLong(row.best).putLong(row.miles);
        row.firstFlight.put(to);
        row.lastCarrier.put(to);
        return to.put(sketch).array();
    }

    @Override
    public Row total(ByteBuffer from) {
        Row row = new Row();
        row.movements = from.getLong();
        row.delayed = from.getLong();
        row.totalDelay = from.getLong();
        row.worst = from.getLong();
        row.best = from.getLong();
        row.miles = from.getLong();
        row.firstFlight = Placed.from(from);
        row.lastCarrier = Placed.from(from);
        Memory sketch = Memory.wrap(from.array(), from.position(), from.remaining(), ByteOrder.nativeOrder());
        row.carriers = HllSketch.heapify(sketch);
        return row;
    }

    public static void main(String[] args) throws Exception {
        StreamsBacklog.run(new B2WideStreams(), args);
    }
}
