import java.nio.ByteBuffer;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** The aggregation of Nexmark's query 7 in Kafka Streams: the highest bid by auction. See `StreamsBacklog`. */
public final class NexmarkQ7Streams implements StreamsBacklog.Measures<NexmarkQ7Streams.Bid, Long> {
    record Bid(long price, long at) {}

    @Override
    public Bid event(ByteBuffer from) {
        EventBytes.number(from); // the auction, which the record's key says too
        EventBytes.number(from); // the bidder
        long price = EventBytes.number(from);
        EventBytes.skipText(from); // the channel
        EventBytes.skipText(from); // the URL
        return new Bid(price, EventBytes.number(from));
    }

    @Override
    public long at(Bid event, ConsumerRecord<Object, Object> record) {
        return event.at();
    }

    @Override
    public Long none() {
        return Long.MIN_VALUE;
    }

    @Override
    public Long plus(Long highest, Bid event) {
        return Math.max(highest, event.price());
    }

    @Override
    public byte[] bytes(Long highest) {
        return ByteBuffer.allocate(8).putLong(highest).array();
    }

    @Override
    public Long total(ByteBuffer from) {
        return from.getLong();
    }

    public static void main(String[] args) throws Exception {
        StreamsBacklog.run(new NexmarkQ7Streams(), args);
    }
}
