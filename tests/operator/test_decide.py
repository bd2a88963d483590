"""What a snapshot comes to, with no cluster near."""

import datetime
from typing import Any

from gptservice_operator import decide, names, revisions
from gptservice_operator.actions import child_key
from gptservice_operator.child import with_hash
from gptservice_operator.decide import Decision
from gptservice_operator.render.resolved import Refusal, Resolved
from gptservice_operator.store import Observed, Snapshot
from tests.operator import builders
from tests.operator.builders import Body

OWNER = builders.uid_of("GPTService", "chat")
MINIMAL = builders.service()
NOW = datetime.datetime(2026, 1, 5, 12, 0, tzinfo=datetime.UTC)


def snapshot(
    service: Body = MINIMAL, *live: Body, models: tuple[Body, ...] = (), pods: tuple[Body, ...] = ()
) -> Snapshot:
    children = {
        child_key(body): Observed(body["metadata"]["uid"], names.controller_uid(body["metadata"]), body)
        for body in live
    }
    return Snapshot(service, {model["metadata"]["name"]: model for model in models}, children, pods)


def decided(*args: Any, **kwargs: Any) -> Decision:
    return decide.decide(snapshot(*args, **kwargs), builders.config(), NOW)


def applied(decision: Decision) -> list[Body]:
    """Return the live objects after the decision was carried out."""
    return [builders.live(with_hash(manifest)) for manifest in decision.desired]


def of_kind(decision: Decision, kind: str) -> Body:
    (found,) = [manifest for manifest in decision.desired if manifest["kind"] == kind]
    return found


def test_a_spec_that_is_refused_comes_to_nothing_but_its_refusal() -> None:
    for spec in ({"replicas": -1}, {"modelRef": "unheard-of"}):
        decision = decided(builders.service(spec=spec))
        assert isinstance(decision.resolved, Refusal)
        assert (decision.desired, decision.expired, decision.effective) == ((), (), None)


def test_a_new_revision_is_the_first() -> None:
    decision = decided()
    assert isinstance(decision.resolved, Resolved)
    assert decision.warnings == ()
    body = of_kind(decision, "ControllerRevision")
    assert body["revision"] == 1
    assert of_kind(decision, "Deployment")["spec"]["template"] == body["data"]["template"]
    assert decision.effective == body["data"]["effective"]


def test_what_is_kept_is_what_is_desired() -> None:
    first = decided()
    again = decided(MINIMAL, *applied(first))
    assert again.desired == first.desired
    assert again.warnings == ()


def test_the_kept_template_runs_whatever_would_be_rendered_now() -> None:
    live = applied(decided())
    (body,) = [child for child in live if child["kind"] == "ControllerRevision"]
    body["data"]["template"]["spec"]["hostname"] = "of-another-version"
    decision = decided(MINIMAL, *live)
    assert of_kind(decision, "Deployment")["spec"]["template"]["spec"]["hostname"] == "of-another-version"
    assert [warning.partition(":")[0] for warning in decision.warnings] == ["RendererOutdated"]


def test_catalogue_and_renderer_are_told_apart() -> None:
    service = builders.service(spec={"modelRef": "m"})
    live = applied(decided(service, models=(builders.gpt_model("m"),)))
    decision = decided(service, *live, models=(builders.gpt_model("m", contextLength=9),))
    assert [warning.partition(":")[0] for warning in decision.warnings] == ["ModelChanged"]
    assert isinstance(decision.resolved, Resolved)
    assert decision.resolved.context_length is None


def test_a_deployment_of_others_gives_no_template() -> None:
    live = applied(decided())
    deployments = [child for child in live if child["kind"] == "Deployment"]
    for body in deployments:
        body["spec"]["template"]["spec"]["hostname"] = "theirs"
        body["metadata"] |= {"ownerReferences": [], "annotations": {}}
    decision = decided(MINIMAL, *deployments)
    assert "hostname" not in of_kind(decision, "Deployment")["spec"]["template"]["spec"]


def test_what_leaves_the_history_is_named_with_its_uid() -> None:
    specs = [{"model": "pvc://models/m", "maxTokens": number} for number in range(1, 9)]
    live = [
        {**body, "revision": number}
        for number, spec in enumerate(specs, 1)
        for body in applied(decided(builders.service(spec=spec)))
        if body["kind"] == "ControllerRevision"
    ]
    labels = {names.REVISION: revisions.key(builders.service(spec=specs[0]))}
    decision = decided(builders.service(spec=specs[-1]), *live, pods=(builders.pod(labels=labels),))
    gone = [names.controller_revision("chat", revisions.key(builders.service(spec=spec))) for spec in specs[1:2]]
    assert [one.name for one in decision.expired] == gone
    assert [one.uid for one in decision.expired] == [builders.uid_of("ControllerRevision", name) for name in gone]
    assert {one.kind for one in decision.expired} == {"ControllerRevision"}
