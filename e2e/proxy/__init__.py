"""A proxy between operator and kube-apiserver: it records every request and makes chosen ones go wrong."""

from e2e.proxy.faults import (
    EventAction,
    EventRule,
    Match,
    Rule,
    answer,
    delay,
    drop_reply,
    duplicate,
    hang,
    kill,
    refuse_connection,
    replay,
)
from e2e.proxy.log import Entry
from e2e.proxy.running import Proxy, ProxyOptions, ProxyThread
from e2e.proxy.switchboard import Switchboard

__all__ = [
    "Entry",
    "EventAction",
    "EventRule",
    "Match",
    "Proxy",
    "ProxyOptions",
    "ProxyThread",
    "Rule",
    "Switchboard",
    "answer",
    "delay",
    "drop_reply",
    "duplicate",
    "hang",
    "kill",
    "refuse_connection",
    "replay",
]
