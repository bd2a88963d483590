"""How much memory a program had at its peak.

It is started by a small process in between: a child's peak begins with what its parent held when it was forked.
"""

import sys
from pathlib import Path

_IN_BETWEEN = """
import os, sys
child = os.spawnv(os.P_NOWAIT, sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(child, 0)
open(sys.argv[1], "w").write(str(usage.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status))
"""


def measuring(file: Path) -> list[str]:
    """What goes before a command, the program's path first, to have its peak in a file when it has ended."""
    return [sys.executable, "-c", _IN_BETWEEN, str(file)]


def measured(file: Path) -> int:
    """Bytes, as that file has them."""
    return int(file.read_text()) << 10
