"""Every way in which the engine can fail ends in a termination message."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from gptservice_runtime import contract
from tests.runtime.harness import STANDIN, Runtime, children, state, until

pytestmark = pytest.mark.wiring

STARTED_SECONDS = 15
"""A budget that the stand-in's start leaves some of: a second on an idle machine, seven beside a build."""


async def test_a_killed_engine_ends_the_container_in_time(runtime: Runtime) -> None:
    taken: list[float] = []
    # A busy machine is late now and then; a supervisor that waits for what it need not is late each time.
    for _ in range(3):
        runtime.start()
        await runtime.ready()
        engine = await runtime.engine_pid()
        killed = time.monotonic()
        os.kill(engine, signal.SIGKILL)
        assert await runtime.ended() == contract.EXIT_FAILURE
        taken.append(time.monotonic() - killed)
    assert min(taken) < contract.EXIT_AFTER_ENGINE_DEATH_SECONDS
    message = runtime.message()
    assert (message["reason"], message["phase"]) == ("CrashLoop", "Serving")
    assert "signal 9 (SIGKILL)" in message["message"]


async def test_an_unknown_engine_argument_is_named(runtime: Runtime) -> None:
    runtime.start("--enforce-eager", "--no-such-flag", "7")
    assert await runtime.ended() == contract.EXIT_FAILURE
    message = runtime.message()
    assert message["reason"] == "InvalidEngineArgument"
    assert "unrecognized arguments: --no-such-flag 7" in message["message"]


async def test_a_bad_value_of_an_engine_argument_is_named(runtime: Runtime) -> None:
    runtime.start("--max-num-seqs", "many")
    assert await runtime.ended() == contract.EXIT_FAILURE
    assert runtime.message()["reason"] == "InvalidEngineArgument"
    assert "--max-num-seqs: invalid int value: 'many'" in runtime.message()["message"]


async def test_a_failed_load_quotes_the_engines_last_lines(runtime: Runtime) -> None:
    runtime.start(environment={"STANDIN_FAIL_AT_START": "1", "STANDIN_LAST_WORDS": "ValueError: no such shape"})
    assert await runtime.ended() == contract.EXIT_FAILURE
    message = runtime.message()
    assert (message["reason"], message["phase"]) == ("ModelLoadFailed", "Loading")
    assert "exit code 1" in message["message"]
    assert "ValueError: no such shape" in message["message"]


async def test_a_crash_while_serving_hides_secrets(runtime: Runtime) -> None:
    secret = "hf_abcdefghijklmnop"
    runtime.start(
        environment={
            "STANDIN_CRASH_AFTER_REQUESTS": "2",
            "STANDIN_CRASH_EXIT_CODE": "3",
            "STANDIN_LAST_WORDS": f"401 for {secret} and for tr0ub4dor&3",
            "MY_PASSWORD": "tr0ub4dor&3",
        }
    )
    await runtime.ready()
    with pytest.raises(Exception, match=r"(?i)disconnected|reset"):
        await runtime.complete()
    assert await runtime.ended() == contract.EXIT_FAILURE
    message = runtime.message()
    assert (message["reason"], message["phase"]) == ("CrashLoop", "Serving")
    assert "exit code 3" in message["message"]
    assert "401 for *** and for ***" in message["message"]


async def test_the_start_up_budget_is_one_for_all(runtime: Runtime) -> None:
    runtime.start(environment={"STANDIN_HANG_AT_START": "1"}, startup_timeout=1)
    engine = await runtime.engine_pid()
    assert await runtime.ended() == contract.EXIT_FAILURE
    message = runtime.message()
    assert (message["reason"], message["phase"]) == ("ModelLoadFailed", "Loading")
    assert "1 s (startupTimeoutSeconds)" in message["message"]
    await until(lambda: state(engine) is None, "the engine's end")


async def test_the_budget_also_ends_a_warm_up_that_hangs(runtime: Runtime) -> None:
    runtime.start(environment={"STANDIN_TOKEN_MILLISECONDS": "60000"}, startup_timeout=STARTED_SECONDS)
    assert await runtime.ended() == contract.EXIT_FAILURE
    assert (runtime.message()["reason"], runtime.message()["phase"]) == ("ModelLoadFailed", "WarmingUp")


