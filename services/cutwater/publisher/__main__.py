import sys

from cutwater.publisher.service import main

sys.exit(main())
