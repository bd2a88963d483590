"""Condition types and reasons: documented, named in one way, each with its remedy."""

import re

import pytest

from gptservice_operator.api import conditions
from gptservice_operator.api.conditions import Reason

NOTHING_TO_DO = {
    "Accepted", "ModelLoading", "PodsStarting", "RollingOut", "AllReplicasReady", "MinimumReplicasAvailable",
    "NoReplicaAvailable", "AsExpected", "RevisionStable",
}  # fmt: skip


def test_there_are_exactly_five_types() -> None:
    assert conditions.TYPES == ("Accepted", "Available", "Progressing", "Degraded", "Ready")


@pytest.mark.parametrize("reason", conditions.REASONS.values(), ids=conditions.REASONS)
def test_a_reason_is_one_camel_case_word(reason: Reason) -> None:
    assert re.fullmatch(r"[A-Z][A-Za-z]+", reason.name)


@pytest.mark.parametrize("reason", conditions.REASONS.values(), ids=conditions.REASONS)
def test_a_reason_says_what_to_do_unless_nothing_need_be_done(reason: Reason) -> None:
    assert bool(reason.remedy) != (reason.name in NOTHING_TO_DO)
    assert reason.remedy == "" or reason.remedy[0].isupper()
    if reason.failing:
        assert reason.remedy


@pytest.mark.parametrize(
    ("name", "failing"),
    [
        ("CrashLoop", True), ("ModelLoadFailed", True), ("ModelNotFound", True), ("ModelAccessDenied", True),
        ("InvalidEngineArgument", True), ("ChecksumMismatch", True), ("OutOfMemory", True), ("GPUOutOfMemory", True),
        ("Unschedulable", False), ("InsufficientGPU", False), ("QuotaExceeded", False), ("SecretNotFound", False),
        ("VolumeNotReady", False), ("ServiceAccountNotFound", False), ("Preempted", False), ("NodeLost", False),
        ("VolumeInUse", False), ("NoScheduler", False), ("ReadinessGatesNotReady", False),
        ("PodEvicted", True), ("PodRejected", True),
    ],
)  # fmt: skip
def test_which_causes_fail_and_which_wait(name: str, failing: bool) -> None:
    """Design 5: failing causes roll back, waiting ones do not."""
    assert conditions.REASONS[name].failing is failing


def test_a_message_ends_with_the_remedy() -> None:
    assert Reason("X", "Do this").message("it is so") == "it is so. Do this"
    assert Reason("X").message("it is so") == "it is so"
