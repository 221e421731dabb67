"""The mirror: another region's topics copied here, and arrivals."""

import sys

from cutwater.mirror.service import main

sys.exit(main())
