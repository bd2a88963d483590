"""Progress in the log: now and then, with what is left."""

import logging
from collections.abc import Iterator

import pytest

from gptservice_runtime.weights.progress import Progress


def test_it_is_told_every_ten_seconds_and_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    times: Iterator[float] = iter([0, 4, 12, 15, 20])
    with caplog.at_level(logging.INFO):
        progress = Progress("decrypting", 4_000_000_000, clock=lambda: next(times))
        for _ in range(3):
            progress.advance(1_000_000_000)
        progress.finish()
    assert [record.getMessage() for record in caplog.records] == [
        "decrypting: 2.0 GB of 4.0 GB, 166.7 MB/s, 12 s left",
        "decrypting: 3.0 GB of 4.0 GB, 150.0 MB/s, done",
    ]
