"""The key check alone: which files hold keys, when they count, and what a request has to show."""

import asyncio
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptservice_runtime import asgi, contract, engine, keys

KEY = b"sk-" + b"a" * 43
OTHER = b"sk-" + b"b" * 43
POLL = contract.KEYS_POLL_SECONDS
Headers = list[asgi.Header]


def bearer(key: bytes = KEY) -> Headers:
    return [(b"host", b"chat"), (b"authorization", b"Bearer " + key)]


class Clock:
    """Monotonic seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def mount(directory: Path, files: dict[str, bytes]) -> None:
    """Change a mounted Secret as the kubelet does: a new folder, and one rename of the link that leads to it."""
    directory.mkdir(exist_ok=True)
    before = os.readlink(directory / "..data") if (directory / "..data").is_symlink() else None
    fresh = Path(tempfile.mkdtemp(prefix="..2026_", dir=directory))
    for name, content in files.items():
        (fresh / name).write_bytes(content)
    (directory / "..data_tmp").symlink_to(fresh.name)
    os.replace(directory / "..data_tmp", directory / "..data")
    for name in files:
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")
    for entry in directory.iterdir():
        if not entry.name.startswith("..") and entry.name not in files:
            entry.unlink()
    if before is not None:
        for left in (directory / before).iterdir():
            left.unlink()
        (directory / before).rmdir()


class TestFiles:
    @pytest.mark.parametrize(
        ("files", "found"),
        [
            pytest.param({"api-key": KEY}, [KEY], id="one key without an end of line"),
            pytest.param({"api-key": KEY + b"\n"}, [KEY], id="with one"),
            pytest.param({"a": b"one\n\n  two \t\r\n\n"}, [b"one", b"two"], id="white space and empty lines"),
            pytest.param({"a": b"one\n", "b": b"two\none\n"}, [b"one", b"two"], id="several files, a key twice"),
            pytest.param({"a": b"\xef\xbb\xbfone\r\ntwo"}, [b"one", b"two"], id="as Windows' Notepad writes it"),
            pytest.param({".hidden": b"one"}, [b"one"], id="a key of the Secret that begins with a dot"),
            pytest.param({"a": b"two words\nk\xc3\xa9y\n\x00\x01\ngood"}, [b"good"], id="lines that nobody could send"),
            pytest.param({"a": b"\xff\xfeo\x00n\x00e\x00"}, [], id="UTF-16"),
            pytest.param({"a": b""}, [], id="an empty file"),
            pytest.param({"a": b" \n\t\n"}, [], id="nothing but white space"),
            pytest.param({}, [], id="no file"),
        ],
    )
    def test_each_line_is_a_key(self, tmp_path: Path, files: dict[str, bytes], found: list[bytes]) -> None:
        mount(tmp_path / "keys", files)
        assert list(keys.read(tmp_path / "keys").keys) == found

    def test_what_the_kubelet_keeps_beside_them_is_no_key(self, tmp_path: Path) -> None:
        mount(tmp_path / "keys", {"a": b"old"})
        mount(tmp_path / "keys", {"a": b"new"})
        (tmp_path / "keys" / "..left_over").write_bytes(b"older")
        assert list(keys.read(tmp_path / "keys").keys) == [b"new"]

    def test_folders_pipes_and_broken_links_are_passed_over(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "broken").symlink_to("nowhere")
        (tmp_path / "good").write_bytes(b"key")
        assert list(keys.read(tmp_path).keys) == [b"key"]

    def test_a_directory_that_is_not_there_cannot_be_read(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match="nowhere"):
            keys.read(tmp_path / "nowhere")

    def test_nor_can_one_file_that_cannot_be_read_be_passed_over(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"one")
        # Root may read everything, but nobody a link that leads to itself.
        (tmp_path / "b").symlink_to("b")
        with pytest.raises(OSError, match="symbolic links"):
            keys.read(tmp_path)

    @given(content=st.binary(max_size=200))
    def test_every_key_can_be_sent_in_a_header(self, content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
        directory = tmp_path_factory.mktemp("keys")
        (directory / "a").write_bytes(content)
        for key in keys.read(directory).keys:
            assert keys.presented([(b"authorization", b"Bearer " + key)]) == key


class TestOwnKey:
    def test_any_of_them_does(self, tmp_path: Path) -> None:
        mount(tmp_path / "keys", {"a": b"two\none\n"})
        assert keys.first_key(tmp_path / "keys") == "one"

    @pytest.mark.parametrize(
        ("files", "said"),
        [
            pytest.param(None, "cannot be read (No such file or directory)", id="no directory"),
            pytest.param({}, "there is no API key in", id="no file"),
            pytest.param({"a": b"my hidden words"}, "1 line(s) with other than visible ASCII", id="no such line"),
        ],
    )
    def test_without_one_it_says_why(self, tmp_path: Path, files: dict[str, bytes] | None, said: str) -> None:
        if files is not None:
            mount(tmp_path / "keys", files)
        with pytest.raises(keys.UnusableKeysError) as raised:
            keys.first_key(tmp_path / "keys")
        assert said in str(raised.value)
        assert str(tmp_path / "keys") in str(raised.value)
        assert "hidden words" not in str(raised.value)


class TestRotation:
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def known(self, tmp_path: Path, clock: Clock) -> keys.KeyDirectory:
        mount(tmp_path / "keys", {"api-key": KEY})
        return keys.KeyDirectory(tmp_path / "keys", clock)

    def test_a_changed_key_counts_after_one_period_and_the_old_one_no_more(
        self, tmp_path: Path, clock: Clock, known: keys.KeyDirectory
    ) -> None:
        assert known.accepts(KEY)
        mount(tmp_path / "keys", {"api-key": OTHER})
        clock.now += POLL
        assert known.accepts(OTHER)
        assert not known.accepts(KEY)

    def test_two_keys_overlap_while_clients_change(
        self, tmp_path: Path, clock: Clock, known: keys.KeyDirectory
    ) -> None:
        mount(tmp_path / "keys", {"api-key": KEY + b"\n" + OTHER})
        assert known.accepts(KEY)
        assert known.accepts(OTHER)

    def test_within_a_period_nothing_is_read(self, tmp_path: Path, clock: Clock, known: keys.KeyDirectory) -> None:
        assert known.accepts(KEY)
        mount(tmp_path / "keys", {"api-key": OTHER})
        clock.now += POLL / 2
        assert known.accepts(KEY)

    def test_the_contents_count_not_times_or_names(
        self, tmp_path: Path, clock: Clock, known: keys.KeyDirectory, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        assert known.accepts(KEY)
        caplog.clear()
        mount(tmp_path / "keys", {"renamed": KEY})
        clock.now += POLL
        assert known.accepts(KEY)
        assert caplog.records == []

    def test_an_empty_directory_lets_nobody_in(
        self, tmp_path: Path, clock: Clock, known: keys.KeyDirectory, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert known.accepts(KEY)
        mount(tmp_path / "keys", {})
        clock.now += POLL
        assert not known.accepts(KEY)
        assert not known.accepts(b"")
        assert "there is no API key" in caplog.text

    def test_one_that_cannot_be_read_leaves_the_last_good_keys(
        self, tmp_path: Path, clock: Clock, known: keys.KeyDirectory, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert known.accepts(KEY)
        os.replace(tmp_path / "keys", tmp_path / "away")
        clock.now += POLL
        assert known.accepts(KEY)
        assert not known.accepts(OTHER)
        assert "cannot be read" in caplog.text
        mount(tmp_path / "keys", {"api-key": OTHER})
        clock.now += POLL
        assert known.accepts(OTHER)
        assert not known.accepts(KEY)

    def test_one_that_could_never_be_read_lets_nobody_in_until_it_can(self, tmp_path: Path, clock: Clock) -> None:
        known = keys.KeyDirectory(tmp_path / "keys", clock)
        assert not known.accepts(KEY)
        mount(tmp_path / "keys", {"api-key": KEY})
        clock.now += POLL
        assert known.accepts(KEY)

    def test_a_lasting_problem_is_logged_once_and_no_key_ever(
        self, tmp_path: Path, clock: Clock, known: keys.KeyDirectory, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG")
        steps: list[dict[str, bytes]] = [{}, {}, {}, {"a": OTHER + b"\nnot a key"}, {"a": OTHER + b"\nnot a key"}, {}]
        for files in steps:
            mount(tmp_path / "keys", files)
            clock.now += POLL
            known.accepts(KEY)
        warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert ["no API key" in text for text in warnings] == [True, False, True]
        for hidden in ("aaaa", "bbbb", "not a key"):
            assert hidden not in caplog.text


class Inner:
    """The application behind the check; it must see nothing that was refused."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        self.seen.append(scope["type"])
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def inner() -> Inner:
    return Inner()


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: Inner) -> keys.KeyCheck:
    mount(tmp_path / "keys", {"api-key": KEY, "more": OTHER + b"\nshort\n"})
    monkeypatch.setenv(engine.KEYS_DIRECTORY_ENV, str(tmp_path / "keys"))
    return keys.KeyCheck(inner)


