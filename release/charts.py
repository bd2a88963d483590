"""The charts as packages, which name the images of the release where those in the checkout name a local build."""

import shutil
import tempfile
from pathlib import Path

from e2e.cluster.images import store
from release import archive
from release.version import ROOT

CHARTS = ("gptservice-operator", "gptservice-catalogue")


class UnexpectedValuesError(Exception):
    """values.yaml does not have a line that is to be replaced; the message names it."""


def package(name: str, *, helm: Path, version: str, registry: str, epoch: int, target: Path) -> Path:
    """Packages one chart into `target`. Raises store.BuildError, with Helm's words, or UnexpectedValuesError."""
    with tempfile.TemporaryDirectory(prefix="gptservice-release-") as scratch:
        chart = Path(shutil.copytree(ROOT / "charts" / name, Path(scratch) / name))
        if name == "gptservice-operator":
            values = chart / "values.yaml"
            values.write_text(with_images(values.read_text(), version, registry))
        store.run(helm, "package", chart, "--destination", target, what=f"packaging {name}")
    made = target / f"{name}-{version}.tgz"
    archive.normalize(made, epoch)
    return made


def with_images(values: str, version: str, registry: str) -> str:
    """The operator's values.yaml with the release's images for those of a local build."""
    for before, after in (
        ("repository: localhost/gptservice-operator", f"repository: {registry}/gptservice-operator"),
        ("tag: dev", f"tag: {version}"),
        ("image: localhost/gptservice-runtime-cpu:dev", f"image: {registry}/gptservice-runtime:{version}"),
    ):
        if values.count(before) != 1:
            raise UnexpectedValuesError(
                f"charts/gptservice-operator/values.yaml has {before!r} {values.count(before)} times, not once: "
                f"mend release/charts.py, which replaces it"
            )
        values = values.replace(before, after)
    return values
