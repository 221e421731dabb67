import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple5;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * The windows of B2 with Flink's DataStream API: count, sum and maximum per key, aggregated as events come, a row
 * for each window when the watermark passes its end. `FlinkBacklog` has the arguments.
 */
public final class B2Flink {
    /** Key, time, value. Tuples have the fastest of Flink's serializers. */
    static final TypeInformation<Tuple3<String, Long, Integer>> TICK =
            Types.TUPLE(Types.STRING, Types.LONG, Types.INT);
    /** Count, sum, maximum. */
    static final TypeInformation<Tuple3<Long, Long, Long>> TOTAL = Types.TUPLE(Types.LONG, Types.LONG, Types.LONG);
    /** Key, the window's start, count, sum, maximum. */
    static final TypeInformation<Tuple5<String, Long, Long, Long, Long>> ROW =
            Types.TUPLE(Types.STRING, Types.LONG, Types.LONG, Types.LONG, Types.LONG);

    static final class TupleReader extends FlinkBacklog.EventReader<Tuple3<String, Long, Integer>> {
        TupleReader(FlinkBacklog backlog) {
            super(backlog);
        }

        @Override
        Tuple3<String, Long, Integer> event(ByteBuffer from) {
            String key = new String(EventBytes.text(from), StandardCharsets.UTF_8);
            return Tuple3.of(key, EventBytes.number(from), (int) EventBytes.number(from));
        }

        @Override
        public TypeInformation<Tuple3<String, Long, Integer>> getProducedType() {
            return TICK;
        }
    }

    static final class Totals implements AggregateFunction<
            Tuple3<String, Long, Integer>, Tuple3<Long, Long, Long>, Tuple3<Long, Long, Long>> {
        @Override
        public Tuple3<Long, Long, Long> createAccumulator() {
            return Tuple3.of(0L, 0L, Long.MIN_VALUE);
        }

        @Override
        public Tuple3<Long, Long, Long> add(Tuple3<String, Long, Integer> tick, Tuple3<Long, Long, Long> total) {
            total.setFields(total.f0 + 1, total.f1 + tick.f2, Math.max(total.f2, tick.f2));
            return total;
        }

        @Override
        public Tuple3<Long, Long, Long> getResult(Tuple3<Long, Long, Long> total) {
            return total;
        }

        @Override
        public Tuple3<Long, Long, Long> merge(Tuple3<Long, Long, Long> one, Tuple3<Long, Long, Long> other) {
            return Tuple3.of(one.f0 + other.f0, one.f1 + other.f1, Math.max(one.f2, other.f2));
        }
    }

    /** Puts key and window to the totals. */
    static final class Rows extends ProcessWindowFunction<
            Tuple3<Long, Long, Long>, Tuple5<String, Long, Long, Long, Long>, String, TimeWindow> {
        @Override
        public void process(String key, Context context, Iterable<Tuple3<Long, Long, Long>> totals,
                Collector<Tuple5<String, Long, Long, Long, Long>> out) {
            Tuple3<Long, Long, Long> total = totals.iterator().next();
            out.collect(Tuple5.of(key, context.window().getStart(), total.f0, total.f1, total.f2));
        }
    }

    static WindowAssigner<Object, TimeWindow> windows(long sizeMs, long slideMs) {
        Duration size = Duration.ofMillis(sizeMs);
        if (sizeMs == slideMs) return TumblingEventTimeWindows.of(size);
        return SlidingEventTimeWindows.of(size, Duration.ofMillis(slideMs));
    }

    public static void main(String[] args) throws Exception {
        FlinkBacklog backlog = new FlinkBacklog(args);
        StreamExecutionEnvironment environment = backlog.environment();
        WatermarkStrategy<Tuple3<String, Long, Integer>> watermarks = backlog.watermarks();
        environment.fromSource(backlog.source(new TupleReader(backlog)),
                        watermarks.withTimestampAssigner((tick, before) -> tick.f1), "ticks")
                .keyBy(tick -> tick.f0, Types.STRING)
                .window(windows(backlog.sizeMs, backlog.slideMs))
                .aggregate(new Totals(), new Rows(), TOTAL, TOTAL, ROW)
                .sinkTo(backlog.sink(row -> new FlinkBacklog.Row(
                        row.f0.getBytes(StandardCharsets.UTF_8), row.f1, row.f2, row.f3, row.f4)));
        backlog.run(environment);
    }
}
