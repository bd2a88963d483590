"""A reader runs what stands in a block, and notices when a command of it fails."""

from pathlib import Path

import pytest

from e2e import documents
from e2e.kube import wait_until
from e2e.reader import BlockError, Reader

PAGE = """\
# Title

```sh
echo one      # no heading
# nor is this
```

## Section `with` code

```yaml
a: 1
```

- in a list:

  ```sh
  echo two
  ```

```sh
echo three \\
  more
false
```
"""


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    known = {block.name: block for block in documents.of_page("page.md", PAGE)}
    monkeypatch.setattr(documents, "block", known.__getitem__)
    return Reader(tmp_path / "checkout", {"say": Path("/bin/echo")})


def test_blocks_are_called_by_page_heading_and_number() -> None:
    assert [(block.name, block.language) for block in documents.of_page("page.md", PAGE)] == [
        ("page.md: Title, sh 1", "sh"),
        ("page.md: Section `with` code, yaml 1", "yaml"),
        ("page.md: Section `with` code, sh 1", "sh"),
        ("page.md: Section `with` code, sh 2", "sh"),
    ]


def test_every_fence_of_every_page_is_found() -> None:
    for page in {block.page for block in documents.blocks()}:
        fences = [line for line in (documents.ROOT / page).read_text().splitlines() if line.lstrip().startswith("```")]
        assert len(fences) == 2 * sum(block.page == page for block in documents.blocks()), page


def test_blocks_run_in_one_shell_with_the_reader_s_own_words(reader: Reader) -> None:
    assert reader.run("page.md: Title, sh 1", "page.md: Section `with` code, sh 1", one="zero") == "zero\ntwo\n"


def test_a_command_that_fails_is_told_with_what_ran(reader: Reader) -> None:
    with pytest.raises(BlockError, match=r"status 1 of\n(.|\n)*false\n\nthree more"):
        reader.run("page.md: Section `with` code, sh 2")


def test_a_line_is_left_out_with_what_it_goes_on_in(reader: Reader) -> None:
    assert reader.run("page.md: Section `with` code, sh 2", without=["three", "false"]) == ""


def test_what_is_left_in_the_background_ends_with_the_block(reader: Reader) -> None:
    status = Path("/proc", reader.shell("sleep 1000 & echo $!").strip(), "stat")
    # Gone, or not taken notice of yet by whoever adopted it.
    wait_until(lambda: status.read_text() if status.exists() else " Z ", lambda text: " Z " in text, "its end")


def test_it_has_the_checkout_and_the_programs(reader: Reader) -> None:
    assert reader.shell("test -f examples/quickstart.yaml; test -f charts/gptservice-operator/values.yaml") == ""
    assert reader.shell("say yes") == "yes\n"


def test_a_block_that_is_not_there_is_no_success(reader: Reader) -> None:
    with pytest.raises(KeyError):
        reader.run("page.md: Elsewhere, sh 1")
