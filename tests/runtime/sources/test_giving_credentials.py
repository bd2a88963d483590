"""Clouds that are busy when they are asked for credentials: that passes, and is no word about who may read a model."""

import json
from pathlib import Path
from typing import Any

import google.auth.exceptions
import pytest
from aiohttp import web

from gptservice_runtime import models
from gptservice_runtime.sources import gcs, s3
from tests.runtime.harness import free_ports
from tests.runtime.sources.answering import FILES, answering, fetched, secret

RefreshError: Any = google.auth.exceptions.RefreshError
DefaultCredentialsError: Any = google.auth.exceptions.DefaultCredentialsError
LIST = "<ListBucketResult>{}</ListBucketResult>".format(
    "".join(f"<Contents><Key>m/{name}</Key></Contents>" for name in FILES)
)
ITEMS = [{"name": f"m/{name}", "size": str(len(content)), "generation": "1"} for name, content in FILES.items()]


def is_signed(request: web.Request) -> bool:
    return "X-Amz-Signature" in request.query


async def private_store(request: web.Request) -> web.StreamResponse:
    """S3 that lets nobody in who has signed nothing."""
    if not is_signed(request):
        return web.Response(status=403, text="<Error><Code>AccessDenied</Code></Error>")
    if "list-type" in request.query:
        return web.Response(text=LIST)
    return web.Response(body=FILES[request.path.rpartition("/")[2]], headers={"ETag": '"1"'})


@pytest.fixture
def nothing_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A pod without credentials of any kind."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ROLE_ARN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


class Instance:
    """The metadata of an instance, busy for some requests."""

    def __init__(self, busy: int) -> None:
        self.busy = busy

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.busy:
            self.busy -= 1
            return web.Response(status=503)
        if request.path.endswith("/token"):
            return web.Response(text="t")
        if request.path.endswith("security-credentials/"):
            return web.Response(text="role")
        keys = {"AccessKeyId": "AK", "SecretAccessKey": "SK", "Token": "T", "Expiration": "2099-01-01T00:00:00Z"}
        return web.json_response({"Code": "Success", **keys})


async def fetched_from_s3(folder: Path, monkeypatch: pytest.MonkeyPatch, busy: int, *, tries: int) -> None:
    async with answering(private_store) as store, answering(Instance(busy).handle) as instance:
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", instance)
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", store)
        await fetched(s3.S3("s3://bucket/m", folder / "none"), folder / "cache", tries=tries)


async def test_one_moment_without_metadata_is_not_remembered(tmp_path: Path, nothing_known: pytest.MonkeyPatch) -> None:
    await fetched_from_s3(tmp_path, nothing_known, 3, tries=3)


async def test_who_never_gets_credentials_is_told_where_they_could_come_from(
    tmp_path: Path, nothing_known: pytest.MonkeyPatch
) -> None:
    with pytest.raises(models.ModelError, match="has given credentials: name a Secret") as refused:
        await fetched_from_s3(tmp_path, nothing_known, 1000, tries=2)
    assert refused.value.reason == "ModelAccessDenied"


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        ("Throttling", 400, "HubThrottled"),
        ("RequestLimitExceeded", 503, "HubThrottled"),
        ("IDPCommunicationError", 400, "ModelDownloadFailed"),
        ("ExpiredTokenException", 400, "ModelDownloadFailed"),
        ("ServiceUnavailable", 503, "ModelDownloadFailed"),
        ("AccessDenied", 403, "ModelAccessDenied"),
        ("InvalidIdentityToken", 400, "ModelAccessDenied"),
    ],
)
async def test_what_keeps_a_role_from_being_taken(
    tmp_path: Path, nothing_known: pytest.MonkeyPatch, code: str, status: int, reason: str
) -> None:
    """Who says "later" has not said "never", which rolls a rollout back at once."""

    async def service(_request: web.Request) -> web.StreamResponse:
        error = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>said so</Message></Error>"
        return web.Response(status=status, text=f"<ErrorResponse>{error}</ErrorResponse>", content_type="text/xml")

    (tmp_path / "token").write_text("a token")
    async with answering(service) as endpoint:
        nothing_known.setenv("AWS_ENDPOINT_URL_STS", endpoint)
        nothing_known.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/x")
        nothing_known.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        nothing_known.setenv("AWS_MAX_ATTEMPTS", "1")
        with pytest.raises(models.ModelError, match="said so") as refused:
            await fetched(s3.S3("s3://bucket/m", tmp_path / "none"), tmp_path / "cache", tries=2)
    assert refused.value.reason == reason
    assert ("that was try 2" in str(refused.value)) is (reason != "ModelAccessDenied")


async def test_a_token_that_is_not_mounted_yet_is_no_fault_of_the_cache(
    tmp_path: Path, nothing_known: pytest.MonkeyPatch
) -> None:
    nothing_known.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/x")
    nothing_known.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    with pytest.raises(models.ModelError, match="cannot sign requests"):
        await fetched(s3.S3("s3://bucket/m", tmp_path / "none"), tmp_path / "cache", tries=1)


