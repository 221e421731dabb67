"""Cutwater in your own tests: one job with all its services, in containers or as local processes.

from cutwater.testing import embedded

with embedded("orders.yaml") as job:
    job.produce([{"customer": "a", "placed_at": 1_700_000_000_000, "amount": 5}])
    token = job.wait()
    assert job.rows("a")[0]["orders"] == 1

`containers("orders.yaml")` gives the same, from the images of deploy/images. In pytest, use the fixture
`cutwater_job` (docs/TESTING.md).
"""

from cutwater.testing.containers import containers
from cutwater.testing.deployment import Deployment
from cutwater.testing.embedded import embedded

__all__ = ["Deployment", "containers", "embedded"]
