"""A job with an objective, whose cadence controller decides, beside fixed settings under the same load."""

from benchmarks.cadence.bench import COMMAND as COMMAND
