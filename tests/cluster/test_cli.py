import os
from pathlib import Path

import pytest

from e2e.cluster import cli, files, ports, providers, records


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPTSERVICE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PROVIDER", raising=False)
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kubeconfig", "--name", "ghost"], "there is no cluster 'ghost'; start it with"),
        (["load-image", "--name", "ghost", "x"], "there is no cluster 'ghost'"),
        (["exec", "--name", "ghost", "--", "true"], "there is no cluster 'ghost'"),
        (["logs", "--name", "ghost", "etcd"], "no log of 'etcd'"),
        (["down", "--name", "../etc"], "lower-case letters"),
        (["up", "--name", "a", "--profile", "node", "--nodes", "2"], "profile node has exactly one node, not 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_mistakes_are_answered_by_one_line_and_status_1(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize("nodes", ["0", "-1", "x", "1001"])
def test_counts_out_of_range_are_refused(nodes: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["up", "--name", "a", "--nodes", nodes])
    assert "whole number from 1 to 1000" in capsys.readouterr().err


def test_status_of_nothing_says_so_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", "--name", "ghost"]) == 1
    assert capsys.readouterr().out == "there is no cluster ghost\n"


def test_down_of_nothing_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["down", "--name", "ghost"]) == 0
    assert capsys.readouterr().out == "there is no cluster ghost\n"


def test_down_clears_a_damaged_record(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files.write(cache / "clusters/broken/cluster.json", "{half")
    assert cli.main(["kubeconfig", "--name", "broken"]) == 1
    assert "`python -m e2e.cluster down --name broken` clears it" in capsys.readouterr().err
    assert cli.main(["down", "--name", "broken"]) == 0
    assert not (cache / "clusters/broken").exists()


def test_a_cluster_not_started_to_the_end_is_not_offered(capsys: pytest.CaptureFixture[str]) -> None:
    records.Record(records.Spec("half")).save()
    assert cli.main(["kubeconfig", "--name", "half"]) == 1
    assert "was not started to the end (phase starting; logs in" in capsys.readouterr().err


def test_logs_without_a_component_names_them(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files.write(cache / "clusters/c/logs/etcd.log", "1\n2\n3\n")
    assert cli.main(["logs", "--name", "c"]) == 0
    assert cli.main(["logs", "--name", "c", "etcd", "--lines", "2"]) == 0
    assert capsys.readouterr().out == "etcd\n2\n3\n"


def test_a_record_is_read_back_as_it_was_written() -> None:
    record = records.Record(records.Spec("c", "node", 1, 4, "blocking"), "running", 7, {"etcd": 20001}).save()
    assert records.load("c") == record


def test_ports_of_two_clusters_differ() -> None:
    first = ports.assign(records.Record(records.Spec("one")).save(), ["a", "b"])
    second = ports.assign(records.Record(records.Spec("two")).save(), ["a", "b"])
    assert len({*first.ports.values(), *second.ports.values()}) == 4
    assert records.load("one") == first


def test_an_unknown_provider_is_named_with_the_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER", "cloud")
    with pytest.raises(ValueError, match="PROVIDER=cloud: choose one of embedded, kind, current"):
        providers.chosen(os.environ)


def test_the_current_cluster_is_used_and_never_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROVIDER", "current")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    assert cli.main(["kubeconfig", "--name", "any"]) == 1
    assert "set KUBECONFIG" in capsys.readouterr().err
    (tmp_path / "kubeconfig").touch()
    assert cli.main(["kubeconfig", "--name", "any"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'kubeconfig'}\n"
    assert cli.main(["down", "--name", "any"]) == 1
    assert "left alone" in capsys.readouterr().err


def test_kind_is_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = tmp_path / "kind"
    kind.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/log\n[ "$1 $2" = \'get clusters\' ] && cat {tmp_path}/clusters\nexit 0\n'
    )
    kind.chmod(0o755)
    (tmp_path / "clusters").write_text("other\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    provider = providers.chosen({"PROVIDER": "kind"})
    provider.up(records.Spec("demo"))
    (tmp_path / "clusters").write_text("other\ndemo\n")
    provider.up(records.Spec("demo"))
    assert provider.down("demo")
    calls = (tmp_path / "log").read_text().splitlines()
    assert [call for call in calls if not call.startswith("get")] == [
        "create cluster --name demo --wait 120s",
        "delete cluster --name demo",
    ]
