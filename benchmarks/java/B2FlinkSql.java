import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.IntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.VarCharType;

/**
 * The windows of B2 in Flink SQL: the window table-valued function, and an aggregation by key and window in two
 * phases. The source gives rows in SQL's own form, so that nothing is converted. `FlinkBacklog` has the arguments.
 */
public final class B2FlinkSql {
    static final RowType TICK = RowType.of(
            new LogicalType[] {new VarCharType(VarCharType.MAX_LENGTH), new BigIntType(), new IntType()},
            new String[] {"key", "at", "value"});
    static final Map<String, String> SETTINGS = Map.of(
            "table.local-time-zone", "UTC",
            "table.exec.mini-batch.enabled", "true",
            "table.exec.mini-batch.allow-latency", "5 s",
            "table.exec.mini-batch.size", "50000",
            "table.optimizer.agg-phase-strategy", "TWO_PHASE");

    static final class RowReader extends FlinkBacklog.TickReader<RowData> {
        RowReader(FlinkBacklog backlog) {
            super(backlog);
        }

        @Override
        RowData tick(byte[] data, int key, int length, long at, int value) {
            return GenericRowData.of(StringData.fromBytes(data, key, length), at, value);
        }

        @Override
        public TypeInformation<RowData> getProducedType() {
            return InternalTypeInfo.of(TICK);
        }
    }

    static String windows(long sizeMs, long slideMs) {
        String table = "TABLE ticks, DESCRIPTOR(event_time), ";
        if (sizeMs == slideMs) return "TUMBLE(" + table + interval(sizeMs) + ")";
        return "HOP(" + table + interval(slideMs) + ", " + interval(sizeMs) + ")";
    }

    private static String interval(long ms) {
        return "INTERVAL '" + ms / 1000 + "' SECOND(5)";
    }

    public static void main(String[] args) throws Exception {
        FlinkBacklog backlog = new FlinkBacklog(args);
        StreamExecutionEnvironment environment = backlog.environment();
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        SETTINGS.forEach(tables.getConfig()::set);
        DataStream<RowData> ticks = environment.fromSource(backlog.source(new RowReader(backlog)),
                backlog.<RowData>watermarks().withTimestampAssigner((tick, before) -> tick.getLong(1)), "ticks");
        tables.createTemporaryView("ticks", ticks, Schema.newBuilder()
                .column("key", DataTypes.STRING())
                .column("value", DataTypes.INT())
                .columnByMetadata("event_time", DataTypes.TIMESTAMP_LTZ(3), "rowtime")
                .watermark("event_time", "SOURCE_WATERMARK()")
                .build());
        Table rows = tables.sqlQuery(
                "SELECT `key`, window_start, COUNT(*), SUM(CAST(`value` AS BIGINT)), MAX(`value`) FROM TABLE("
                        + windows(backlog.sizeMs, backlog.slideMs) + ") GROUP BY `key`, window_start, window_end");
        DataStream<RowData> closed = tables.toDataStream(
                rows, rows.getResolvedSchema().toPhysicalRowDataType().bridgedTo(RowData.class));
        closed.sinkTo(backlog.sink(row -> new FlinkBacklog.Row(
                row.getString(0).toBytes(), row.getTimestamp(1, 3).getMillisecond(),
                row.getLong(2), row.getLong(3), row.getInt(4))));
        backlog.run(environment);
    }
}
