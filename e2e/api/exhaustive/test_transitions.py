"""Faults at each write and watch event while it changes hands: autoscaler, rollback, deletion, another operator."""

from __future__ import annotations

import pytest

from e2e.api.exhaustive.conftest import Try
from e2e.api.exhaustive.scenarios import TRANSITIONS


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_sample_of_faults(try_faults: Try, name: str) -> None:
    try_faults(name, TRANSITIONS[name], every=False)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", TRANSITIONS)
def test_faults_at_every_write_and_event(try_faults: Try, name: str) -> None:
    try_faults(name, TRANSITIONS[name], every=True)
