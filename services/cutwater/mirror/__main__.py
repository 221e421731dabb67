"""The mirror: copies another region's topics here, and announces arrivals."""

import sys

from cutwater.mirror.service import main

sys.exit(main())
