"""What is kept of the engine's output, to quote it when it ends."""

from gptservice_runtime.child import OutputTail


def test_colours_and_titles_are_no_part_of_it() -> None:
    tail = OutputTail()
    for chunk in (b"\x1b[1;31mValue", b"Error\x1b", b"[0m: no\n\x1b]0;title\x07more"):
        tail.add(chunk)
    assert tail.text() == "ValueError: no\nmore"


def test_it_is_the_end_that_is_kept() -> None:
    tail = OutputTail()
    tail.add(b"begin" + b"x" * (1 << 17))
    tail.add(b"end")
    assert tail.text().endswith("end")
    assert "begin" not in tail.text()
    assert len(tail.text()) <= 1 << 16
