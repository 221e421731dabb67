import java.nio.ByteBuffer;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;

/** The aggregation of Nexmark's query 5 in Flink SQL: bids by auction. See `FlinkSqlBacklog`. */
public final class NexmarkQ5FlinkSql {
    static final RowType EVENT = RowType.of(
            new LogicalType[] {new BigIntType(), new BigIntType()},
            new String[] {"auction", "at"});

    static RowData row(ByteBuffer from) {
        long auction = EventBytes.number(from);
        EventBytes.number(from); // the bidder
        EventBytes.number(from); // the price
        EventBytes.skipText(from); // the channel
        EventBytes.skipText(from); // the URL
        return GenericRowData.of(auction, EventBytes.number(from));
    }

    public static void main(String[] args) throws Exception {
        FlinkSqlBacklog.run(args, EVENT, NexmarkQ5FlinkSql::row, "auction", "COUNT(*)");
    }
}
