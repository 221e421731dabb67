"""What `cutwater size` predicts beside what is measured, at three rates.

python -m benchmarks.sizing --size 40000
"""

from benchmarks.sizing.bench import COMMAND

__all__ = ["COMMAND"]
