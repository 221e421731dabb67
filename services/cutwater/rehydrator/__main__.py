import sys

from cutwater.rehydrator.service import main

sys.exit(main())
