import java.nio.ByteBuffer;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.IntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.VarCharType;

/** The windows of B2 in Flink SQL: count, sum and maximum per key. See `FlinkSqlBacklog`. */
public final class B2FlinkSql {
    static final RowType EVENT = RowType.of(
            new LogicalType[] {new VarCharType(VarCharType.MAX_LENGTH), new BigIntType(), new IntType()},
            new String[] {"key", "at", "value"});

    static RowData row(ByteBuffer from) {
        StringData key = StringData.fromBytes(EventBytes.text(from));
        return GenericRowData.of(key, EventBytes.number(from), (int) EventBytes.number(from));
    }

    public static void main(String[] args) throws Exception {
        FlinkSqlBacklog.run(args, EVENT, B2FlinkSql::row, "`key`",
                "COUNT(*), SUM(CAST(`value` AS BIGINT)), CAST(MAX(`value`) AS BIGINT)");
    }
}
