"""Servers listen at IPv6 addresses too, where the pod has one."""

from pathlib import Path

import pytest
from aiohttp import ClientSession, web

from gptservice_runtime import addresses, probes
from tests.runtime.harness import free_ports

HAS_IPV6 = Path("/proc/net/if_inet6").exists() and " lo\n" in Path("/proc/net/if_inet6").read_text()
LOOPBACK = "00000000000000000000000000000001 01 80 10 80       lo\n"
LINK_LOCAL = "fe8000000000000000fc00fffe000001 02 40 20 80     eth0\n"
PRIVATE = "fd000000000000000000000000000002 02 40 00 82     eth0\n"
PUBLIC = "20010db8000000000000000000000002 02 40 00 00     eth0\n"


@pytest.mark.parametrize(
    ("lines", "host"),
    [
        ("", "0.0.0.0"),
        (LOOPBACK + LINK_LOCAL, "0.0.0.0"),
        (LOOPBACK + LINK_LOCAL + PRIVATE, "::"),
        (PUBLIC, "::"),
    ],
    ids=["none", "none that others reach", "a private one", "a public one"],
)
def test_one_socket_is_ipv6_where_others_come_by_it(tmp_path: Path, lines: str, host: str) -> None:
    (tmp_path / "if_inet6").write_text(lines)
    assert addresses.for_one_socket(tmp_path / "if_inet6") == host


def test_a_kernel_without_ipv6_has_none(tmp_path: Path) -> None:
    assert addresses.for_one_socket(tmp_path / "if_inet6") == "0.0.0.0"


@pytest.mark.wiring
@pytest.mark.parametrize("host", ["127.0.0.1", *(["[::1]"] if HAS_IPV6 else [])])
async def test_probes_are_answered_by_either_family(host: str) -> None:
    (port,) = free_ports(1)
    app = web.Application()
    app.router.add_get("/", _answer)
    async with probes.serving(app, port), ClientSession() as session, session.get(f"http://{host}:{port}/") as response:
        assert response.status == 200


async def _answer(_: web.Request) -> web.Response:
    return web.Response()
