"""Where a model can be: the forms of ``spec.model`` and of a GPTModel's ``spec.uri``."""

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from .base import Rule, ruled
from .words import DNS_SUBDOMAIN

_PATH = r"(/[!-~]*)?"
_REPOSITORY = r"[A-Za-z0-9][-A-Za-z0-9_.]{0,95}/[A-Za-z0-9][-A-Za-z0-9_.]{0,95}(@[A-Za-z0-9][-A-Za-z0-9_./]{0,127})?"
_FORMS: tuple[str, ...] = (
    rf"(hf://)?{_REPOSITORY}",
    rf"(s3|gs)://[a-z0-9][-a-z0-9_.]{{1,221}}{_PATH}",
    r"oci://[A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]{1,5})?/[a-z0-9]+([._/-]+[a-z0-9]+)*"
    r"(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(@sha256:[0-9a-f]{64})?",
    rf"pvc://{DNS_SUBDOMAIN}{_PATH}",
    r"https://[A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]{1,5})?/[!-~]+",
    r"file:///[!-~]+",
)
URI = f"({'|'.join(_FORMS)})"
BARE_OR_URI = f"({DNS_SUBDOMAIN}|{'|'.join(_FORMS)})"

STORES = ("s3", "gs", "oci", "https")
"""Schemes of what ``modelCredentialsSecretRef`` opens."""
ARCHIVES = (".tar", ".tar.gz", ".tgz")
SINGLE_FILE = ".gguf"

IN_A_STORE = f"matches(r'^({'|'.join(STORES)})://')"
"""CEL of a uri, as a call of it."""

_WRITTEN = (
    "org/name[@revision], hf://org/name[@revision], s3://bucket/path, gs://bucket/path, "
    "oci://registry/repository[:tag], pvc://claim/path, https://host/path or file:///path"
)
_NO_PARENT = Rule(
    "!self.contains('..')", "a path must not contain '..': write it without", lambda uri: ".." not in str(uri)
)
_ONE_FILE = r"[^?#]*[.](tar|tar[.]gz|tgz|gguf)([?#].*)?"


def is_in_a_store(uri: str) -> bool:
    """Return whether its scheme is one of STORES: what IN_A_STORE says."""
    return uri.startswith(tuple(f"{scheme}://" for scheme in STORES))


def _full(pattern: str) -> Callable[[Any], bool]:
    compiled = re.compile(pattern)
    return lambda uri: compiled.fullmatch(uri) is not None


MODEL = Rule(
    f"self.matches(r'^{BARE_OR_URI}$')",
    f"must be the name of a GPTModel such as gpt-4-turbo, or {_WRITTEN}",
    _full(BARE_OR_URI),
)
MODEL_URI = Rule(f"self.matches(r'^{URI}$')", f"must be {_WRITTEN}", _full(URI))
NO_FOLDER = Rule(
    f"!self.startsWith('https://') || self.matches(r'^{_ONE_FILE}$')",
    f"must name one {', '.join(ARCHIVES)} or {SINGLE_FILE} file: a web server lists no folders",
    lambda uri: not uri.startswith("https://") or re.fullmatch(_ONE_FILE, uri) is not None,
)

ModelName = Annotated[str, Field(min_length=1, max_length=1024), *ruled(_NO_PARENT, MODEL, NO_FOLDER)]
"""A catalogue name or a uri."""
ModelUri = Annotated[str, Field(min_length=1, max_length=1024), *ruled(_NO_PARENT, MODEL_URI, NO_FOLDER)]
