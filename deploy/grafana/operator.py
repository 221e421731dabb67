"""For the operator: do all processes run and keep up, what do they use, can the state be restored."""

from __future__ import annotations

from deploy.grafana.panels import Dashboard, Query, Row, graph, quantile, rate, stat

SERVICES = 'job=~"driver|commit-signal|publisher|rehydrator|watch"'
"""A mirror is not among them: where there is none, its target of prometheus.yml does not answer."""
PROCESSES = 'job=~"driver|commit-signal|publisher|rehydrator|watch|mirror"'
"""Prometheus has these metrics of other programs, too."""

_NOW = Row(
    "Now",
    (
        stat(
            "Services that do not answer",
            "short",
            f"count(up{{{SERVICES}}} == 0) or vector(0)",
            good=(None, 1),
        ),
        stat("Views that are ready", "short", "sum(cutwater_view_ready)", good=(1, None)),
        stat("Milestones without output", "short", "max(cutwater_watch_unpublished_milestones)", good=(None, 20)),
        stat("Views with a full disk", "short", "sum(cutwater_view_disk_full)", good=(None, 1)),
        stat(
            "Brokers do not answer", "none", "max(cutwater_watch_blind)", "1: watch evaluates no rule.", (None, 1)
        ),
        stat(
            "Age of the newest snapshot",
            "s",
            "min(time() - cutwater_view_snapshot_timestamp_seconds)",
            "A restore reads the changelog from there.",
        ),
    ),
)
_ALERTS = Row(
    "Alerts",
    (
        graph(
            "Alerts of watch",
            "short",
            Query("max by (kind, part) (cutwater_watch_alert)", "{{kind}} ({{part}})"),
            description="1 while an alert is on. docs/RUNBOOKS.md has a page for each.",
        ),
        graph(
            "Alerts of Prometheus",
            "short",
            Query('count by (alertname, severity) (ALERTS{alertstate="firing"})', "{{alertname}} ({{severity}})"),
            description="deploy/prometheus/alerts.yml",
        ),
        graph(
            "What is retried or lost",
            "short",
            Query("sum(increase(cutwater_view_retries_total[$__rate_interval]))", "views: brokers did not answer"),
            Query("sum(increase(cutwater_driver_query_restarts_total[$__rate_interval]))", "driver: new leaders"),
            Query(
                "sum(increase(cutwater_watch_webhook_undelivered_total[$__rate_interval]))", "webhook: undelivered"
            ),
            Query("sum(increase(cutwater_starts_unwritten_total[$__rate_interval]))", "starts not in the trail"),
            Query("sum(increase(cutwater_view_divergences_total[$__rate_interval]))", "divergences"),
        ),
    ),
)
_COMMITS = Row(
    "From epoch to reader",
    (
        graph(
            "Milestones per second",
            "short",
            Query(rate("cutwater_driver_epochs_total"), "epochs written"),
            Query(rate("cutwater_signal_milestones_total"), "milestones"),
            Query(rate("cutwater_publisher_transactions_total"), "transactions of the output"),
        ),
        graph(
            "Behind, in milestones",
            "short",
            Query("max(cutwater_watch_drift_epochs)", "commit-signal"),
            Query("max(cutwater_publisher_backlog_milestones)", "publisher"),
            Query("max by (instance) (cutwater_view_backlog_milestones)", "{{instance}}"),
        ),
        graph(
            "Time, 95 of 100",
            "s",
            Query(quantile("cutwater_signal_delay_seconds"), "barrier to milestone"),
            Query(quantile("cutwater_publisher_delay_seconds"), "milestone to output"),
            Query(quantile("cutwater_view_apply_seconds"), "a view applies a milestone"),
        ),
        graph(
            "Sequences",
            "none",
            Query("max(cutwater_watch_sequence)", "newest milestone"),
            Query("max(cutwater_publisher_sequence)", "output"),
            Query("max by (instance) (cutwater_view_sequence)", "{{instance}}"),
            Query("max(cutwater_view_snapshot_sequence)", "newest snapshot"),
        ),
    ),
)
_PROCESSES = Row(
    "Processes",
    (
        graph(
            "Resident memory",
            "bytes",
            Query(f"process_resident_memory_bytes{{{PROCESSES}}}", "{{job}} {{instance}}"),
        ),
        graph(
            "CPU, in cores",
            "short",
            Query(f"rate(process_cpu_seconds_total{{{PROCESSES}}}[$__rate_interval])", "{{job}} {{instance}}"),
            description="Without the driver's JVM, which is a process of its own.",
        ),
        graph(
            "Open files",
            "percentunit",
            Query(f"process_open_fds{{{PROCESSES}}} / process_max_fds{{{PROCESSES}}}", "{{job}} {{instance}}"),
        ),
        graph(
            "Starts",
            "short",
            Query(f"changes(process_start_time_seconds{{{PROCESSES}}}[1h])", "{{job}} {{instance}}"),
            Query("max(cutwater_driver_attempt)", "attempts of the driver in this generation"),
            description="Starts of each process in the last hour: cutwater history has their reasons.",
        ),
    ),
)
_DRIVER = Row(
    "Driver",
    (
        graph(
            "Heap of the driver's JVM",
            "bytes",
            Query("max(cutwater_driver_jvm_heap_used_bytes)", "used, garbage included"),
            Query("max(cutwater_driver_jvm_heap_max_bytes)", "maximum"),
        ),
        graph(
            "Garbage collections and compilers",
            "percentunit",
            Query(rate("cutwater_driver_jvm_gc_seconds_total"), "collections"),
            Query(rate("cutwater_driver_jvm_jit_seconds_total"), "compilers"),
            description="Seconds per second. Concurrent collectors and compilers stop nothing.",
        ),
        graph(
            "Spark's RocksDB",
            "percentunit",
            Query(rate("cutwater_driver_rocksdb_step_seconds_total", "step"), "{{step}}"),
            description="Seconds of all tasks per second. A stall waits for a compaction.",
        ),
        graph(
            "Idle, or waiting",
            "short",
            Query("max(cutwater_watch_idle)", "the source has nothing new"),
            Query("max(cutwater_signal_prepared)", "an epoch waits for Spark's commit"),
            Query("max(cutwater_signal_waiting)", "the barriers cannot be read"),
        ),
    ),
)
_SPARK_STATE = Row(
    "RocksDB of Spark's state",
    (
        graph(
            "Bytes per second",
            "Bps",
            Query(rate("cutwater_driver_rocksdb_bytes_total", "kind"), "{{kind}}"),
        ),
        graph(
            "Calls per second",
            "short",
            Query(rate("cutwater_driver_rocksdb_gets_total"), "gets"),
            Query(rate("cutwater_driver_rocksdb_puts_total"), "puts"),
        ),
        graph(
            "Blocks per second",
            "short",
            Query(rate("cutwater_driver_rocksdb_cache_hits_total"), "found in memory"),
            Query(rate("cutwater_driver_rocksdb_cache_misses_total"), "loaded from disk"),
        ),
        graph(
            "Spilled bytes per second",
            "Bps",
            Query(rate("cutwater_driver_spilled_bytes_total"), "to disk"),
            description="By tasks in the driver's JVM: memory is too small for an epoch.",
        ),
    ),
)
_VIEWS = Row(
    "RocksDB of the views",
    (
        graph(
            "Memory",
            "bytes",
            Query("cutwater_view_store_memory_bytes", "{{instance}}"),
            Query("max(cutwater_view_store_memory_max_bytes)", "limit of cache and write buffers"),
        ),
        graph(
            "Blocks found in memory",
            "percentunit",
            Query(
                "sum by (instance) (rate(cutwater_view_store_cache_hits_total[$__rate_interval])) / "
                "(sum by (instance) (rate(cutwater_view_store_cache_hits_total[$__rate_interval])) + "
                "sum by (instance) (rate(cutwater_view_store_cache_misses_total[$__rate_interval])))",
                "{{instance}}",
            ),
            description="CUTWATER_VIEW_MEMORY_MB is the memory for them.",
        ),
        graph(
            "Bytes written per second",
            "Bps",
            Query(rate("cutwater_view_store_put_bytes_total"), "rows"),
            Query(rate("cutwater_view_store_logged_bytes_total"), "log"),
            Query(rate("cutwater_view_store_flushed_bytes_total"), "flushed"),
            Query(rate("cutwater_view_store_compacted_bytes_total"), "compacted"),
        ),
        graph(
            "Files",
            "bytes",
            Query("cutwater_view_store_files_bytes", "{{instance}}"),
            Query("cutwater_view_store_live_bytes", "{{instance}}, newest milestone"),
            Query("cutwater_view_over_bytes", "{{instance}}, above max_bytes"),
        ),
    ),
)
_RESTORE = Row(
    "Snapshots and restores",
    (
        graph(
            "Age of the newest snapshot",
            "s",
            Query("time() - cutwater_view_snapshot_timestamp_seconds", "{{instance}}"),
            Query("max(cutwater_view_snapshot_every_seconds)", "one is due after"),
        ),
        graph(
            "Time of a snapshot, 95 of 100",
            "s",
            Query(quantile("cutwater_view_snapshot_take_seconds"), "follower pauses"),
            Query(quantile("cutwater_view_snapshot_upload_seconds"), "upload"),
            Query("max(cutwater_view_snapshot_restore_seconds)", "last restore"),
        ),
        graph(
            "Snapshots that fail",
            "short",
            Query("sum(increase(cutwater_view_snapshot_failures_total[$__rate_interval]))", "failures"),
            Query("sum(cutwater_view_snapshots_passed_over)", "damaged"),
            Query("max(cutwater_view_snapshot_manifests_unreadable)", "unreadable manifests"),
            Query("max(cutwater_view_snapshot_store_away)", "the store does not answer"),
        ),
        graph(
            "A restore from the log",
            "short",
            Query("cutwater_view_loaded_records", "{{instance}}, loaded"),
            Query("cutwater_view_to_load_records", "{{instance}}, at most to load"),
        ),
    ),
)
_HTTP = Row(
    "HTTP",
    (
        graph("Requests in progress", "short", Query("cutwater_http_requests", "{{job}} {{instance}}")),
        graph("Connections", "short", Query("cutwater_http_connections", "{{job}} {{instance}}")),
        graph(
            "Ended by a limit, per second",
            "short",
            Query(rate("cutwater_http_ended_total", "reason"), "{{reason}}"),
            description="docs/SECURITY.md explains the limits.",
        ),
        graph(
            "Readers",
            "short",
            Query("sum(cutwater_view_followers)", "follow the changes"),
            Query("sum(cutwater_view_waiting_requests)", "wait for a milestone"),
            Query(rate("cutwater_view_followers_cut_off_total"), "cut off, per second"),
            Query(rate("cutwater_view_peer_failures_total"), "peers without an answer, per second"),
        ),
    ),
)

OPERATOR = Dashboard(
    "operator",
    "operator",
    "Do all processes run and keep up, and can the state be restored? docs/OPERATING.md explains what to do.",
    (_NOW, _ALERTS, _COMMITS, _PROCESSES, _DRIVER, _SPARK_STATE, _VIEWS, _RESTORE, _HTTP),
)
