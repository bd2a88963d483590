"""The real servers, each with one model behind a gate of its own: what a test needs to know to fetch from each."""

import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2e.cluster import pki
from e2e.hub.sample import make_repository
from e2e.sources import forward, gcs, registry, s3, web
from e2e.sources.gate import Gate, in_thread

WEIGHTS = 3_000_000
NAMES = ("s3", "gs", "oci", "oci-tar", "https")
S3_FILES = re.compile(r"^/models/[^?]+\?(?!.*list-type)")
GCS_FILES = re.compile(r"^/download/")
REGISTRY_FILES = re.compile(r"/blobs/")
WEB_FILES = re.compile(r"\.(tar|gguf)")


@dataclass
class Place:
    """One model at one server."""

    uri: str
    gate: Gate
    credentials: Mapping[str, str]
    wrong: Mapping[str, str] | None
    """What the server refuses; None where it asks nobody."""
    packed: bool = False
    """Whether the model comes in an archive."""
    missing: str = ""
    """A URI of nothing."""
    remedy: str = "modelCredentialsSecretRef"


@dataclass
class Servers:
    """What runs for all tests, and the folder of the model that each of them has."""

    model: Path
    s3: s3.S3Server
    gcs: gcs.GcsServer
    registry: registry.Registry
    web: str
    files: Path
    authority: pki.Authority
    host: str = "127.0.0.1"
    """Where the gates listen; with TLS unless it is the loopback, where a registry needs none."""
    server_tls: ssl.SSLContext = field(init=False)

    def __post_init__(self) -> None:
        pair = self.authority.issue("server", "localhost", hosts=["127.0.0.1", "localhost", forward.HOST, self.host])
        self.server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.server_tls.load_cert_chain(pair.certificate, pair.key)

    @property
    def ca(self) -> str:
        return self.authority.certificate.read_text()

    @contextmanager
    def place(self, name: str, *, tls: bool = False) -> Iterator[Place]:
        """The model at a server, by the name of NAMES, while the context is open; with `tls` on the loopback, too."""
        with ExitStack() as stack:
            gate = self._gate(name)
            gate.host = self.host
            if tls or self.host != "127.0.0.1":
                gate.tls = self.server_tls
            stack.enter_context(in_thread(gate))
            place: Place = getattr(self, f"_{name.replace('-', '_')}")(gate)
            if gate.tls is not None:
                place.credentials = {**place.credentials, "ca.crt": self.ca}
            yield place

    def _gate(self, name: str) -> Gate:
        if name == "s3":
            return Gate(self.s3.url, S3_FILES)
        if name == "gs":
            return Gate(self.gcs.url, GCS_FILES)
        if name.startswith("oci"):
            login = (registry.USER, registry.PASSWORD)
            return Gate(self.registry.url, REGISTRY_FILES, password=login, bearer=name == "oci")
        return Gate(self.web, WEB_FILES, tls=self.server_tls, token="secret-of-the-web")

    def _s3(self, gate: Gate) -> Place:
        right = self.s3.credentials(gate.url)
        wrong = {**right, "AWS_SECRET_ACCESS_KEY": "another-secret-key"}
        return Place("s3://models/org/name", gate, right, wrong, missing="s3://models/org/none")

    def _gs(self, gate: Gate) -> Place:
        return Place(
            "gs://models/org/name", gate, {"STORAGE_EMULATOR_HOST": gate.url}, None, missing="gs://models/org/none"
        )

    def _oci(self, gate: Gate) -> Place:
        right = {".dockerconfigjson": registry.docker_configuration(gate.address)}
        wrong = {".dockerconfigjson": registry.docker_configuration(gate.address, password="another-password")}
        return Place(
            f"oci://{gate.address}/org/name:v1", gate, right, wrong, missing=f"oci://{gate.address}/org/name:v2"
        )

    def _oci_tar(self, gate: Gate) -> Place:
        right = {"username": registry.USER, "password": registry.PASSWORD}
        wrong = {"username": registry.USER, "password": "another-password"}
        missing = f"oci://{gate.address}/org/none"
        return Place(f"oci://{gate.address}/org/image:v1", gate, right, wrong, packed=True, missing=missing)

    def _https(self, gate: Gate) -> Place:
        right = {"token": " secret-of-the-web\n", "ca.crt": self.ca}
        wrong = {"token": "another-secret", "ca.crt": self.ca}
        return Place(f"{gate.url}/model.tar", gate, right, wrong, packed=True, missing=f"{gate.url}/none.tar")


@contextmanager
def all_servers(folder: Path, host: str = "127.0.0.1") -> Iterator[Servers]:
    """Run them all on the loopback, with the sample model in each; their gates listen at `host`."""
    model = make_repository(folder / "model", WEIGHTS).folder
    files = folder / "web"
    files.mkdir()
    (files / "model.tar").write_bytes(registry.packed_folder(model, "name/"))
    with ExitStack() as stack:
        servers = Servers(
            model=model,
            s3=stack.enter_context(s3.serving(folder / "s3")),
            gcs=stack.enter_context(gcs.serving(folder / "gcs", {"org/name": model})),
            registry=stack.enter_context(registry.serving(folder / "registry")),
            web=stack.enter_context(web.serving(files)),
            files=files,
            authority=pki.Authority(folder / "pki"),
            host=host,
        )
        servers.s3.upload(model, "org/name")
        servers.registry.push_files(model, "org/name", "v1")
        servers.registry.push_layers(
            [registry.packed({"etc/config.json": b"{}"}), registry.packed_folder(model, "./models/")], "org/image", "v1"
        )
        yield servers
