"""`python -m e2e.cluster`."""

import sys

from e2e.cluster import cli

sys.exit(cli.main())
