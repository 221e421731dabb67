import sys

from cutwater.commit_signal.service import main

sys.exit(main())
