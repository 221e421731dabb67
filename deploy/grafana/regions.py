"""Regions: how far is a replica behind, what would be lost, who answers global queries."""

from __future__ import annotations

from deploy.grafana.panels import Dashboard, Query, Row, graph, quantile, rate, stat

_NOW = Row(
    "Now",
    (
        stat(
            "Age of the replica",
            "s",
            "max(cutwater_mirror_age_seconds)",
            "Since the origin wrote the newest milestone that is complete here. A failover loses what is younger.",
            (None, 300),
        ),
        stat("Milestones not complete here", "short", "max(cutwater_mirror_lag_milestones)"),
        stat(
            "Records not copied",
            "short",
            "max(cutwater_mirror_lag_records)",
            "No value: the origin does not answer.",
        ),
        stat("Time to catch up", "s", "max(cutwater_mirror_catch_up_seconds)"),
        stat(
            "Topics not copied",
            "short",
            "sum(cutwater_mirror_stopped)",
            "Until an operator acts: docs/MIRRORING.md.",
            (None, 1),
        ),
        stat(
            "Milestones that contradict",
            "short",
            "max(cutwater_mirror_fork_milestones)",
            "Both regions have continued: docs/FAILOVER.md.",
            (None, 1),
        ),
    ),
)
_BEHIND = Row(
    "Behind",
    (
        graph(
            "Time",
            "s",
            Query("max by (instance) (cutwater_mirror_age_seconds)", "{{instance}}, age"),
            Query("max by (instance) (cutwater_mirror_lag_seconds)", "{{instance}}, behind what is copied"),
            Query(
                "max by (instance) (time() - cutwater_mirror_watermark_timestamp_seconds)",
                "{{instance}}, watermark",
            ),
            description="The age of an idle job rises only if its origin does not answer.",
        ),
        graph(
            "Milestones",
            "short",
            Query("max by (instance) (cutwater_mirror_lag_milestones)", "{{instance}}, not complete"),
            Query("max by (instance) (cutwater_mirror_pending_milestones)", "{{instance}}, copied and pending"),
        ),
        graph("Bytes not copied", "bytes", Query("max by (instance) (cutwater_mirror_lag_bytes)", "{{instance}}")),
        graph(
            "Partitions apart",
            "s",
            Query("max by (instance) (cutwater_mirror_skew_seconds)", "{{instance}}"),
            description="The slowest partition of a topic behind its fastest.",
        ),
    ),
)
_COPYING = Row(
    "Copying",
    (
        graph(
            "Bytes per second",
            "Bps",
            Query(rate("cutwater_mirror_bytes_total", "topic"), "{{topic}}"),
            stacked=True,
        ),
        graph("Records per second", "short", Query(rate("cutwater_mirror_records_total", "topic"), "{{topic}}")),
        graph(
            "Commit to arrival",
            "s",
            Query(quantile("cutwater_mirror_delay_seconds", rank=0.5), "half of them"),
            Query(quantile("cutwater_mirror_delay_seconds"), "95 of 100", exemplars=True),
        ),
        graph(
            "Arrivals per second",
            "short",
            Query(rate("cutwater_mirror_arrivals_total"), "complete here"),
            Query(rate("cutwater_mirror_passed_milestones_total"), "never complete"),
            Query(rate("cutwater_mirror_rounds_total"), "rounds"),
        ),
    ),
)
_TROUBLE = Row(
    "What goes wrong",
    (
        graph(
            "Copying stopped",
            "short",
            Query("sum by (topic) (cutwater_mirror_stopped)", "{{topic}}"),
            Query("sum by (cause) (increase(cutwater_mirror_gaps_total[$__rate_interval]))", "{{cause}}"),
        ),
        graph(
            "Waits for another region",
            "short",
            Query("max(cutwater_driver_waiting_for_region)", "driver"),
            Query("max(cutwater_signal_waiting_for_region)", "commit-signal"),
            description="1 while a region that may have taken over does not answer.",
        ),
        graph(
            "Settings and schemas",
            "short",
            Query(
                "sum(increase(cutwater_mirror_settings_taken_over_total[$__rate_interval]))", "settings changed"
            ),
            Query("sum(increase(cutwater_mirror_settings_missed_total[$__rate_interval]))", "settings not read"),
            Query("sum(increase(cutwater_mirror_schemas_copied_total[$__rate_interval]))", "schemas copied"),
            Query("max(cutwater_mirror_schemas_missing)", "schemas missing here"),
        ),
    ),
)
_GLOBAL = Row(
    "The global view",
    (
        graph(
            "Queries per second",
            "short",
            Query(rate("cutwater_view_global_questions_total"), "asked"),
            Query(rate("cutwater_view_global_refusals_total", "reason"), "refused: {{reason}}"),
        ),
        graph(
            "Requests to regions per second",
            "short",
            Query(rate("cutwater_view_region_questions_total"), "asked"),
            Query(rate("cutwater_view_region_failures_total"), "without a usable answer"),
        ),
        graph(
            "In progress",
            "short",
            Query("sum by (instance) (cutwater_view_global_under_way)", "{{instance}}"),
        ),
        graph("Answers in memory", "bytes", Query("cutwater_view_region_answers_bytes", "{{instance}}")),
    ),
)

REGIONS = Dashboard(
    "regions",
    "regions",
    "How far is the replica behind, and what would a failover lose? docs/FAILOVER.md and docs/MIRRORING.md.",
    (_NOW, _BEHIND, _COPYING, _TROUBLE, _GLOBAL),
)
