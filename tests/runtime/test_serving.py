"""From start to ready, with the real supervisor and the stand-in engine as processes."""

import os
import socket
from pathlib import Path

import pytest

from gptservice_runtime import control
from tests.runtime.harness import Runtime, until

pytestmark = pytest.mark.wiring


async def test_ready_only_once_the_warm_up_was_answered(runtime: Runtime) -> None:
    runtime.start(environment={"STANDIN_STARTUP_MILLISECONDS": "300", "STANDIN_TOKEN_MILLISECONDS": "700"})
    seen: list[tuple[int, str]] = []

    async def ready() -> bool:
        status, body = await runtime.probe()
        if status and (answer := (status, body.get("phase", ""))) not in seen:
            seen.append(answer)
        return status == 200

    await until(ready, "readiness")
    assert seen == [(503, "Loading"), (503, "WarmingUp"), (200, "")]
    assert (await runtime.probe("/livez"))[0] == 200


async def test_a_503_says_why(runtime: Runtime) -> None:
    runtime.start(environment={"STANDIN_HANG_AT_START": "1"})
    answer: dict[str, str] = {}

    async def loading() -> bool:
        answer.update((await runtime.probe())[1])
        return answer.get("phase") == "Loading"

    await until(loading, "the engine's start")
    assert answer == {
        "reason": "ModelLoading",
        "message": "the engine is loading the model",
        "phase": "Loading",
    }
    assert (await runtime.probe("/livez"))[0] == 200


async def test_every_served_name_is_served_and_no_other(runtime: Runtime) -> None:
    runtime.start(names=["gpt-4-turbo", "prod-gpt"])
    await runtime.ready()
    assert (await runtime.complete(model="gpt-4-turbo"))[0] == 200
    assert (await runtime.complete(model="prod-gpt"))[0] == 200
    assert (await runtime.complete(model="other"))[0] == 404


async def test_max_tokens_caps_what_a_client_asks_for(runtime: Runtime) -> None:
    runtime.start(options=["--max-tokens", "7"])
    await runtime.ready()
    _, body = await runtime.complete(max_tokens=50, ignore_eos=True)
    assert body["usage"]["completion_tokens"] == 7


async def test_max_tokens_comes_from_the_environment_too(runtime: Runtime) -> None:
    runtime.start(environment={"MAX_TOKENS": "5"})
    await runtime.ready()
    _, body = await runtime.complete(max_tokens=50, ignore_eos=True)
    assert body["usage"]["completion_tokens"] == 5


async def test_the_engines_output_reaches_the_container_log_unchanged(runtime: Runtime) -> None:
    words = "a line with \ttabs, ünïcödé and %s"
    runtime.start(environment={"STANDIN_FAIL_AT_START": "4", "STANDIN_LAST_WORDS": words})
    await runtime.ended()
    assert runtime.stdout.startswith("stand-in engine: ")
    assert f"\n{words}\n" in runtime.stderr


async def test_what_a_killed_container_left_does_not_refuse_requests(runtime: Runtime) -> None:
    runtime.run_directory.mkdir()
    control.ControlBlock.create(runtime.run_directory / "control").drain()
    runtime.start()
    await runtime.ready()
    assert (await runtime.complete())[0] == 200
    runtime.signal(15)
    assert await runtime.ended() == 0
    assert not runtime.run_directory.exists()


async def test_what_earlier_versions_left_on_the_cache_goes_and_nothing_new_comes(runtime: Runtime) -> None:
    """A folder of a pod that began today may be one that is being started."""
    old, young = runtime.cache_root / "run" / "old", runtime.cache_root / "run" / "young"
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / "control").write_bytes(b"")
    os.utime(old, (0, 0))
    runtime.start()
    await runtime.ready()
    assert [path.name for path in (runtime.cache_root / "run").iterdir()] == ["young"]


async def test_a_full_cache_volume_does_not_keep_a_model_from_being_served(runtime: Runtime) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a volume that is full")
    runtime.cache_root.mkdir()
    full = f"mount -t tmpfs -o size=4k,nr_inodes=1 none {runtime.cache_root}"
    runtime.start(prefix=("unshare", "-m", "sh", "-c", f'{full} && exec "$@"', "sh"))
    await runtime.ready()
    assert "cannot write to" in runtime.stderr
    assert (await runtime.complete())[0] == 200


async def test_shared_memory_without_room_is_no_hindrance(runtime: Runtime, tmp_path: Path) -> None:
    runtime.run_directory = tmp_path / "file" / "run"
    (tmp_path / "file").write_text("no folder")
    runtime.start()
    await runtime.ready()
    assert "cannot write to" in runtime.stderr
    assert (await runtime.complete())[0] == 200


async def test_a_taken_probe_port_ends_it_with_a_message(runtime: Runtime) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("0.0.0.0", runtime.probe_port))
        taken.listen()
        runtime.start()
        assert await runtime.ended() == 1
    assert f"port {runtime.probe_port}" in runtime.message()["message"]


async def test_nothing_is_written_outside_the_cache(runtime: Runtime, tmp_path: Path) -> None:
    runtime.start(environment={"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "xdg")})
    await runtime.ready()
    assert set(os.listdir(tmp_path)) == {"cache", "model", "run", "stdout", "stderr"}


@pytest.mark.parametrize(
    ("proxy", "value"),
    [
        pytest.param("HTTP_PROXY", "http://127.0.0.1:9", id="upper case"),
        pytest.param("http_proxy", "http://127.0.0.1:9", id="lower case"),
    ],
)
async def test_a_proxy_of_the_users_does_not_stand_before_the_warm_up(runtime: Runtime, proxy: str, value: str) -> None:
    runtime.start(environment={proxy: value})
    await runtime.ready()
