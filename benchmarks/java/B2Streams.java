import java.nio.ByteBuffer;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** The windows of B2, B3 and B6 in Kafka Streams: count, sum and maximum per key. See `StreamsBacklog`. */
public final class B2Streams implements StreamsBacklog.Measures<B2Streams.Tick, B2Streams.Total> {
    record Tick(long at, int value) {}

    record Total(long count, long sum, long highest) {}

    @Override
    public Tick event(ByteBuffer from) {
        EventBytes.skipText(from); // the record's key says the same
        return new Tick(EventBytes.number(from), (int) EventBytes.number(from));
    }

    @Override
    public long at(Tick tick, ConsumerRecord<Object, Object> record) {
        return tick.at();
    }

    @Override
    public Total none() {
        return new Total(0, 0, Long.MIN_VALUE);
    }

    @Override
    public Total plus(Total total, Tick tick) {
        return new Total(total.count() + 1, total.sum() + tick.value(), Math.max(total.highest(), tick.value()));
    }

    @Override
    public byte[] bytes(Total total) {
        return ByteBuffer.allocate(24)
                .putLong(total.count()).putLong(total.sum()).putLong(total.highest()).array();
    }

    @Override
    public Total total(ByteBuffer from) {
        return new Total(from.getLong(), from.getLong(), from.getLong());
    }

    public static void main(String[] args) throws Exception {
        StreamsBacklog.run(new B2Streams(), args);
    }
}
