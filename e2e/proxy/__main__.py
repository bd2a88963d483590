"""`python -m e2e.proxy`: run one proxy until Ctrl-C; the first line printed is JSON with its addresses."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from pathlib import Path

from e2e.proxy.running import Proxy, ProxyOptions


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m e2e.proxy", description=__doc__)
    parser.add_argument("--upstream", required=True, metavar="URL", help="the API server, https://HOST:PORT")
    parser.add_argument("--ca-file", type=Path, help="authority of the API server's certificate (PEM)")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--control-port", type=int, default=0, help="control port (default: a free one)")
    parser.add_argument("--tls", action="store_true", help="serve HTTPS with a certificate made for this run")
    parser.add_argument("--log", type=Path, dest="log_file", help="append every request as a line of JSON")
    asyncio.run(_serve(ProxyOptions(**vars(parser.parse_args()))))


async def _serve(options: ProxyOptions) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Proxy(options) as proxy:
        addresses = {"url": proxy.url, "control_url": proxy.control_url, "ca_pem": proxy.ca_pem}
        print(json.dumps(addresses), flush=True)
        await stop.wait()


if __name__ == "__main__":
    main()