@pytest.mark.parametrize("folder", ["plain", "run=1", "my model", "llama@v2", "llama+chat", "50%", "ü"])
@pytest.mark.parametrize("encodes", [True, False])
async def test_a_folder_of_s3_may_have_any_name(tmp_path: Path, folder: str, encodes: bool) -> None:
    """botocore asks for lists whose names are quoted as those of forms are; some stores do not know of it."""

    def listed(name: str) -> str:
        # As S3 quotes.
        quoted = (f"%{byte:02X}" if chr(byte) in "=@+%" or byte > 127 else chr(byte) for byte in name.encode())
        return "".join(quoted).replace(" ", "+") if encodes else name

    async def store(request: web.Request) -> web.StreamResponse:
        if "list-type" not in request.query:
            return web.Response(body=FILES[request.path.rpartition("/")[2]], headers={"ETag": '"1"'})
        keys = "".join(f"<Contents><Key>{listed(request.query['prefix'] + name)}</Key></Contents>" for name in FILES)
        kind = "<EncodingType>url</EncodingType>" if encodes else ""
        return web.Response(text=f"<ListBucketResult>{kind}{keys}</ListBucketResult>")

    async with answering(store) as endpoint:
        given = secret(tmp_path, AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", AWS_ENDPOINT_URL=endpoint)
        there = await fetched(s3.S3(f"s3://bucket/{folder}", given), tmp_path / "cache", tries=1)
    assert sorted(file.path for file in there.files) == sorted(FILES)


class PodIdentity:
    """Credentials that ask a server for their token, as google-auth's do: all that goes wrong is one error."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.token: str | None = None

    @property
    def valid(self) -> bool:
        return self.token is not None

    def refresh(self, request: Any) -> None:
        try:
            answer = request(url=self.address, method="GET", timeout=1)
        except google.auth.exceptions.TransportError as error:
            raise RefreshError(error) from error
        if answer.status != 200:
            raise RefreshError("no token")
        self.token = answer.data.decode()


class Google:
    """Its store and who gives tokens for it."""

    def __init__(self, *statuses: int, refuses: int = 0, body: str = "") -> None:
        self.statuses = list(statuses)
        """Of the answers to the requests for a token, one after another; then all are given one."""
        self.refuses, self.body = refuses, body
        """How many requests for objects are refused though they show a token, and with what."""
        self.tokens = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/token":
            self.tokens += 1
            return web.Response(status=self.statuses.pop(0) if self.statuses else 200, text=f"t{self.tokens}")
        if request.headers.get("Authorization") is None:
            return web.Response(status=401)
        if request.path.startswith("/storage"):
            return web.json_response({"items": ITEMS})
        if self.refuses:
            self.refuses -= 1
            return web.Response(status=403 if self.body else 401, text=self.body)
        return web.Response(body=FILES[request.path.rpartition("/")[2]])


async def fetched_from_google(
    folder: Path, monkeypatch: pytest.MonkeyPatch, google_: Google, *, none_at_first: int = 0, tries: int = 6
) -> None:
    looked = 0

    def identity() -> PodIdentity:
        nonlocal looked
        looked += 1
        if looked <= none_at_first:
            raise DefaultCredentialsError("none")
        return PodIdentity(f"{endpoint}/token")

    async with answering(google_.handle) as endpoint:
        monkeypatch.setattr(gcs, "_PUBLIC", endpoint)
        monkeypatch.setattr(gcs, "_of_the_pod", identity)
        await fetched(gcs.GoogleCloudStorage("gs://bucket/m", folder / "none"), folder / "cache", tries=tries)


SLOWER = json.dumps({"error": {"errors": [{"reason": "rateLimitExceeded"}]}})


@pytest.mark.parametrize(
    ("google_", "none_at_first"),
    [
        pytest.param(Google(), 0, id="at once"),
        pytest.param(Google(503, 500, 429), 0, id="busy"),
        pytest.param(Google(), 1, id="none to be found at first"),
        pytest.param(Google(refuses=2), 0, id="refused in mid-model"),
        pytest.param(Google(refuses=1, body=SLOWER), 0, id="403 that throttles"),
    ],
)
async def test_google_s_moments_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, google_: Google, none_at_first: int
) -> None:
    await fetched_from_google(tmp_path, monkeypatch, google_, none_at_first=none_at_first)


async def test_who_may_have_no_token_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    google_ = Google(403)
    with pytest.raises(models.ModelError, match="Google gives no token") as refused:
        await fetched_from_google(tmp_path, monkeypatch, google_)
    assert refused.value.reason == "ModelAccessDenied"
    assert google_.tokens == 1


async def test_who_finds_no_credentials_at_all_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(models.ModelError, match="neither modelCredentialsSecretRef nor") as refused:
        await fetched_from_google(tmp_path, monkeypatch, Google(), none_at_first=9, tries=3)
    assert refused.value.reason == "ModelAccessDenied"


async def test_who_gives_tokens_and_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(gcs, "_of_the_pod", lambda: PodIdentity(f"http://127.0.0.1:{port}/"))
    with pytest.raises(models.ModelError, match="cannot reach who gives tokens") as refused:
        await fetched(gcs.GoogleCloudStorage("gs://bucket/m", tmp_path / "none"), tmp_path / "cache", tries=2)
    assert refused.value.reason == "ModelDownloadFailed"
