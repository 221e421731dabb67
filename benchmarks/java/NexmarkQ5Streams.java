import java.nio.ByteBuffer;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** The aggregation of Nexmark's query 5 in Kafka Streams: bids by auction. See `StreamsBacklog`. */
public final class NexmarkQ5Streams implements StreamsBacklog.Measures<NexmarkQ5Streams.Bid, Long> {
    record Bid(long at) {}

    @Override
    public Bid event(ByteBuffer from) {
        EventBytes.number(from); // the auction, which the record's key says too
        EventBytes.number(from); // the bidder
        EventBytes.number(from); // the price
        EventBytes.skipText(from); // the channel
        EventBytes.skipText(from); // the URL
        return new Bid(EventBytes.number(from));
    }

    @Override
    public long at(Bid event, ConsumerRecord<Object, Object> record) {
        return event.at();
    }

    @Override
    public Long none() {
        return 0L;
    }

    @Override
    public Long plus(Long bids, Bid event) {
        return bids + 1;
    }

    @Override
    public byte[] bytes(Long bids) {
        return ByteBuffer.allocate(8).putLong(bids).array();
    }

    @Override
    public Long total(ByteBuffer from) {
        return from.getLong();
    }

    public static void main(String[] args) throws Exception {
        StreamsBacklog.run(new NexmarkQ5Streams(), args);
    }
}
