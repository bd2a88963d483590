"""How simulated nodes and pods behave: kwok's stages.

A pod chooses by the annotation `e2e.example.com/mode`, or by the environment variable `E2E_MODE` of any of its
containers (a GPTService can set that through `engine.env`):

- none: Running and Ready at once, init containers completed;
- `slow`: Running at once, Ready after the delay (default 5s);
- `crash`: CrashLoopBackOff, one more restart each delay (default 4s);
- `init-crash`: the same in the first init container;
- `image-pull`: ImagePullBackOff;
- anything else, such as `pending`: bound to a node, and nothing more happens.

`e2e.example.com/delay` (`E2E_DELAY`) is a Go duration such as 1500ms, `e2e.example.com/message` (`E2E_MESSAGE`) the
termination message of a crash. The fast stages follow kwok's own (kustomize/stage, Apache-2.0).
"""

from typing import Any

ANNOTATIONS = "e2e.example.com"

Stage = dict[str, Any]

_NOT_DELETED = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}

_NODE_STATUS = """
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
  message: {{ .message | Quote }}
  reason: {{ .reason | Quote }}
  status: {{ .status | Quote }}
  type: {{ .type | Quote }}
{{ end }}
{{ if not .status.addresses }}
addresses:
- {address: {{ NodeIP | Quote }}, type: InternalIP}
- {address: {{ NodeName | Quote }}, type: Hostname}
{{ end }}
{{ if not .status.allocatable }}
allocatable: {cpu: "64", memory: 512Gi, pods: "250"}
capacity: {cpu: "64", memory: 512Gi, pods: "250"}
{{ end }}
nodeInfo:
  architecture: amd64
  bootID: ""
  containerRuntimeVersion: kwok
  kernelVersion: kwok
  kubeProxyVersion: kwok
  kubeletVersion: kwok
  machineID: ""
  operatingSystem: linux
  osImage: ""
  systemUUID: ""
"""

_BEGIN = """
{{ $now := Now }}
{{ $message := index (or .metadata.annotations dict) "e2e.example.com/message" }}
{{ range .spec.containers }}{{ range .env }}
{{ if eq .name "E2E_MESSAGE" }}{{ $message = .value }}{{ end }}
{{ end }}{{ end }}
"""

# Only when a pod begins: each call hands out another address.
_BEGUN = """
startTime: {{ $now | Quote }}
{{ with NodeIPsWith .spec.nodeName }}
hostIP: {{ index . 0 | Quote }}
hostIPs: [{ip: {{ index . 0 | Quote }}}]
{{ end }}
{{ with PodIPsWith .spec.nodeName (or .spec.hostNetwork false) .metadata.uid .metadata.name .metadata.namespace }}
podIP: {{ index . 0 | Quote }}
podIPs: [{ip: {{ index . 0 | Quote }}}]
{{ end }}
"""

_INIT_DONE = """
initContainerStatuses:
{{ range .spec.initContainers }}
- image: {{ .image | Quote }}
  imageID: ""
  name: {{ .name | Quote }}
  ready: true
  restartCount: 0
  {{ if .restartPolicy }}
  started: true
  state: {running: {startedAt: {{ $now | Quote }}}}
  {{ else }}
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
  {{ end }}
{{ end }}
"""

_CRASHED = """
  lastState:
    terminated:
      exitCode: 1
      reason: Error
      message: {{ $message | default "simulated crash" | Quote }}
      startedAt: {{ $now | Quote }}
      finishedAt: {{ $now | Quote }}
  state: {waiting: {reason: CrashLoopBackOff, message: back-off restarting failed container}}
"""


def all_stages() -> list[Stage]:
    """Every stage, in no particular order: their selectors exclude each other."""
    return [_node(), *_ready(), *_slow(), *_crashing(), *_failing(), _completed(), _deleted()]


def _node() -> Stage:
    ready = '.status.conditions.[] | select( .type == "Ready" ) | .status'
    return _stage("node-initialize", "Node", [{"key": ready, "operator": "NotIn", "values": ["True"]}], _NODE_STATUS)


def _ready() -> list[Stage]:
    return [_pod("pod-ready", "", "Pending", _running(ready=True) + _BEGUN)]


def _slow() -> list[Stage]:
    not_ready = {"key": _condition("Ready"), "operator": "NotIn", "values": ["True"]}
    return [
        _pod("pod-slow-start", "slow", "Pending", _running(ready=False) + _BEGUN),
        _pod("pod-slow-ready", "slow", "Running", _running(ready=True), [not_ready], delay_seconds=5),
    ]


