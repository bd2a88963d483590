"""Moments left to chance, and what is done then."""

import threading

import pytest

from e2e import chance


def test_the_same_seed_gives_the_same_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    def moments() -> list[float]:
        return [chance.moment(of, within=10) for of in ("one", "two")]

    monkeypatch.setattr(chance, "SEED", 7)
    before = moments()
    assert moments() == before
    assert len({*before, chance.moment("three", within=10)}) == 3
    monkeypatch.setattr(chance, "SEED", 8)
    assert moments() != before
    assert all(0 <= one <= 10 for one in before)


def test_it_has_been_done_when_the_block_is_left() -> None:
    done = threading.Event()
    with chance.meanwhile(done.set, after=0.05):
        assert not done.is_set()
    assert done.is_set()


def test_what_it_raises_is_raised_at_the_blocks_end() -> None:
    def fail() -> None:
        raise ValueError("no operator")

    with pytest.raises(ValueError, match="no operator"), chance.meanwhile(fail, after=0):
        pass
