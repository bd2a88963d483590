"""The operator's image of a release: the same digest whenever it is built, with the version on it."""

from pathlib import Path

import pytest

from e2e.cluster.images import oci
from release import images

# Needs root and buildah, no cluster; each build takes some minutes on a busy machine.
pytestmark = [pytest.mark.node, pytest.mark.long, pytest.mark.timeout(1800)]


def test_two_builds_without_a_cached_step_are_one_image(tmp_path: Path) -> None:
    built: list[oci.Image] = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        archive = images.operator(
            "1.2.3", registry="registry.example.org", epoch=1_700_000_000, target=tmp_path / name, cached=False
        )
        built.append(oci.read_archive(archive))
    assert built[0] == built[1]
    assert built[0].reference == "registry.example.org/gptservice-operator:1.2.3"
    assert built[0].labels["org.opencontainers.image.version"] == "1.2.3"