def _crashing() -> list[Stage]:
    first = _containers(ready=False, count="1", state=_CRASHED)
    # Unlike the first, an update of a status that says the same would not wake kwok again: the count differs.
    count = "{{ add 1 (index $root.status.containerStatuses $index).restartCount }}"
    again = "{{ $root := . }}" + _containers(ready=False, count=count, state=_CRASHED)
    body = _BEGIN + _conditions(initialized=True, ready=False) + "phase: Running\n"
    start = body + _INIT_DONE + _BEGUN
    return [
        _pod("pod-crash", "crash", "Pending", start + first),
        _pod("pod-crash-again", "crash", "Running", body + again, delay_seconds=4),
    ]


def _failing() -> list[Stage]:
    waiting = "  state: {waiting: {reason: PodInitializing}}\n"
    pulling = "  state: {waiting: {reason: ImagePullBackOff, message: simulated image pull failure}}\n"
    start = _BEGIN + _conditions(initialized=False, ready=False)
    first = {"key": ".status.initContainerStatuses.[].restartCount", "operator": "DoesNotExist"}
    later = {**first, "operator": "Exists"}
    count = "{{ add 1 (index $root.status.initContainerStatuses $index).restartCount }}"
    again = "{{ $root := . }}" + _containers(ready=False, count=count, state=_CRASHED, kind="initContainer")
    crash = _containers(ready=False, count="1", state=_CRASHED, kind="initContainer")
    unpulled = {"key": ".status.containerStatuses.[].name", "operator": "DoesNotExist"}
    return [
        _pod("pod-init-crash", "init-crash", "Pending", start + crash + _containers(False, "0", waiting), [first]),
        _pod("pod-init-crash-again", "init-crash", "Pending", start + again, [later], delay_seconds=4),
        _pod("pod-image-pull", "image-pull", "Pending", start + _containers(False, "0", pulling), [unpulled]),
    ]


def _completed() -> Stage:
    job = {"key": ".metadata.ownerReferences.[].kind", "operator": "In", "values": ["Job"]}
    done = "  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}}}\n"
    status = _BEGIN + _containers(ready=False, count="0", state=done) + "phase: Succeeded\n"
    return _pod("pod-complete", "", "Running", status, [job])


def _deleted() -> Stage:
    stage = _stage("pod-delete", "Pod", [{**_NOT_DELETED, "operator": "Exists"}], "")
    stage["spec"]["next"] = {"delete": True}
    return stage


def _running(*, ready: bool) -> str:
    state = "  started: true\n  state: {running: {startedAt: {{ $now | Quote }}}}\n"
    return (
        _BEGIN
        + _conditions(initialized=True, ready=ready)
        + _containers(ready=ready, count="0", state=state)
        + _INIT_DONE
        + "phase: Running\n"
    )


def _conditions(*, initialized: bool, ready: bool) -> str:
    states = {"Initialized": initialized, "Ready": ready, "ContainersReady": ready}
    lines = [
        f'- {{lastTransitionTime: {{{{ $now | Quote }}}}, status: "{state}", type: {name}}}\n'
        for name, state in states.items()
    ]
    return "conditions:\n" + "".join(lines)


def _containers(ready: bool, count: str, state: str, kind: str = "container") -> str:
    head = (
        '- image: {{ $item.image | Quote }}\n  imageID: ""\n  name: {{ $item.name | Quote }}\n'
        f"  ready: {str(ready).lower()}\n  restartCount: {count}\n"
    )
    return f"{kind}Statuses:\n{{{{ range $index, $item := .spec.{kind}s }}}}\n{head}{state}{{{{ end }}}}\n"


def _pod(
    name: str,
    mode: str,
    phase: str,
    status: str,
    more: list[dict[str, Any]] | None = None,
    *,
    delay_seconds: int = 0,
) -> Stage:
    chosen = {"key": _choice("mode"), "operator": "In", "values": [mode]}
    if not mode:
        chosen = {"key": _choice("mode"), "operator": "DoesNotExist"}
    in_phase = {"key": ".status.phase", "operator": "In", "values": [phase]}
    stage = _stage(name, "Pod", [_NOT_DELETED, chosen, in_phase, *(more or [])], status)
    if delay_seconds:
        source = {"expressionFrom": _choice("delay")}
        stage["spec"]["delay"] = {"durationMilliseconds": delay_seconds * 1000, "durationFrom": source}
    return stage


def _stage(name: str, kind: str, selector: list[dict[str, Any]], status: str) -> Stage:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": selector},
            "next": {"statusTemplate": status},
        },
    }


def _choice(name: str) -> str:
    """A jq expression: the pod's annotation, else the environment variable of the same meaning, else nothing."""
    variable = f'.spec.containers[].env[]? | select(.name == "E2E_{name.upper()}") | .value'
    return f'.metadata.annotations["{ANNOTATIONS}/{name}"] // ({variable})'


def _condition(kind: str) -> str:
    return f'.status.conditions.[] | select( .type == "{kind}" ) | .status'
