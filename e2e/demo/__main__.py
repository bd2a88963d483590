"""`python -m e2e.demo`."""

import sys

from e2e.demo import say_interrupted

try:
    # Inside, as the imports alone take long enough for somebody to press Ctrl-C.
    from e2e.demo import cli

    status = cli.main()
except KeyboardInterrupt:
    status = say_interrupted()
sys.exit(status)
