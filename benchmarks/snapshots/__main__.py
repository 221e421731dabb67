"""The benchmark as a command."""

import sys

from benchmarks.snapshots.bench import main

sys.exit(main(sys.argv[1:]))
