"""An S3 server (versitygw) over a folder: it checks signatures, and refuses whoever shows none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import botocore.config
import botocore.session

from e2e.cluster import binaries
from e2e.sources import programs

PROGRAM = "versitygw"
BUCKET = "models"
REGION = "us-east-1"
_PART = 5 << 20


@dataclass(frozen=True)
class S3Server:
    """A running one, on the loopback."""

    url: str
    access_key: str = "test-access-key"
    secret_key: str = "test-secret-key"  # noqa: S105 - of a server of this test

    def credentials(self, endpoint: str) -> Mapping[str, str]:
        """A Secret's keys for it, reached at `endpoint`."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": f"{self.secret_key}\n",
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": endpoint,
        }

    def client(self) -> Any:
        """The server's own client, for what tests put there."""
        session: Any = botocore.session.Session()
        session.set_credentials(self.access_key, self.secret_key)
        config = botocore.config.Config(signature_version="s3v4", s3={"addressing_style": "path"})
        return session.create_client("s3", region_name=REGION, endpoint_url=self.url, config=config)

    def upload(self, folder: Path, prefix: str) -> None:
        """Put a folder's files below a prefix."""
        client = self.client()
        for file in (path for path in folder.rglob("*") if path.is_file()):
            with file.open("rb") as body:
                client.put_object(Bucket=BUCKET, Key=f"{prefix}/{file.relative_to(folder).as_posix()}", Body=body)

    def upload_in_parts(self, file: Path, key: str) -> None:
        """Put a file as clients put large ones: its ETag is none of its bytes' MD5."""
        client = self.client()
        upload = client.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
        content, parts = file.read_bytes(), list[dict[str, Any]]()
        for number, at in enumerate(range(0, len(content), _PART), 1):
            named = {"Bucket": BUCKET, "Key": key, "UploadId": upload, "PartNumber": number}
            parts.append(
                {"PartNumber": number, "ETag": client.upload_part(**named, Body=content[at : at + _PART])["ETag"]}
            )
        client.complete_multipart_upload(Bucket=BUCKET, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})


@contextmanager
def serving(folder: Path) -> Iterator[S3Server]:
    """Run it while the context is open, with an empty bucket; the folder must be on a file system with attributes."""
    server = S3Server(f"http://127.0.0.1:{programs.free_port()}")
    data, beside = folder / "data", folder / "beside"
    data.mkdir(parents=True)
    beside.mkdir()
    port = server.url.removeprefix("http://")
    command: list[str | Path] = [binaries.ensure([PROGRAM])[PROGRAM], "--port", port, "--quiet", "--keep-alive"]
    command += ["--access", server.access_key, "--secret", server.secret_key, "--region", REGION]
    with programs.running([*command, "posix", "--sidecar", beside, data], server.url, folder / "log", {}):
        server.client().create_bucket(Bucket=BUCKET)
        yield server
