import sys

from cutwater.watch.service import main

sys.exit(main())
