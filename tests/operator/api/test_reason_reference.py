"""The page of reasons: that which is committed, with an entry for each that there is."""

from pathlib import Path

import pytest

from gptservice_operator.api import conditions, reason_reference
from gptservice_operator.api.conditions import Reason

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reasons.md"


def test_what_is_committed_is_what_the_constants_say() -> None:
    """If not: make generate."""
    assert PAGE.read_text(encoding="utf-8") == reason_reference.render()


def test_there_is_an_entry_for_each_and_no_other() -> None:
    assert list(reason_reference.ENTRIES) == list(conditions.REASONS)


@pytest.mark.parametrize("reason", conditions.REASONS.values(), ids=conditions.REASONS)
def test_it_says_what_is_so_where_it_is_seen_and_what_to_do(reason: Reason) -> None:
    (entry,) = [part for part in reason_reference.render().split("\n## ") if part.startswith(f"{reason.name}\n")]
    meaning, seen = reason_reference.ENTRIES[reason.name]
    assert meaning[0].isupper() or meaning[0] == "`"
    assert meaning.endswith(".")
    assert meaning in entry
    assert f"- **See:** {seen}." in entry
    assert (f"- **What to do:** {reason.remedy}." in entry) is bool(reason.remedy)


def test_the_one_table_has_them_all_with_their_remedies() -> None:
    rows = [line for line in reason_reference.render().splitlines() if line.startswith("| [")]
    assert [row.split("`")[1] for row in rows] == list(conditions.REASONS)
    assert {row.count(" |") for row in rows} == {3}
