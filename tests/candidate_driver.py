"""A driver of the generation that CUTWATER_GENERATION names, over as many partitions as its claim says.

python -m candidate_driver JOBFILE
"""

from __future__ import annotations

import sys
from typing import Any

from cutwater.adapters.generations import working_for
from cutwater.adapters.settings import Settings
from cutwater.core.job import Job
from cutwater_spark import driver


class Candidate(driver.Driver):
    def __init__(self, job: Job, settings: Settings, log: Any) -> None:
        super().__init__(*working_for(job, settings), log)


if __name__ == "__main__":
    driver.Driver = Candidate  # type: ignore[misc]
    sys.exit(driver.main())
