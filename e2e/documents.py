"""The fenced blocks of the documents, by the page and heading they stand under: tests run and apply them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from e2e.cluster import paths

ROOT = paths.REPOSITORY
PAGES = ("README.md", "CHANGELOG.md", "docs/**/*.md", "gitops/**/*.md", "policy/*.md", "runtime-image/*.md")
SHELL = ("sh", "bash", "console")
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w{}-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S)
_HEADING = re.compile(r"^#+ (.+)$", re.M)


@dataclass(frozen=True)
class Block:
    """One fenced block; `number` counts those of its language under one heading, from 1."""

    page: str
    heading: str
    language: str
    number: int
    text: str

    @property
    def name(self) -> str:
        """What tests call it: `docs/gitops.md: Flux, sh 1`."""
        return f"{self.page}: {self.heading}, {self.language or 'plain'} {self.number}"


def blocks() -> list[Block]:
    """Every fenced block of every page, in their order."""
    pages = sorted({path for pattern in PAGES for path in ROOT.glob(pattern)})
    return [block for page in pages for block in of_page(str(page.relative_to(ROOT)), page.read_text())]


def of_page(page: str, text: str) -> Iterator[Block]:
    """The blocks of one page."""
    fences = list(_FENCE.finditer(text))
    inside = [range(*fence.span()) for fence in fences]
    # A comment of a shell block looks like a heading.
    headings = [found for found in _HEADING.finditer(text) if not any(found.start() in span for span in inside)]
    counted: dict[tuple[str, str], int] = {}
    for fence in fences:
        before = [heading[1] for heading in headings if heading.start() < fence.start()]
        key = (before[-1] if before else "", fence["language"])
        counted[key] = counted.get(key, 0) + 1
        yield Block(page, key[0], key[1], counted[key], fence["text"])


def block(name: str) -> Block:
    """The block of that name. Raises KeyError for one that is not there."""
    return {each.name: each for each in blocks()}[name]
