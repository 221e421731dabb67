"""The benchmark as a command."""

import sys

from benchmarks.sizing.bench import main

sys.exit(main(sys.argv[1:]))
