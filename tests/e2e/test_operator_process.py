from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest

from e2e.operator_process import Access, OperatorProcess


def test_writes_a_kubeconfig_that_only_the_owner_reads(tmp_path: Path) -> None:
    path = Access("https://127.0.0.1:1", "PEM", "secret").write(tmp_path / "kubeconfig")
    config = json.loads(path.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    assert cluster["server"] == "https://127.0.0.1:1"
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"PEM"
    assert user == {"token": "secret"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_another_way_keeps_the_user_and_drops_the_authority(tmp_path: Path) -> None:
    path = Access("https://127.0.0.1:1", "PEM", "secret").through("http://127.0.0.1:2").write(tmp_path / "k")
    config = json.loads(path.read_text())
    assert config["clusters"][0]["cluster"] == {"server": "http://127.0.0.1:2"}
    assert config["users"][0]["user"] == {"token": "secret"}


def test_an_operator_that_ends_at_its_start_is_reported_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting of the developer's own shell must not reach it; a bad one of the test's is its error."""
    monkeypatch.setenv("GPTSERVICE_WORKERS", "none")
    process = OperatorProcess(tmp_path / "kubeconfig", tmp_path / "log", {"GPTSERVICE_RESYNC_SECONDS": "often"})
    with pytest.raises(RuntimeError, match="GPTSERVICE_RESYNC_SECONDS='often'"):
        process.start()
    assert not process.running
    assert process.wait_ended() == 2


def test_a_process_that_does_not_run_has_no_pid(tmp_path: Path) -> None:
    process = OperatorProcess(tmp_path / "kubeconfig", tmp_path / "log")
    with pytest.raises(RuntimeError, match="not running"):
        _ = process.pid
    assert (process.stop(), process.kill()) == (0, 0)
