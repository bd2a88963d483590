"""Entry of `python -m e2e.cluster.device_plugin`."""

import argparse
import asyncio
import logging
import signal
from pathlib import Path

from e2e.cluster.device_plugin import plugin


def main() -> None:
    """Runs until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster.device_plugin", description=plugin.__doc__)
    parser.add_argument("--socket-dir", type=Path, required=True, help="the kubelet's device-plugins folder")
    parser.add_argument("--resource", default="nvidia.com/gpu", help="name of the resource (%(default)s)")
    parser.add_argument("--count", type=int, required=True, help="number of devices")
    parser.add_argument("--control", type=Path, required=True, help='JSON file: {"unhealthy": ["GPU-fake-2"]}')
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    asyncio.run(_serve(plugin.Offer(options.resource, options.count), options.socket_dir, options.control))


async def _serve(offer: plugin.Offer, socket_dir: Path, control: Path) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await plugin.serve(offer, socket_dir, control, stop)


main()