async def ask(check: keys.KeyCheck, headers: Iterable[asgi.Header] = (), **scope: Any) -> list[asgi.Message]:
    sent: list[asgi.Message] = []

    async def send(message: asgi.Message) -> None:
        sent.append(message)
        await asyncio.sleep(0)

    async def receive() -> asgi.Message:
        raise AssertionError("the body of a request that is refused must not be read")

    request = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": list(headers), **scope}
    await check(request, receive, send)
    return sent


class TestRequests:
    @pytest.mark.parametrize(
        "headers",
        [
            pytest.param(bearer(KEY), id="a key"),
            pytest.param(bearer(OTHER), id="a key of another file"),
            pytest.param(bearer(b"short"), id="its second line"),
            pytest.param([(b"authorization", b"bearer " + KEY)], id="the scheme in lower case"),
            pytest.param([(b"Authorization", b"BEARER   " + KEY + b" ")], id="capitals and white space"),
        ],
    )
    async def test_a_key_opens_the_door(self, check: keys.KeyCheck, inner: Inner, headers: Headers) -> None:
        assert (await ask(check, headers))[0]["status"] == 200
        assert inner.seen == ["http"]

    @pytest.mark.parametrize(
        "headers",
        [
            pytest.param([], id="no header"),
            pytest.param(bearer(b"sk-" + b"c" * 43), id="a wrong key"),
            pytest.param(bearer(b""), id="an empty key"),
            pytest.param([(b"authorization", b"Bearer")], id="nothing after the scheme"),
            pytest.param([(b"authorization", b"")], id="an empty header"),
            pytest.param([(b"authorization", KEY)], id="no scheme"),
            pytest.param([(b"authorization", b"Basic " + KEY)], id="another scheme"),
            pytest.param([(b"authorization", b"Bearer" + KEY)], id="no space"),
            pytest.param([(b"authorization", b"Bearer\t" + KEY)], id="a tab"),
            pytest.param(bearer(KEY[:-1]), id="a key without its end"),
            pytest.param(bearer(KEY + b"a"), id="with more than its end"),
            pytest.param(bearer(KEY.upper()), id="in other letters"),
            pytest.param(bearer(KEY + b"\n" + OTHER), id="two lines"),
            pytest.param(bearer(KEY + b", Bearer " + KEY), id="two in one header"),
            pytest.param(bearer(b'"' + KEY + b'"'), id="in quotes"),
            pytest.param(bearer(KEY.replace(b"-", b"%2d")), id="per cent encoded"),
            pytest.param(bearer(b"\xff\xfe\x00"), id="bytes that are no text"),
            pytest.param(bearer(KEY.decode().encode("utf-16")), id="another encoding"),
            pytest.param([*bearer(), *bearer()], id="the header twice"),
            pytest.param([*bearer(b"wrong"), *bearer()], id="a wrong one and a right one"),
            pytest.param(bearer(b"x" * 100_000), id="a huge header"),
            pytest.param([(b"authorization", b"Bearer " + b" " * 100_000 + KEY)], id="a key behind much white space"),
            pytest.param([(b"x-api-key", KEY), (b"cookie", b"api_key=" + KEY)], id="a key elsewhere"),
            pytest.param([(b"proxy-authorization", b"Bearer " + KEY)], id="a proxy's header"),
        ],
    )
    async def test_anything_else_is_refused(self, check: keys.KeyCheck, inner: Inner, headers: Headers) -> None:
        start, body = await ask(check, headers)
        assert start["status"] == 401
        assert inner.seen == []
        assert KEY not in body["body"]

    async def test_a_refusal_is_an_openai_error(self, check: keys.KeyCheck) -> None:
        start, body = await ask(check)
        given = dict(start["headers"])
        assert given[b"www-authenticate"] == b"Bearer"
        assert given[b"connection"] == b"close", "a body that nobody reads must not be taken for the next request"
        assert int(given[b"content-length"]) == len(body["body"])
        error = json.loads(body["body"])["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"] == "invalid_api_key"

    @pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get", "PROPFIND"])
    @pytest.mark.parametrize(
        "path",
        ["/", "", "/v1/models", "//v1/models", "/V1/models", "/v1/../health", "/health", "/metrics", "/docs", "/livez",
         "/v1/models/", "/v1%2fmodels", "/\x00", "/tokenize", "/ping", "v1/models", "*"],
    )  # fmt: skip
    async def test_no_method_and_no_path_is_exempt(
        self, check: keys.KeyCheck, inner: Inner, method: str, path: str
    ) -> None:
        preflight = [(b"origin", b"https://evil.example.com"), (b"access-control-request-method", b"POST")]
        refused = await ask(check, preflight, method=method, path=path, raw_path=path.encode())
        assert refused[0]["status"] == 401
        assert inner.seen == []

    async def test_a_query_is_no_header(self, check: keys.KeyCheck) -> None:
        query = b"api_key=" + KEY + b"&authorization=Bearer%20" + KEY
        assert (await ask(check, query_string=query))[0]["status"] == 401

    @pytest.mark.parametrize("headers", [pytest.param(None, id="none"), pytest.param([], id="empty")])
    async def test_a_scope_without_headers_is_refused(self, check: keys.KeyCheck, headers: Headers | None) -> None:
        sent: list[asgi.Message] = []

        async def send(message: asgi.Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/"} | ({} if headers is None else {"headers": headers})
        await check(scope, None, send)  # type: ignore[arg-type]
        assert sent[0]["status"] == 401

    async def test_before_there_is_a_key_nobody_gets_in(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: Inner
    ) -> None:
        monkeypatch.setenv(engine.KEYS_DIRECTORY_ENV, str(tmp_path / "nowhere"))
        check = keys.KeyCheck(inner)
        for headers in ([], bearer(), bearer(b""), bearer(b"None")):
            assert (await ask(check, headers))[0]["status"] == 401
        assert inner.seen == []

    async def test_every_key_is_compared_whichever_is_right(
        self, check: keys.KeyCheck, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        compared: list[int] = []
        compare = keys.hmac.compare_digest

        def counting(one: bytes, other: bytes) -> bool:
            compared.append(len(one))
            return compare(one, other)

        monkeypatch.setattr(keys.hmac, "compare_digest", counting)
        for key in (KEY, OTHER, b"short", b"wrong"):
            compared.clear()
            await ask(check, bearer(key))
            assert compared == [32, 32, 32], "the time must not depend on which key it is, or on its length"


class TestOtherProtocols:
    async def test_the_start_of_the_server_passes(self, check: keys.KeyCheck, inner: Inner) -> None:
        await check({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
        assert inner.seen == ["lifespan"]

    async def test_a_websocket_needs_a_key_too(self, check: keys.KeyCheck, inner: Inner) -> None:
        assert await ask(check, bearer(), type="websocket") == []
        assert inner.seen == ["websocket"]

    async def test_one_without_is_closed_before_it_is_accepted(self, check: keys.KeyCheck, inner: Inner) -> None:
        assert await ask(check, type="websocket") == [{"type": "websocket.close", "code": 1008}]
        assert inner.seen == []

    async def test_with_the_same_answer_where_the_server_can(self, check: keys.KeyCheck, inner: Inner) -> None:
        start, body = await ask(check, type="websocket", extensions={"websocket.http.response": {}})
        assert (start["type"], start["status"]) == ("websocket.http.response.start", 401)
        assert (body["type"], inner.seen) == ("websocket.http.response.body", [])

    async def test_a_protocol_that_nobody_knows_does_not_pass(self, check: keys.KeyCheck, inner: Inner) -> None:
        assert await ask(check, type="webtransport") == []
        assert inner.seen == []
