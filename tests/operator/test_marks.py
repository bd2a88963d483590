"""What is known of a revision is kept as annotations of its ControllerRevision, and comes back from them."""

import dataclasses

import pytest

from gptservice_operator import names
from gptservice_operator.marks import Marks

EVERYTHING = Marks("failed", "2", "switched", "1", "freeing", "tried", "a/b", "uid/time")


@pytest.mark.parametrize("marks", [Marks(), Marks(failed="f"), EVERYTHING])
def test_they_come_back_as_they_were(marks: Marks) -> None:
    assert Marks.of(marks.annotations) == marks


def test_each_has_an_annotation_that_passes_repeat() -> None:
    assert set(EVERYTHING.annotations) == set(names.MARKS)
    assert len(dataclasses.fields(Marks)) == len(names.MARKS)


def test_other_annotations_are_none_of_them() -> None:
    assert Marks.of({"somebody/else": "x"}) == Marks()
