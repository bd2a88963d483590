"""A catalogue that knows how large its model is: memory by default, and limits that cannot hold it."""

import pytest

from gptservice_operator import resolve
from gptservice_operator.api import v1
from gptservice_operator.render.resolved import Resolved
from tests.operator import builders
from tests.operator.builders import Body

KEY: Body = {"decryptionKeySecretRef": {"name": "weights-key"}}
CPU: Body = {"gpu": {"count": 0}}
MODEL = builders.gpt_model(weightsSize="10Gi")


def spec(*parts: Body, limit: str | None = None) -> Body:
    merged: Body = {"modelRef": "gpt-4-turbo"}
    for part in parts:
        merged |= part
    return merged | ({"resources": {"limits": {"memory": limit}}} if limit else {})


@pytest.mark.parametrize(
    ("parts", "memory"),
    [
        pytest.param([], "8Gi", id="a GPU has memory of its own"),
        pytest.param([CPU], "11264Mi", id="a CPU: the weights and what the engine needs"),
        pytest.param([KEY], "11264Mi", id="decrypted weights lie in memory"),
        pytest.param([CPU, KEY], "21504Mi", id="both"),
    ],
)
def test_without_a_limit_the_model_sets_it(parts: list[Body], memory: str) -> None:
    decided = builders.resolved(spec(*parts), MODEL)
    assert (decided.requests["memory"], decided.limits["memory"]) == (memory, memory)


def test_a_small_model_leaves_the_operators_default() -> None:
    assert builders.resolved(spec(CPU), builders.gpt_model(weightsSize="300M")).limits["memory"] == "8Gi"


@pytest.mark.parametrize(
    ("parts", "limit", "needed"),
    [
        pytest.param([CPU], "9Gi", "10240Mi and what the engine takes", id="a CPU"),
        pytest.param([KEY], "10.5Gi", "11264Mi, once decrypted, and what the engine takes", id="decrypted"),
        pytest.param([CPU, KEY], "20Gi", "21504Mi, once decrypted, and", id="both"),
    ],
)
def test_a_limit_that_cannot_hold_it_is_refused(parts: list[Body], limit: str, needed: str) -> None:
    outcome = builders.refusal(spec(*parts, limit=limit), MODEL)
    assert outcome.reason.name == "InvalidSpec"
    assert outcome.message.startswith(f"spec.resources.limits.memory: {limit} cannot hold the model")
    assert needed in outcome.message


def test_the_field_is_the_one_that_was_written() -> None:
    requested = {"resources": {"requests": {"memory": "1Gi"}}}
    assert builders.refusal(spec(CPU, requested), MODEL).message.startswith("spec.resources.requests.memory: 1Gi")


@pytest.mark.parametrize(
    ("parts", "limit"), [([CPU], "10Gi"), ([KEY], "11Gi"), ([], "1Gi")], ids=["a CPU", "decrypted", "a GPU"]
)
def test_a_limit_that_may_do_is_the_users(parts: list[Body], limit: str) -> None:
    assert builders.resolved(spec(*parts, limit=limit), MODEL).limits["memory"] == limit


def test_what_runs_is_not_refused_by_a_later_operator() -> None:
    body = builders.service(spec=spec(CPU, limit="9Gi"))
    parsed = v1.GPTServiceSpec.model_validate(body["spec"])
    models = {MODEL["metadata"]["name"]: MODEL}
    assert isinstance(resolve.resolve(body, parsed, models, builders.config(), kept=True), Resolved)
