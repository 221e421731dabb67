import java.nio.ByteBuffer;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** The aggregation of Nexmark's query 8 in Kafka Streams: events of a kind by person. See `StreamsBacklog`. */
public final class NexmarkQ8Streams
        implements StreamsBacklog.Measures<NexmarkQ8Streams.Arrival, NexmarkQ8Streams.Kinds> {
    /** Of a person, or of an auction that a person sells. */
    record Arrival(long at, boolean named, boolean sells) {}

    record Kinds(long persons, long auctions) {}

    @Override
    public Arrival event(ByteBuffer from) {
        EventBytes.number(from); // the person, whom the record's key says too
        long at = EventBytes.number(from);
        boolean named = EventBytes.number(from) == 1;
        if (named) EventBytes.skipText(from);
        for (int text = 0; text < 2; text++) { // city and state
            if (EventBytes.number(from) == 1) EventBytes.skipText(from);
        }
        return new Arrival(at, named, EventBytes.number(from) == 1);
    }

    @Override
    public long at(Arrival event, ConsumerRecord<Object, Object> record) {
        return event.at();
    }

    @Override
    public Kinds none() {
        return new Kinds(0, 0);
    }

    @Override
    public Kinds plus(Kinds kinds, Arrival event) {
        return new Kinds(
                kinds.persons() + (event.named() ? 1 : 0), kinds.auctions() + (event.sells() ? 1 : 0));
    }

    @Override
    public byte[] bytes(Kinds kinds) {
        return ByteBuffer.allocate(16).putLong(kinds.persons()).putLong(kinds.auctions()).array();
    }

    @Override
    public Kinds total(ByteBuffer from) {
        return new Kinds(from.getLong(), from.getLong());
    }

    public static void main(String[] args) throws Exception {
        StreamsBacklog.run(new NexmarkQ8Streams(), args);
    }
}
