"""Watches: cut, hold, drop, double, delay, 410, and new connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import aiohttp
import pytest

from e2e.proxy import EventAction, EventRule, Match, Proxy, answer
from tests.e2e_proxy.conftest import Client
from tests.e2e_proxy.upstream import Upstream

pytestmark = pytest.mark.wiring
Soon = Callable[..., Any]


async def test_passes_events_on(client: Client, upstream: Upstream, proxy: Proxy) -> None:
    watch = await client.watch()
    upstream.feed(name="one")
    upstream.feed(name="large", size=300_000)
    assert [await watch.next_name(), len((await watch.next())["object"]["data"])] == ["one", 300_000]
    assert proxy.switchboard.open_watches() == ["deployments"]
    (entry,) = proxy.switchboard.log.since()
    assert (entry.target.verb, entry.code, entry.events, entry.seconds) == ("watch", 200, 2, None)


async def test_the_end_of_either_side_ends_the_other(
    client: Client, upstream: Upstream, proxy: Proxy, soon: Soon
) -> None:
    watch = await client.watch()
    watch.answer.close()
    await soon(lambda: upstream.closed_watches == 1 and proxy.switchboard.open_watches() == [])
    watch = await client.watch()
    upstream.watches[0].put_nowait(None)
    with pytest.raises(EOFError):
        await watch.next()
    await soon(lambda: proxy.switchboard.open_watches() == [])


@pytest.mark.parametrize(
    ("how", "seen"),
    [pytest.param("abort", aiohttp.ClientError, id="abort"), pytest.param("end", EOFError, id="end")],
)
async def test_cuts_one_kind_only(
    client: Client,
    upstream: Upstream,
    proxy: Proxy,
    how: Literal["abort", "end"],
    seen: type[Exception],
    soon: Soon,
) -> None:
    cut, kept = await client.watch("deployments"), await client.watch("services")
    assert proxy.switchboard.cut_watches("deployments", how=how) == 1
    with pytest.raises(seen):
        await cut.next()
    await soon(lambda: proxy.switchboard.open_watches() == ["services"])
    upstream.feed(name="still here")
    assert await kept.next_name() == "still here"
    assert proxy.switchboard.log.since()[0].fault == f"cut by {how}"


async def test_cuts_all(client: Client, proxy: Proxy) -> None:
    watches = [await client.watch("deployments"), await client.watch("services")]
    assert proxy.switchboard.cut_watches() == 2
    for watch in watches:
        with pytest.raises(aiohttp.ClientError):
            await watch.next()


async def test_holds_events_in_order(client: Client, upstream: Upstream, proxy: Proxy) -> None:
    held, free = await client.watch("deployments"), await client.watch("services")
    proxy.switchboard.hold_watches("deployments")
    upstream.feed(name="one")
    upstream.feed(name="two")
    assert [await free.next_name(), await free.next_name()] == ["one", "two"]
    await asyncio.sleep(0.1)
    assert proxy.switchboard.log.since()[0].events == 0
    proxy.switchboard.release_watches("deployments")
    assert [await held.next_name(), await held.next_name()] == ["one", "two"]


async def test_a_held_watch_can_be_cut(client: Client, upstream: Upstream, proxy: Proxy) -> None:
    watch = await client.watch()
    proxy.switchboard.hold_watches()
    upstream.feed(name="never seen")
    await asyncio.sleep(0.05)
    proxy.switchboard.cut_watches()
    with pytest.raises(aiohttp.ClientError):
        await watch.next()


async def names_until(watch: Any, last: str) -> list[str]:
    seen = [await watch.next_name()]
    while seen[-1] != last:
        seen.append(await watch.next_name())
    return seen


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param({"action": EventAction.DROP, "nth": 2}, ["a", "a", "end"], id="drop the second"),
        pytest.param({"action": EventAction.DROP, "name": "b"}, ["a", "a", "end"], id="drop by name"),
        pytest.param({"action": EventAction.DROP, "name": "a", "times": None}, ["b", "end"], id="drop every match"),
        pytest.param({"action": EventAction.DUPLICATE}, ["a", "a", "b", "a", "end"], id="double the first"),
        pytest.param({"action": EventAction.DROP, "resource": "pods"}, ["a", "b", "a", "end"], id="other resource"),
    ],
)
async def test_changes_chosen_events(
    client: Client, upstream: Upstream, proxy: Proxy, rule: dict[str, Any], expected: list[str]
) -> None:
    watch = await client.watch()
    proxy.switchboard.add_event_rule(EventRule(**rule))
    for name in ("a", "b", "a", "end"):
        upstream.feed(name=name)
    assert await names_until(watch, "end") == expected


async def test_delays_a_chosen_event(client: Client, upstream: Upstream, proxy: Proxy) -> None:
    watch = await client.watch()
    proxy.switchboard.add_event_rule(EventRule(action=EventAction.DELAY, seconds=0.3, name="late"))
    upstream.feed(name="now")
    upstream.feed(name="late")
    assert await watch.next_name() == "now"
    start = asyncio.get_running_loop().time()
    assert await watch.next_name() == "late"
    assert asyncio.get_running_loop().time() - start > 0.2


async def test_cuts_at_a_chosen_event(client: Client, upstream: Upstream, proxy: Proxy) -> None:
    watch = await client.watch()
    proxy.switchboard.add_event_rule(EventRule(action=EventAction.CUT, types=frozenset({"DELETED"})))
    upstream.feed(name="one")
    upstream.feed("DELETED", name="one")
    assert await watch.next_name() == "one"
    with pytest.raises(aiohttp.ClientError):
        await watch.next()


async def test_says_410_in_place_of_a_chosen_event(client: Client, upstream: Upstream, proxy: Proxy) -> None:
    watch = await client.watch()
    proxy.switchboard.add_event_rule(EventRule(action=EventAction.GONE))
    upstream.feed(name="one")
    error = await watch.next()
    assert (error["type"], error["object"]["code"], error["object"]["kind"]) == ("ERROR", 410, "Status")
    with pytest.raises(EOFError):
        await watch.next()


async def test_the_next_watch_is_gone_as_event(client: Client, upstream: Upstream, proxy: Proxy) -> None:
    proxy.switchboard.answer_gone("deployments", how="event")
    other = await client.watch("services")
    assert other.answer.status == 200
    watch = await client.watch("deployments")
    error = await watch.next()
    assert (watch.answer.status, error["type"], error["object"]["code"]) == (200, "ERROR", 410)
    again = await client.watch("deployments")
    upstream.feed(name="one")
    assert await again.next_name() == "one"
    assert proxy.switchboard.pending_gone() == 0


async def test_the_next_watches_are_gone_as_status(client: Client, upstream: Upstream, proxy: Proxy) -> None:
    proxy.switchboard.answer_gone(how="http", times=2)
    for _ in range(2):
        watch = await client.watch()
        assert (watch.answer.status, (await watch.answer.json())["code"]) == (410, 410)
    assert (await client.watch()).answer.status == 200
    assert len(upstream.received) == 1


async def test_pauses_new_connections(client: Client, upstream: Upstream, proxy: Proxy, soon: Soon) -> None:
    proxy.switchboard.pause_connections("deployments")
    connecting = asyncio.ensure_future(client.watch("deployments"))
    await client.watch("services")
    await asyncio.sleep(0.05)
    assert (connecting.done(), len(upstream.received)) == (False, 1)
    proxy.switchboard.resume_connections("deployments")
    watch = await connecting
    await soon(lambda: len(upstream.watches) == 2)
    upstream.feed(name="one")
    assert await watch.next_name() == "one"


async def test_delays_new_connections(client: Client, upstream: Upstream, proxy: Proxy) -> None:
    proxy.switchboard.delay_connections(0.2)
    connecting = asyncio.ensure_future(client.watch())
    await asyncio.sleep(0.1)
    assert upstream.received == []
    assert (await connecting).answer.status == 200


async def test_clear_takes_everything_back(client: Client, upstream: Upstream, proxy: Proxy) -> None:
    board = proxy.switchboard
    board.hold_watches()
    board.pause_connections()
    board.answer_gone()
    board.delay_connections(60)
    board.add_event_rule(EventRule(action=EventAction.DROP, times=None))
    board.clear()
    watch = await client.watch()
    upstream.feed(name="one")
    assert await watch.next_name() == "one"


async def test_a_refused_watch_keeps_its_status(client: Client, proxy: Proxy) -> None:
    proxy.switchboard.fail(answer(403), match=Match(verbs=frozenset({"watch"})))
    assert (await client.watch()).answer.status == 403


async def test_muted_watches_stay_open_and_say_nothing(
    client: Client, upstream: Upstream, proxy: Proxy, soon: Soon
) -> None:
    muted = await client.watch()
    await soon(lambda: len(upstream.watches) == 1)
    assert proxy.switchboard.mute_watches("deployments") == 1
    upstream.feed(name="unheard")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(muted.next(), 0.2)
    later = await client.watch()
    await soon(lambda: len(upstream.watches) == 2)
    upstream.feed(name="heard")
    assert await later.next_name() == "heard"
    assert proxy.switchboard.open_watches() == ["deployments", "deployments"]


async def test_counting_events_changes_none(client: Client, upstream: Upstream, proxy: Proxy, soon: Soon) -> None:
    counted = proxy.switchboard.count_events("ns")
    watch = await client.watch()
    await soon(lambda: len(upstream.watches) == 1)
    upstream.feed(name="one")
    upstream.feed(name="elsewhere", namespace="other")
    assert [await watch.next_name(), await watch.next_name()] == ["one", "elsewhere"]
    assert (counted.seen, counted.fired) == (1, 0)
