"""For the owner of a job: is it right, is it fresh, does it keep up, which keys are hot, what was not counted."""

from __future__ import annotations

from deploy.grafana.panels import Dashboard, Query, Row, graph, quantile, rate, stat

_NOW = Row(
    "Now",
    (
        stat("Newest milestone", "none", "max(cutwater_watch_sequence)"),
        stat(
            "Age of what is shown",
            "s",
            "max(cutwater_view_age_seconds)",
            "Since the milestone was committed.",
            (None, 300),
        ),
        stat(
            "Events that wait",
            "short",
            "max(cutwater_watch_waiting_events)",
            "At the source; no epoch covers them yet.",
        ),
        stat(
            "Dead letters in an hour",
            "short",
            'sum(increase(cutwater_driver_rejected_by_reason_total{reason!="no value"}[1h]))',
            "Events that could not be counted, deletions of a compacted topic aside: cutwater dead-letters list.",
            (None, 1),
        ),
        stat(
            "Late events in an hour",
            "short",
            "sum(increase(cutwater_driver_late_total[1h]))",
            "Events that came after their window had closed: cutwater late list.",
            (None, 1),
        ),
        stat(
            "Alerts of watch",
            "short",
            "sum(cutwater_watch_alert) or vector(0)",
            "docs/RUNBOOKS.md has a page for each.",
            (None, 1),
        ),
    ),
)
_EVENTS = Row(
    "Events",
    (
        graph(
            "Events per second",
            "short",
            Query(rate("cutwater_driver_events_total"), "read"),
            Query(rate("cutwater_driver_left_out_total"), "left out by source.where"),
        ),
        graph(
            "Not counted, per second",
            "short",
            Query(rate("cutwater_driver_rejected_by_reason_total", "reason"), "{{reason}}"),
            Query(rate("cutwater_driver_late_total"), "late"),
            description="Dead letters by their reason (docs/FORMAT.md), and late events. All of them are listed.",
        ),
        graph(
            "Event time",
            "s",
            Query("max(time() - cutwater_driver_watermark_timestamp_seconds)", "watermark is behind by"),
            Query("max(cutwater_driver_skew_seconds)", "skew of the source's partitions"),
            Query("max(time() - cutwater_driver_floor_timestamp_seconds)", "events are late from"),
            description="A skew above the job's lateness makes the events of slow partitions late.",
        ),
    ),
)
_KEEPING_UP = Row(
    "Does it keep up?",
    (
        graph(
            "Waiting",
            "short",
            Query("max(cutwater_watch_waiting_events)", "events without an epoch"),
            Query("max(cutwater_watch_drift_events)", "events without a milestone"),
        ),
        graph(
            "Time of each step, 95 of 100",
            "s",
            Query(quantile("cutwater_watch_step_seconds", "step"), "{{step}}", exemplars=True),
            description="process ends with the barrier, commit with the milestone, publish with the output.",
        ),
        graph(
            "Time of an epoch",
            "s",
            Query(quantile("cutwater_driver_epoch_seconds", rank=0.5), "half of them"),
            Query(quantile("cutwater_driver_epoch_seconds", rank=0.99), "99 of 100"),
            Query(quantile("cutwater_driver_cleaning_seconds", rank=0.99), "cleanings of the state, 99 of 100"),
        ),
        graph(
            "Freshness",
            "s",
            Query("max by (instance) (cutwater_view_age_seconds)", "{{instance}}"),
            description="Age of the milestone that each view shows.",
        ),
    ),
)
_STATE = Row(
    "State",
    (
        graph(
            "Rows per second",
            "short",
            Query(rate("cutwater_driver_rows_total"), "to the changelog"),
            Query(rate("cutwater_publisher_rows_total"), "to the output"),
            Query(rate("cutwater_publisher_corrections_total"), "of them corrections"),
            Query(rate("cutwater_driver_amended_total"), "of windows that had closed"),
        ),
        graph(
            "Rows of the state",
            "short",
            Query("sum(cutwater_view_state_rows)", "rows"),
            description="In the last census.",
        ),
        graph(
            "Largest shards",
            "bytes",
            Query("topk(10, max by (shard) (cutwater_view_shard_bytes))", "shard {{shard}}"),
            description="One far above the others has a hot key: GET /v1/sizes names the largest keys.",
        ),
        graph(
            "Largest keys",
            "bytes",
            Query("max by (rank) (cutwater_view_key_bytes)", "rank {{rank}}"),
            description="GET /v1/sizes names them.",
        ),
    ),
)

_SPARK = Row(
    "Spark",
    (
        graph(
            "Phases of the epochs",
            "percentunit",
            Query(
                'sum by (phase) (rate(cutwater_driver_spark_phase_seconds_total{phase!="triggerExecution"}'
                "[$__rate_interval]))",
                "{{phase}}",
            ),
            description="Share of the time. addBatch is the epoch itself, the rest Spark's planning and its logs.",
            stacked=True,
        ),
        graph(
            "Tasks in the state",
            "percentunit",
            Query(rate("cutwater_driver_state_task_seconds_total", "step"), "{{step}}"),
            description="Of one core. update and commit grow with the changed rows, remove with all rows.",
        ),
        graph(
            "Rows of Spark's state per second",
            "short",
            Query(rate("cutwater_driver_state_updated_rows_total"), "written"),
            Query(rate("cutwater_driver_state_removed_rows_total"), "evicted"),
        ),
        graph(
            "Size of Spark's state",
            "bytes",
            Query("max(cutwater_driver_state_memory_bytes)", "memory"),
            Query("max(cutwater_driver_rocksdb_files_bytes)", "files"),
            Query("max(cutwater_driver_rocksdb_pinned_bytes)", "pinned blocks"),
        ),
    ),
)

JOB_OWNER = Dashboard(
    "job-owner",
    "job owner",
    "Is the job right, fresh and fast enough? docs/METRICS.md has every metric.",
    (_NOW, _EVENTS, _KEEPING_UP, _STATE, _SPARK),
)
