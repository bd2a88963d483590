"""The libraries that ask for something in a fetch, each in a process of its own, as the sources use them."""

import asyncio
import sys
from collections.abc import Mapping

from tests.runtime.harness import PACKAGE_PARENT

CLIENTS = {
    "aiohttp": """
import asyncio
from types import SimpleNamespace
from gptservice_runtime.transfer import http
from gptservice_runtime.transfer.source import Request
async def ask():
    async with http.connected(SimpleNamespace(tls=None, ca_remedy=""), 5) as connection:
        print((await connection.read(Request(url=URL), "x")).status)
asyncio.run(ask())
""",
    "huggingface_hub": """
import huggingface_hub
print(huggingface_hub.get_session().get(URL).status_code)
""",
    "google-auth": """
import google.auth.transport.requests
print(google.auth.transport.requests.Request()(URL).status)
""",
    # As it asks for the role of a service account; a hub has no such thing, which is an answer, too.
    "botocore": """
import botocore.config, botocore.parsers, botocore.session
session = botocore.session.Session()
session.set_credentials("a", "b")
once = botocore.config.Config(retries={"max_attempts": 0})
try:
    session.create_client("sts", region_name="x", endpoint_url=URL, config=once).get_caller_identity()
except botocore.parsers.ResponseParserError:
    print(200)
""",
}
_BEGIN = """
import sys
from pathlib import Path
URL = sys.argv[1]
if len(sys.argv) > 2:
    from gptservice_runtime.sources import authorities
    authorities.trust(Path(sys.argv[2]))
"""


async def asked(client: str, url: str, *bundle: str, environment: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Exit code and output: the status, or the traceback."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", f"{_BEGIN}\n{CLIENTS[client]}", url, *bundle),
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(PACKAGE_PARENT), **(environment or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()
