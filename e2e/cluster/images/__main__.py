"""Entry of `python -m e2e.cluster.images`."""

import sys

from e2e.cluster.images import cli

sys.exit(cli.main())
