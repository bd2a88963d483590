"""What opens a source: the files of a mounted Secret."""

import ssl
from collections.abc import Collection, Mapping
from pathlib import Path

from gptservice_runtime import contract, models

CA = "ca.crt"
"""Key with the authorities, PEM, that a source's certificate is checked with beside the system's."""
PLATFORM_CA = "runtime.caBundle"
"""Value of the operator's chart with the authorities that every download is checked with beside the system's."""
PLATFORM_CA_REMEDY = f"put its authority into {PLATFORM_CA} of the operator's chart"
_LARGEST = 1 << 20
"""Bytes; a Secret holds no more."""


def hub_token(directory: Path) -> str | None:
    """The token without white space around it; None where no Secret is mounted. models.ModelError if it is unusable."""
    if not directory.is_dir():
        return None
    files = _files(directory)
    if len(files) != 1:
        keys = ", ".join(file.name for file in files) or "none"
        raise _unusable(
            "huggingFaceTokenSecretRef",
            f"the Secret has {len(files)} keys ({keys}): name one of them in huggingFaceTokenSecretRef.key",
        )
    return _word(files[0], "huggingFaceTokenSecretRef", "the token")


class Credentials:
    """The values of ``modelCredentialsSecretRef``; none where no Secret is mounted."""

    FIELD = "modelCredentialsSecretRef"
    CA_REMEDY = (
        f"put its authority into {FIELD} as {CA}, or for all services into {PLATFORM_CA} of the operator's chart"
    )

    def __init__(self, directory: Path, known: Collection[str], scheme: str) -> None:
        """`known`: the keys that this source reads; models.ModelError for a Secret with none of them."""
        self._files = {file.name: file for file in _files(directory)} if directory.is_dir() else None
        self._scheme = scheme
        if self._files is not None and not self._files.keys() & {*known, CA}:
            listed = ", ".join(self._files) or "none"
            raise self.unusable(f"the Secret has the keys {listed}, and {scheme}:// reads {', '.join(known)} and {CA}")

    @property
    def are_given(self) -> bool:
        """Whether a Secret is mounted with more than an authority."""
        return self._files is not None and bool(self._files.keys() - {CA})

    def word(self, *keys: str) -> str | None:
        """The first of these keys that is there, without white space around it."""
        for key in keys:
            if (file := (self._files or {}).get(key)) is not None:
                return _word(file, self.FIELD, "the value")
        return None

    def text(self, key: str) -> str | None:
        """A key's whole value."""
        if (file := (self._files or {}).get(key)) is None:
            return None
        return _text(file, self.FIELD)

    def together(self, *keys: str) -> Mapping[str, str] | None:
        """All of these keys or none; models.ModelError where some are missing."""
        values = {key: value for key in keys if (value := self.word(key)) is not None}
        if values and (missing := [key for key in keys if key not in values]):
            raise self.unusable(f"the Secret has {', '.join(values)}, but not {', '.join(missing)}")
        return values or None

    def tls(self) -> ssl.SSLContext | None:
        """What a certificate is checked with; None for the system's authorities alone."""
        if (authorities := self.text(CA)) is None:
            return None
        context = ssl.create_default_context()
        try:
            context.load_verify_locations(cadata=authorities)
        except ssl.SSLError:
            raise self.unusable(f"key {CA!r} holds no certificate in PEM") from None
        return context

    def unusable(self, what: str) -> models.ModelError:
        """The error for a Secret that does not do."""
        return _unusable(self.FIELD, what)


def _files(directory: Path) -> list[Path]:
    # The kubelet keeps its own links there, whose names begin with two dots.
    return sorted(entry for entry in directory.iterdir() if not entry.name.startswith("..") and entry.is_file())


def _text(file: Path, field: str) -> str:
    try:
        text = file.read_bytes()[:_LARGEST].decode()
    except ValueError:
        raise _unusable(field, f"key {file.name!r} of the Secret holds no text") from None
    if not text.strip():
        raise _unusable(field, f"key {file.name!r} of the Secret is empty")
    return text


def _word(file: Path, field: str, what: str) -> str:
    try:
        word = file.read_bytes().strip().decode("ascii")
    except ValueError:
        raise _unusable(field, f"key {file.name!r} of the Secret holds no text: put {what} into it") from None
    if not word:
        raise _unusable(field, f"key {file.name!r} of the Secret is empty: put {what} into it")
    if not word.isprintable() or " " in word:
        raise _unusable(field, f"key {file.name!r} of the Secret holds more than one word: put {what} alone into it")
    return word


def _unusable(field: str, what: str) -> models.ModelError:
    return models.ModelError(contract.REASON_MODEL_ACCESS_DENIED, f"{field}: {what}")
