"""`python -m modelyard.local.apiserver`."""

import sys

from modelyard.local.apiserver.process import main

sys.exit(main())
