import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.utils.TypeConversions;

/**
 * What the Flink SQL programs of B2 share: the window table-valued function, and an aggregation by key and window
 * in two phases. The source gives rows in SQL's own form, so that nothing is converted. `FlinkBacklog` has the
 * arguments.
 */
final class FlinkSqlBacklog {
    private static final String TIME = "at";
    private static final Map<String, String> SETTINGS = Map.of(
            "table.local-time-zone", "UTC",
            "table.exec.mini-batch.enabled", "true",
            "table.exec.mini-batch.allow-latency", "5 s",
            "table.exec.mini-batch.size", "50000",
            "table.optimizer.agg-phase-strategy", "TWO_PHASE");

    /** A row of SQL from an event's bytes behind the header. */
    interface Events extends Serializable {
        RowData row(ByteBuffer from);
    }

    private FlinkSqlBacklog() {}

    private static final class RowReader extends FlinkBacklog.EventReader<RowData> {
        private final RowType type;
        private final Events events;

        RowReader(FlinkBacklog backlog, RowType type, Events events) {
            super(backlog);
            this.type = type;
            this.events = events;
        }

        @Override
        RowData event(ByteBuffer from) {
            return events.row(from);
        }

        @Override
        public TypeInformation<RowData> getProducedType() {
            return InternalTypeInfo.of(type);
        }
    }

    private static String windows(long sizeMs, long slideMs) {
        String table = "TABLE events, DESCRIPTOR(event_time), ";
        if (sizeMs == slideMs) return "TUMBLE(" + table + interval(sizeMs) + ")";
        return "HOP(" + table + interval(slideMs) + ", " + interval(sizeMs) + ")";
    }

    private static String interval(long ms) {
        return "INTERVAL '" + ms / 1000 + "' SECOND(5)";
    }

    private static Schema schema(RowType type) {
        Schema.Builder schema = Schema.newBuilder();
        for (RowType.RowField field : type.getFields()) {
            if (field.getName().equals(TIME)) continue; // the stream's records have it
            schema.column(field.getName(), TypeConversions.fromLogicalToDataType(field.getType()));
        }
        return schema.columnByMetadata("event_time", DataTypes.TIMESTAMP_LTZ(3), "rowtime")
                .watermark("event_time", "SOURCE_WATERMARK()")
                .build();
    }

    private static FlinkBacklog.Row closed(RowData row) {
        long[] measures = new long[row.getArity() - 2];
        for (int i = 0; i < measures.length; i++) measures[i] = row.getLong(i + 2);
        return new FlinkBacklog.Row(row.getString(0).toBytes(), row.getTimestamp(1, 3).getMillisecond(), measures);
    }

    /** `type` has a field `at`, the event time. `measures`: each a BIGINT that is never null. */
    static void run(String[] args, RowType type, Events events, String key, String measures) throws Exception {
        FlinkBacklog backlog = new FlinkBacklog(args);
        StreamExecutionEnvironment environment = backlog.environment();
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        SETTINGS.forEach(tables.getConfig()::set);
        int time = type.getFieldIndex(TIME);
        DataStream<RowData> rows = environment.fromSource(
                backlog.source(new RowReader(backlog, type, events)),
                backlog.<RowData>watermarks().withTimestampAssigner((row, before) -> row.getLong(time)), "events");
        tables.createTemporaryView("events", rows, schema(type));
        Table windows = tables.sqlQuery("SELECT CAST(" + key + " AS STRING), window_start, " + measures
                + " FROM TABLE(" + windows(backlog.sizeMs, backlog.slideMs) + ") GROUP BY " + key
                + ", window_start, window_end");
        DataStream<RowData> closed = tables.toDataStream(
                windows, windows.getResolvedSchema().toPhysicalRowDataType().bridgedTo(RowData.class));
        closed.sinkTo(backlog.sink(FlinkSqlBacklog::closed));
        backlog.run(environment);
    }
}
