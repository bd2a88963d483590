"""Archives that are the same bytes whenever they are made of the same files."""

import gzip
import io
import tarfile
from pathlib import Path


def normalize(archive: Path, epoch: int) -> None:
    """Writes a .tgz anew: the same files in the order of their names, of nobody, at `epoch` (seconds since 1970)."""
    with tarfile.open(archive) as source:
        members = sorted(source.getmembers(), key=lambda member: member.name)
        contents = {member.name: _content(source, member) for member in members}
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as target:
        for member in members:
            target.addfile(_plain(member, epoch), io.BytesIO(contents[member.name]))
    archive.write_bytes(gzip.compress(plain.getvalue(), mtime=epoch))


def _content(source: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = source.extractfile(member)
    return file.read() if file else b""


def _plain(member: tarfile.TarInfo, epoch: int) -> tarfile.TarInfo:
    plain = tarfile.TarInfo(member.name)
    plain.type, plain.size, plain.mode, plain.mtime = member.type, member.size, 0o644, epoch
    return plain
