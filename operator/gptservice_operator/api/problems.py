"""What is wrong with an object, field by field, in words for people."""

from pydantic import ValidationError

# pydantic adds the name of the union's branch to the path.
_UNION_BRANCHES = frozenset({"str", "int", "constrained-str", "constrained-int"})
_MAX_EXPLAINED = 5
_MAX_PROBLEM = 400
_MAX_PATH = 200


def explain(error: ValidationError, root: str) -> str:
    """Say which fields are wrong and why, as the API server would: ``spec.gpu.count: Input should be ...``."""
    by_path: dict[str, str] = {}
    for issue in error.errors(include_url=False, include_input=False):
        by_path.setdefault(_path(root, issue["loc"]), issue["msg"].removeprefix("Value error, "))
    listed = [f"{path}: {message}"[:_MAX_PROBLEM] for path, message in list(by_path.items())[:_MAX_EXPLAINED]]
    more = len(by_path) - len(listed)
    return "; ".join([*listed, *([f"and {more} more"] if more > 0 else [])])


def _path(root: str, location: tuple[int | str, ...]) -> str:
    parts = [part for part in location if part not in _UNION_BRANCHES]
    path = root + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return path if len(path) <= _MAX_PATH else f"{path[: _MAX_PATH - 1]}…"