SLOW = {"STANDIN_TOKEN_MILLISECONDS": "150"}


async def test_a_model_that_answers_too_slowly_is_not_ready_and_says_how_slow(runtime: Runtime) -> None:
    runtime.start(options=[contract.READY_LATENCY_FLAG, "1"], environment=SLOW)

    async def started() -> bool:
        return (await runtime.probe(contract.STARTUP_PATH))[0] == 200

    await until(started, "the start-up probe to pass")
    status, body = await runtime.probe(contract.READY_PATH)
    assert (status, body["reason"], body["phase"]) == (503, "ReadyLatencyExceeded", "WarmingUp")
    assert "asked: 1 ms (rollout.readyLatencyMilliseconds)" in body["message"]


async def test_one_that_never_gets_faster_ends_with_the_start_up_budget(runtime: Runtime) -> None:
    runtime.start(options=[contract.READY_LATENCY_FLAG, "1"], environment=SLOW, startup_timeout=STARTED_SECONDS)
    assert await runtime.ended() == contract.EXIT_FAILURE
    assert (runtime.message()["reason"], runtime.message()["phase"]) == ("ModelLoadFailed", "WarmingUp")
    assert f"{STARTED_SECONDS} s (startupTimeoutSeconds): a small request took" in runtime.message()["message"]


async def test_one_that_is_fast_enough_serves(runtime: Runtime) -> None:
    runtime.start(options=[contract.READY_LATENCY_FLAG, "30000"], environment=SLOW)
    await runtime.ready()


async def test_no_model_no_engine(runtime: Runtime) -> None:
    (runtime.folder / "model").mkdir()
    (runtime.folder / "model" / "README.md").write_text("not a model")
    runtime.start()
    assert await runtime.ended() == contract.EXIT_FAILURE
    assert (runtime.message()["reason"], runtime.message()["phase"]) == ("ModelNotFound", "Checking")
    assert "config.json" in runtime.message()["message"]
    assert "starting" not in runtime.stderr


async def test_an_image_without_an_engine_says_so(runtime: Runtime) -> None:
    runtime.start(environment={"PATH": "/nowhere"})
    assert await runtime.ended() == contract.EXIT_FAILURE
    assert runtime.message()["reason"] == "InvalidImage"
    assert "'vllm' on PATH (/nowhere)" in runtime.message()["message"]


async def test_a_termination_log_that_cannot_be_written_does_not_hide_the_failure(runtime: Runtime) -> None:
    runtime.termination_log = runtime.folder / "no" / "such" / "folder"
    runtime.start("--no-such-flag")
    assert await runtime.ended() == contract.EXIT_FAILURE
    assert "InvalidEngineArgument" in runtime.stderr
    assert "cannot write the termination message" in runtime.stderr


async def test_a_cache_that_cannot_be_made_is_named(runtime: Runtime) -> None:
    runtime.cache_root.write_text("a file, where the volume should be")
    runtime.start()
    assert await runtime.ended() == contract.EXIT_FAILURE
    assert f"mount a volume at {runtime.cache_root}" in runtime.message()["message"]


async def test_orphans_of_the_engine_are_reaped(runtime: Runtime, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    parents = tmp_path / "parents"
    orphan = "sleep 0.5; cut -d' ' -f4 /proc/\\$\\$/stat >> " + str(parents)
    script = f'#!/bin/sh\nfor i in 1 2 3; do (sh -c "{orphan}" &); done\nexec {STANDIN}/vllm "$@"\n'
    (folder / "vllm").write_text(script)
    (folder / "vllm").chmod(0o755)
    runtime.start(environment={"PATH": f"{folder}:{Path(sys.executable).parent}:/usr/bin:/bin"})
    await runtime.ready()
    await until(lambda: parents.exists() and len(parents.read_text().split()) == 3, "the orphans' end")
    assert parents.read_text().split() == [str(runtime.pid)] * 3, "the orphans never came to the supervisor"
    await until(lambda: len(children(runtime.pid)) == 1, "the reaping of zombies")
