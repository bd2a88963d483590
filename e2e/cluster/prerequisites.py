"""Stub, to be replaced within the hour."""
class MissingPrerequisites(Exception):
    """Stub."""
def require(profile: str) -> None: ...
def missing(profile: str) -> list[str]:
    return []
def install(names: list[str]) -> None: ...
def describe(names: list[str], profile: str) -> str:
    return ""
