import java.nio.ByteBuffer;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;

/** The aggregation of Nexmark's query 7 in Flink SQL: the highest bid by auction. See `FlinkSqlBacklog`. */
public final class NexmarkQ7FlinkSql {
    static final RowType EVENT = RowType.of(
            new LogicalType[] {new BigIntType(), new BigIntType(), new BigIntType()},
            new String[] {"auction", "price", "at"});

    static RowData row(ByteBuffer from) {
        long auction = EventBytes.number(from);
        EventBytes.number(from); // the bidder
        long price = EventBytes.number(from);
        EventBytes.skipText(from); // the channel
        EventBytes.skipText(from); // the URL
        return GenericRowData.of(auction, price, EventBytes.number(from));
    }

    public static void main(String[] args) throws Exception {
        FlinkSqlBacklog.run(args, EVENT, NexmarkQ7FlinkSql::row, "auction", "MAX(price)");
    }
}
