"""The kinds alone, and everything that an installation without Helm applies."""

from pathlib import Path

from e2e.cluster.images import store
from e2e.installation import NAMESPACE
from release.version import ROOT

_INSTALL = """\
# GPTService {version}: the namespace, the two kinds, the rights and the operator.
#   kubectl apply --server-side -f gptservice-operator-{version}.yaml
# --server-side: a client-side apply keeps a copy of each kind in an annotation, which has a limit.
# Never `kubectl delete -f` it: with the two kinds go every GPTService of the cluster, its pods, its key and its cache.
# How the operator alone is taken away is in docs/quick-start.md, "Without Helm in the cluster".
apiVersion: v1
kind: Namespace
metadata:
  name: {namespace}
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""


def crds(version: str, target: Path) -> Path:
    """Writes both kinds into one file."""
    texts = [file.read_text() for file in sorted((ROOT / "crds").glob("*.yaml"))]
    made = target / f"gptservice-crds-{version}.yaml"
    made.write_text("".join(text if text.startswith("---") else f"---\n{text}" for text in texts))
    return made


def install(chart: Path, version: str, *, helm: Path, target: Path) -> Path:
    """Writes what the packaged chart renders with its own values. Raises store.BuildError, with Helm's words."""
    place = ("--namespace", NAMESPACE)
    rendered = store.run(helm, "template", "gptservice-operator", chart, *place, what="rendering the manifest")
    made = target / f"gptservice-operator-{version}.yaml"
    made.write_text(_INSTALL.format(version=version, namespace=NAMESPACE) + rendered)
    return made
