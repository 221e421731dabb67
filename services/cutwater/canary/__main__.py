import sys

from cutwater.canary.service import main

sys.exit(main())
