import java.nio.ByteBuffer;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.VarCharType;

/** The aggregation of Nexmark's query 8 in Flink SQL: events of either kind by person. See `FlinkSqlBacklog`. */
public final class NexmarkQ8FlinkSql {
    static final RowType EVENT = RowType.of(
            new LogicalType[] {
                new BigIntType(), new BigIntType(), new VarCharType(VarCharType.MAX_LENGTH), new BigIntType()
            },
            new String[] {"person", "at", "name", "auction"});

    /** Whether a field that may be null is not. */
    private static boolean some(ByteBuffer from) {
        return EventBytes.number(from) == 1;
    }

    static RowData row(ByteBuffer from) {
        long person = EventBytes.number(from), at = EventBytes.number(from);
        StringData name = some(from) ? StringData.fromBytes(EventBytes.text(from)) : null;
        for (int text = 0; text < 2; text++) { // city and state
            if (some(from)) EventBytes.skipText(from);
        }
        return GenericRowData.of(person, at, name, some(from) ? EventBytes.number(from) : null);
    }

    public static void main(String[] args) throws Exception {
        FlinkSqlBacklog.run(args, EVENT, NexmarkQ8FlinkSql::row, "person", "COUNT(name), COUNT(auction)");
    }
}
