"""Faults at each write and watch event while a GPTService is made, edited and scaled."""

from __future__ import annotations

import pytest

from e2e.api.exhaustive.conftest import Try
from e2e.api.exhaustive.scenarios import EDITS


@pytest.mark.parametrize("name", EDITS)
def test_a_sample_of_faults(try_faults: Try, name: str) -> None:
    try_faults(name, EDITS[name], every=False)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", EDITS)
def test_faults_at_every_write_and_event(try_faults: Try, name: str) -> None:
    try_faults(name, EDITS[name], every=True)
