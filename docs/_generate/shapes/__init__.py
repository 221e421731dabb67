"""The JSON that each verb prints with `--json`.

docs/JSON.md, docs/json/ and the tests import this; verbs do not. A test fails if a verb prints a field that is not
declared here, or omits a declared one.
"""

from __future__ import annotations

from typing import Any

from docs._generate.shapes import job, past, regions, skew, state

SHAPES: dict[str, Any] = {
    "audit": list[job.AuditedAction],
    "blame": past.Blame,
    "cadence": job.Cadence,
    "calibrate": job.Calibrated,
    "canary drop": past.Canary,
    "canary promote": past.Canary,
    "canary start": regions.Claimed | past.Canary,
    "canary status": past.Canary,
    "chaos": job.Chaos,
    "config show": list[job.Setting],
    "console": job.Console,
    "dead-letters list": state.DeadLetters,
    "dead-letters replay": state.Replayed,
    "demo-regions": job.Demonstration,
    "diff": past.MilestoneDifference,
    "distinct": state.Distinct,
    "doctor": job.Findings,
    "down": job.Down | job.DownPlan,
    "export": state.Export,
    "failover": regions.GoingOn,
    "forks decide": regions.Decided,
    "forks list": regions.Forks,
    "forks loss": regions.Loss,
    "generation abort": list[regions.Generation],
    "generation hold": regions.Held,
    "generation job-file": regions.JobFile,
    "generation list": list[regions.Generation],
    "generation promote": list[regions.Generation],
    "generation prune": list[regions.PrunedGeneration],
    "generation release": regions.Held,
    "generation schedule": regions.Scheduled,
    "generation start": regions.Started,
    "get": state.Key,
    "history": list[job.Start],
    "hot-keys": state.HotKeys,
    "incident": job.Incident,
    "init": job.Draft,
    "late list": state.LatePairs,
    "late replay": regions.ClaimedForLate,
    "lineage": list[state.Lineage],
    "load": job.Loaded,
    "milestones": list[state.ListedMilestone],
    "mirror resync": (
        regions.Resynced | regions.ResyncWithdrawn | regions.ResyncPlan | regions.ResyncFromSnapshot
    ),
    "mirror status": regions.Mirror,
    "plan": job.Plan,
    "policy check": list[job.PolicyFinding],
    "prepare": job.Prepared,
    "produce": job.Produced,
    "prune": list[state.PrunedRecords],
    "regions": regions.Regions,
    "release": regions.Released,
    "replay": past.Replay,
    "restore": state.Restore,
    "rollback": regions.RolledBack,
    "schemas check": job.SchemaProblems,
    "schemas fetch": job.FetchedSchema,
    "schemas register": job.RegisteredSchemas,
    "schemas show": job.Schemas,
    "size": job.Sizing,
    "skew plan": skew.SpreadPlan,
    "skew show": skew.Skew,
    "skew spread": skew.SpreadChanged,
    "skew unspread": skew.SpreadChanged,
    "snapshots create": state.Snapshot,
    "snapshots list": state.Snapshots,
    "snapshots prune": state.PrunedSnapshots,
    "snapshots verify": state.Snapshots,
    "status": job.Status | job.Statuses,
    "switchover": regions.GoingOn,
    "tail": state.CommittedMilestone,
    "up": job.StartedStack | job.Stacks,
    "verify": state.Verification | state.Comparison | state.NotCompared,
}
"""By verb, as it is typed. `tail` and `verify --every` print one such value per line."""
