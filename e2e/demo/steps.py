"""The stages of the demo. Each makes its own part so, whatever is there already."""

import asyncio
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from e2e import client, installation
from e2e.cluster import binaries, handle, lifecycle, paths, prerequisites, records
from e2e.cluster.images import catalogue, load, model, seed
from e2e.demo import view, watch
from e2e.demo.timeline import Timeline
from e2e.kubectl import Kubectl
from e2e.reach import ThroughNamespace

CLUSTER = records.Spec("demo", profile="node")
NAMESPACE = "default"
SERVICE = "quickstart"
QUESTION = "What is the capital of France?"
EXPECTED = "Paris"
EXAMPLES = paths.REPOSITORY / "examples"
READY_TIMEOUT_SECONDS = 900
# What one replica of the test model takes on a CPU, so that the demo fits a small machine.
VALUES: dict[str, Any] = {"runtime": {"resources": {"cpu": "500m", "memory": "6Gi"}}}


class DemoError(Exception):
    """The demo cannot go on; the message says why and what to look at."""


@dataclass(frozen=True)
class Demo:
    """One run against the demo's cluster."""

    console: Console
    timeline: Timeline

    def prepare(self) -> None:
        """Prerequisites, programs, images: everything that outlives a cluster."""
        with self.timeline.stage("Prerequisites") as stage:
            prerequisites.require("node")
            stage.note = "all there"
        with self.timeline.stage("Kubernetes, containerd, Helm: programs from source") as stage:
            wanted = (*binaries.NODE_PROFILE, binaries.HELM)
            missing = binaries.missing(wanted)
            binaries.ensure(wanted)
            stage.note = f"{len(missing)} built" if missing else "in the cache"
        with self.timeline.stage("Images") as stage:
            missing = [name for name in catalogue.DEPLOYED if not catalogue.archive_path(name).exists()]
            seed.seed()
            stage.note = f"built {', '.join(missing)}" if missing else "in the cache"
        with self.timeline.stage("Test model, SmolLM2-135M-Instruct"):
            model.prepared()

    def start(self) -> handle.Cluster:
        """The cluster, with the images of this checkout."""
        with self.timeline.stage("Cluster") as stage:
            cluster = lifecycle.up(CLUSTER)
            stage.note = f"kubeconfig {cluster.kubeconfig}"
        return cluster

    def install(self, cluster: handle.Cluster) -> None:
        """The operator by its chart, the model volume, the catalogue."""
        kubectl = kubectl_of(cluster)
        with self.timeline.stage("helm install, catalogue") as stage:
            helm = installation.Helm(binaries.tools()[binaries.HELM].path, cluster.kubeconfig)
            helm.install_operator(VALUES)
            installation.provide_models(kubectl, NAMESPACE)
            kubectl.apply_file(EXAMPLES / "catalogue.yaml")
            stage.note = "operator is up, GPTModel smollm2-135m-instruct is in the catalogue"

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
                    f"{NAMESPACE}/{SERVICE} is not Ready after {READY_TIMEOUT_SECONDS} s, it said last: "
                    f"{view.line(shown.service)}\nlook further with make demo-shell, then kubectl describe pods"
                ) from None
            stage.note = "Ready"

    def ask(self, cluster: handle.Cluster, question: str) -> client.Answer:
        """Asks through the Service and prints the answer as it comes."""
        with self.timeline.stage("Question") as stage:
            answer = asyncio.run(_ask(self.console, cluster, question))
            stage.note = f"first words after {answer.first_piece_seconds:.2f} s"
        return answer


def kubectl_of(cluster: handle.Cluster) -> Kubectl:
    """kubectl against the cluster, as its administrator."""
    return Kubectl(cluster.kubectl, cluster.kubeconfig)


async def _until_ready(kubectl: Kubectl, shown: view.View) -> None:
    with shown.running():
        async with asyncio.timeout(READY_TIMEOUT_SECONDS):
            async for state in watch.states(kubectl, "gptservice", SERVICE, namespace=NAMESPACE):
                shown.show(state)
                if view.is_ready(state):
                    return


async def _ask(console: Console, cluster: handle.Cluster, question: str) -> client.Answer:
    answer = client.Answer()
    reach = ThroughNamespace(kubectl_of(cluster), cluster.network)
    async with client.connect(kubectl_of(cluster), reach, SERVICE, namespace=NAMESPACE) as chat:
        console.print(f"\n  [bold]{question}[/bold]\n  ", end="", highlight=False)
        async for piece in chat.stream(question, into=answer, max_tokens=200):
            console.print(piece, end="", style="green", markup=False, highlight=False, soft_wrap=True)
        console.print("\n")
    return answer
