"""Arguments of containers as Kubernetes has to be given them."""

from collections.abc import Sequence


def unexpanded(args: Sequence[str]) -> list[str]:
    """Return arguments that arrive as they are: of ``$(NAME)`` the kubelet would make a variable's value.

    What was checked would not be what the engine gets, reserved arguments among it.
    """
    return [arg.replace("$", "$$") for arg in args]
