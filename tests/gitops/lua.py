"""Runs a health script as Argo CD does: Lua 5.1, the object in the global ``obj``, the answer in a returned table."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lupa import lua51

SCRIPTS = Path(__file__).resolve().parents[2] / "gitops/argocd/resource_customizations/ai.example.com"
# Scripts out of argocd-cm have these, and `os` in a harmless form, which ours have no use for.
LIBRARIES = {"table"}
BASE = {"_G", "_VERSION", "assert", "error", "getmetatable", "ipairs", "next", "pairs", "pcall", "rawequal", "rawget",
        "rawset", "select", "setmetatable", "tonumber", "tostring", "type", "unpack", "xpcall"}  # fmt: skip

STATUSES = {"Healthy", "Progressing", "Suspended", "Degraded", "Missing", "Unknown"}


@dataclass(frozen=True)
class Script:
    """A health script; every run has a Lua of its own, so that none sees what another left behind."""

    text: str

    def run(self, obj: Any) -> dict[str, Any]:
        """Return what it says of an object; anything but a map of two strings is what Argo CD cannot read."""
        runtime = lua51.LuaRuntime(register_eval=False, register_builtins=False)
        runtime.execute('getmetatable("").__index = nil')
        names = runtime.globals()
        for name in list(names.keys()):
            if name not in BASE | LIBRARIES:
                names[name] = None
        names["obj"] = _value(runtime, obj)
        answer = dict(runtime.execute(self.text))
        assert set(answer) == {"status", "message"}, answer
        assert answer["status"] in STATUSES, answer
        assert isinstance(answer["message"], str), answer
        assert answer["message"], "Argo CD would show nothing"
        return answer

    def health(self, obj: Any) -> str:
        return str(self.run(obj)["status"])


def _value(runtime: Any, value: Any) -> Any:
    """A map, a list or a number becomes a table or a number; null is absent, in maps and in lists."""
    if isinstance(value, dict):
        return runtime.table_from({str(key): _value(runtime, one) for key, one in value.items() if one is not None})
    if isinstance(value, list):
        return runtime.table_from([_value(runtime, one) for one in value if one is not None])
    return value


def of(kind: str) -> Script:
    """Return the health script of a kind."""
    return Script((SCRIPTS / kind / "health.lua").read_text(encoding="utf-8"))
