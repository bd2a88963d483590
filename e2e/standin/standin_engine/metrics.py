"""A few of vLLM's metrics, under its names and with its labels, in Prometheus' text format."""

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
_CACHE_SHARE = 0.01
"""Of the cache that each running request is said to fill."""
_STEP_SHARE = 0.0001
"""And each step in which prompts were read."""


def text(model: str, *, running: int, waiting: int, steps: int, tokens: int) -> str:
    """What `/metrics` answers."""
    cache = running * _CACHE_SHARE + steps * _STEP_SHARE if running else 0.0
    values = {
        "num_requests_running": ("gauge", float(running)),
        "num_requests_waiting": ("gauge", float(waiting)),
        "kv_cache_usage_perc": ("gauge", min(1.0, cache)),
        "generation_tokens_total": ("counter", float(tokens)),
    }
    lines: list[str] = []
    for name, (kind, value) in values.items():
        full = f"vllm:{name}"
        lines += [f"# HELP {full} As the stand-in engine has it.", f"# TYPE {full} {kind}"]
        lines.append(f'{full}{{engine="0",model_name="{model}"}} {value}')
    return "".join(f"{line}\n" for line in lines)
