"""A few of vLLM's metrics, under its names and with its labels, in Prometheus' text format."""

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
_CACHE_SHARE = 0.01
"""Of the cache that each running request is said to fill."""


def text(model: str, *, running: int, waiting: int) -> str:
    """What `/metrics` answers."""
    values = {
        "num_requests_running": float(running),
        "num_requests_waiting": float(waiting),
        "kv_cache_usage_perc": min(1.0, running * _CACHE_SHARE),
    }
    lines: list[str] = []
    for name, value in values.items():
        full = f"vllm:{name}"
        lines += [f"# HELP {full} As the stand-in engine has it.", f"# TYPE {full} gauge"]
        lines.append(f'{full}{{engine="0",model_name="{model}"}} {value}')
    return "".join(f"{line}\n" for line in lines)
