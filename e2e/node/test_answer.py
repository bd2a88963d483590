"""The main job, on real vLLM: `kubectl apply` of the quickstart becomes a model that answers.

The tests share one service and run in this order.
"""

from __future__ import annotations

import re
import signal
from datetime import datetime
from pathlib import Path

import pytest

from e2e.api.state import Observer, condition, holds
from e2e.cluster import paths
from e2e.installation import NAMESPACE
from e2e.kube import Kube, Object, wait_until
from e2e.kubectl import Kubectl
from e2e.monitoring import prometheus, verdicts
from e2e.node import containers, monitored
from e2e.node.conftest import Talk
from e2e.node.release import STANDIN_IMAGE, VLLM, Release

pytestmark = pytest.mark.vllm

NAME = "quickstart"
QUESTION = "What is the capital of France?"
START_SECONDS = 600
EXAMPLES = paths.REPOSITORY / "examples"
# Panels of what need not have happened to a service that is well, and of GPUs.
MAY_BE_EMPTY = {
    *("Not Ready, by reason", "Degraded, by reason", "Requests that failed, by code"),
    *("GPU in use", "GPU memory in use", "GPU power", "Last XID error"),
    *("GPU in use, mean of a service's", "GPUs held"),
}
# In a pod that is not the engine's: the endpoint as the status says it, by the cluster's DNS.
ASK = """
import json, os, sys, urllib.request
body = {"model": sys.argv[2], "temperature": 0, "messages": [{"role": "user", "content": sys.argv[3]}]}
headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["API_KEY"]}
request = urllib.request.Request(sys.argv[1] + "/v1/chat/completions", json.dumps(body).encode(), headers)
print(json.load(urllib.request.urlopen(request, timeout=60))["choices"][0]["message"]["content"])
"""


@pytest.fixture(scope="module")
def ready(release: Release, kubectl: Kubectl, namespace: str, observer: Observer) -> Object:
    """The quickstart as a user does it, and Ready."""
    release.use(VLLM)
    kubectl.apply_file(EXAMPLES / "catalogue.yaml")
    kubectl.apply_file(EXAMPLES / "quickstart.yaml", namespace=namespace)
    return observer.wait_ready(NAME, timeout=START_SECONDS)


async def test_the_model_answers_through_the_service(ready: Object, talk: Talk) -> None:
    async with talk(NAME) as chat:
        assert "Paris" in (await chat.chat(QUESTION, max_tokens=100)).text
        assert await chat.models() == ["smollm2-135m-instruct", NAME]
        assert "Paris" in (await chat.chat(QUESTION, max_tokens=100, model=NAME)).text


async def test_it_answers_piece_by_piece(ready: Object, talk: Talk) -> None:
    async with talk(NAME) as chat:
        pieces = [piece async for piece in chat.stream(QUESTION, max_tokens=100)]
    assert "Paris" in "".join(pieces)
    assert len(pieces) > 3


def test_a_pod_asks_at_the_endpoint_of_the_status(ready: Object, kubectl: Kubectl, namespace: str) -> None:
    key = {"name": ready["status"]["authSecret"], "key": "api-key"}
    client = {
        "name": "client",
        "image": STANDIN_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": "API_KEY", "valueFrom": {"secretKeyRef": key}}],
        "command": ["python3", "-c", ASK, ready["status"]["endpoint"], NAME, QUESTION],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {"containers": [client], "restartPolicy": "Never", "securityContext": security}
    kubectl.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client", "namespace": namespace}, "spec": spec}
    )
    ended = ("--for=jsonpath={.status.phase}=Succeeded", "pod/client", "--timeout=60s", "--namespace", namespace)
    kubectl.run("wait", *ended, timeout=70)
    assert "Paris" in kubectl.run("logs", "client", "--namespace", namespace)


def test_kubectl_get_shows_it_ready(ready: Object, kubectl: Kubectl, namespace: str) -> None:
    heading, row = kubectl.run("get", "gpt", "--namespace", namespace).splitlines()
    shown = dict(zip(heading.split(), row.split(), strict=True))
    assert shown.pop("AGE")
    assert shown == {"NAME": NAME, "MODEL": "smollm2-135m-instruct", "READY": "True", "REPLICAS": "1", "PHASE": "Ready"}


async def test_max_tokens_caps_what_is_generated(ready: Object, talk: Talk) -> None:
    cap = ready["spec"]["maxTokens"]
    async with talk(NAME) as chat:
        answer = await chat.chat("Count to one thousand.", max_tokens=cap + 100, ignore_eos=True)
    assert answer.usage["completion_tokens"] == cap
    assert answer.finish_reason == "length"


def test_no_traffic_before_the_warm_up(ready: Object, kubectl: Kubectl, namespace: str, observer: Observer) -> None:
    (pod,) = observer.pods(NAME)
    log = kubectl.run("logs", pod["metadata"]["name"], "--timestamps", "--namespace", namespace)
    warm = {what: _logged(log, what) for what in ("model loaded, warming up", "ready")}
    turned_ready = containers.moment(containers.condition(pod, "Ready")["lastTransitionTime"])
    assert warm["model loaded, warming up"] < warm["ready"]
    # Conditions are stamped with whole seconds.
    assert turned_ready >= warm["ready"].replace(microsecond=0)
    assert turned_ready > containers.moment(containers.status(pod)["state"]["running"]["startedAt"])
    service_ready = containers.moment(condition(observer.gpt(NAME), "Ready")["lastTransitionTime"])
    assert service_ready >= turned_ready


def test_dashboards_and_alerts_ask_for_what_there_is(
    ready: Object, kube: Kube, namespace: str, observer: Observer, tmp_path: Path
) -> None:
    """Before a real Prometheus: a metric or label that vLLM, the runtime or the operator calls otherwise is noticed."""
    targets = monitored.targets(kube, observer, NAME)
    chosen = {"namespace": namespace, "service": NAME}
    variables = {"operator.json": {"namespace": NAMESPACE}, "fleet.json": chosen, "service.json": chosen}
    with prometheus.scraping(targets, tmp_path) as asked:
        asked.wait_scraped_twice(len(targets))
        # A page that comes too late is missing until the next one.
        wait_until(lambda: verdicts.faults(asked, variables), lambda found: not found, "no fault of a query")
        assert asked.rule_errors() == {}
        wait_until(lambda: verdicts.silent(asked, variables) - MAY_BE_EMPTY, lambda found: not found, "every panel")


def _logged(log: str, what: str) -> datetime:
    line = re.search(rf"^(\S+) gptservice-runtime\b.*\b{re.escape(what)}$", log, re.MULTILINE)
    assert line, f"no line of the supervisor ends with {what!r}:\n{log}"
    return containers.moment(line[1])


async def test_a_killed_engine_is_started_again(ready: Object, talk: Talk, observer: Observer) -> None:
    (pod,) = observer.pods(NAME)
    containers.kill(containers.engine_process(pod), signal.SIGKILL)
    told = observer.wait(lambda o: holds(o, "Ready", "False", "CrashLoop"), "to say what happened", NAME)
    assert "SIGKILL" in condition(told, "Ready")["message"]
    assert told["status"]["phase"] == "Degraded"
    observer.wait_ready(NAME, timeout=START_SECONDS)
    (after,) = observer.pods(NAME)
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    assert containers.restarts(after) == 1
    async with talk(NAME) as chat:
        assert "Paris" in (await chat.chat(QUESTION, max_tokens=100)).text
