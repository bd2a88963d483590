"""Builds Containerfiles with buildah, in a storage of its own within the cache and without a daemon.

The Containerfiles are written for people with docker and public images. What is special here is passed from
outside: base images out of OCI archives, and uv's configuration, certificates and cache mounted into the RUN
steps.
"""

import json
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2e.cluster import files, paths
from e2e.cluster.images import base, oci, store

IMAGE_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
IMAGE_UV_CONFIG = "/etc/uv/uv.toml"
IMAGE_UV_CACHE = "/root/.cache/uv"
INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
# Every build leaves its steps behind for the next one; beyond this number of images it starts afresh.
MOST_IMAGES = 120


@dataclass(frozen=True)
class Settings:
    """How a Containerfile is run.

    With `epoch` (seconds since 1970) the image and its files carry that time, and none the time of the build. Without
    `cached` no step of an earlier build is taken.
    """

    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    epoch: int | None = None
    cached: bool = True


PLAIN = Settings()


@dataclass(frozen=True)
class Build:
    """One run of a Containerfile; `bases` maps build arguments to the archives of the images that they name."""

    containerfile: Path
    context: Path
    bases: Mapping[str, Path]
    settings: Settings = PLAIN


def build(job: Build, archive: Path, reference: str) -> None:
    """Runs the job and writes the result to `archive` under the full name `reference`."""
    with files.locked(paths.image_builds() / ".lock"), _mounted_configuration() as configuration:
        _forget_old_steps()
        arguments = [f"--build-arg={name}={_image_id(path)}" for name, path in job.bases.items()]
        arguments += [f"--build-arg={name}={value}" for name, value in job.settings.arguments.items()]
        arguments += [] if job.settings.epoch is None else [f"--timestamp={job.settings.epoch}"]
        steps = "--layers" if job.settings.cached else "--no-cache"
        _buildah(
            "build", "--isolation=chroot", steps, "--pull=never", f"--tag={reference}",
            f"--file={job.containerfile}", *arguments, *configuration, job.context,
            what=f"building {reference} from {job.containerfile.name}",
        )  # fmt: skip
        _buildah("push", reference, f"oci-archive:{archive}:{reference}", what=f"saving {reference}")


def reset() -> None:
    """Forgets every image and step; the next builds start afresh."""
    with files.locked(paths.image_builds() / ".lock"):
        _forget_everything()


def _forget_old_steps() -> None:
    # Whatever an interrupted build was working on: nobody else builds while the lock is held.
    _buildah("rm", "--all", what="removing unfinished builds")
    known = _buildah("images", "--all", "--quiet", what="counting the images of earlier builds").split()
    if len(known) > MOST_IMAGES:
        _forget_everything()


def _forget_everything() -> None:
    _buildah("rm", "--all", what="removing unfinished builds")
    _buildah("rmi", "--all", "--force", what="removing the images of earlier builds")


def _image_id(archive: Path) -> str:
    """The id under which buildah knows the archive's image, loaded if it was not there."""
    image = oci.read_archive(archive)
    image_id = image.config_digest.removeprefix("sha256:")
    known = _buildah("images", "--all", "--quiet", "--no-trunc", what="listing images").split()
    if image.config_digest not in known:
        _buildah("pull", "--quiet", f"oci-archive:{archive}", what=f"loading {image.reference}")
    return image_id


def _buildah(*arguments: str | Path, what: str) -> str:
    storage = paths.image_builds()
    place = ("--root", storage / "root", "--runroot", storage / "run", "--storage-driver", "overlay")
    # Contained: buildah leaves its storage mounted.
    return store.run(*store.CONTAINED, "buildah", *place, *arguments, what=what)


@contextmanager
def _mounted_configuration() -> Iterator[list[str]]:
    """The options that let uv inside a RUN step reach the package index just as uv on this machine does."""
    cache = store.run(base.uv_program(), "cache", "dir", what="asking uv for its cache").strip()
    Path(cache).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / "uv.toml"
        config.write_text(uv_configuration(os.environ))
        mounts = [f"{config}:{IMAGE_UV_CONFIG}:ro", f"{cache}:{IMAGE_UV_CACHE}"]
        if certificates := host_certificates(os.environ):
            mounts.append(f"{certificates}:{IMAGE_CERTIFICATES}:ro")
        yield [f"--volume={mount}" for mount in mounts]


def uv_configuration(environment: Mapping[str, str]) -> str:
    """uv.toml for a build: the machine's certificates are trusted, and its package index is used if it has
    its own.
    """
    lines = ["system-certs = true"]
    if index := next((environment[name] for name in INDEX_VARIABLES if environment.get(name)), None):
        lines += ["[[index]]", f"url = {json.dumps(index)}", "default = true"]
    return "\n".join(lines) + "\n"


def host_certificates(environment: Mapping[str, str]) -> Path | None:
    """The file with the certificate authorities that this machine trusts; None if there is no such file."""
    candidates: Sequence[str | None] = (
        environment.get("SSL_CERT_FILE"),
        IMAGE_CERTIFICATES,
        ssl.get_default_verify_paths().cafile,
    )
    return next((Path(name).resolve() for name in candidates if name and Path(name).is_file()), None)
