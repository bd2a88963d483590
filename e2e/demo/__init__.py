"""`make demo`: from nothing to a model's answer, with what happens shown while it happens.

All state is in the caches and in the cluster, and each stage makes its own part so, whatever was there
before: it can be ended anywhere, and a second run goes on where the first one stopped.
"""

import sys

EXIT_INTERRUPTED = 130


def say_interrupted() -> int:
    """Says how to go on after a Ctrl-C, and returns the exit status for it."""
    print("\ninterrupted: `make demo` goes on from here, `make demo-down` removes what there is", file=sys.stderr)
    return EXIT_INTERRUPTED
