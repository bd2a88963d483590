"""The Kubernetes API over a real connection: what is sent, and what becomes of every kind of answer."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port
from prometheus_client import REGISTRY

from gptservice_operator import errors, replies
from gptservice_operator.api import kinds
from gptservice_operator.cluster import PAGE_SIZE, STATUS_MANAGER, Cluster
from tests.operator.builders import Body
from tests.operator.conftest import TOKEN, Kubeconfig, use_kubeconfig

# One server and one connection for all: what differs between tests is the answers.
pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMESPACE = "team-a"
DEPLOYMENT: Body = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "chat", "namespace": NAMESPACE, "labels": {"a": "b"}},
    "spec": {"replicas": 3},
}
LIMIT_SECONDS = 20.0
"""Far above what an answer on the loopback takes."""


@dataclass(frozen=True)
class Answer:
    """What the API server says to one request."""

    body: Any = field(default_factory=dict[str, Any])
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    hangs: bool = False
    """It never comes."""
    breaks: bool = False
    """The connection ends half-way through it."""


@dataclass(frozen=True)
class Request:
    """What arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class ApiServer:
    """Gives the answers of a list one after the other; the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[Answer] = [Answer()]
        self.requests: list[Request] = []
        self.url = ""

    def will(self, *answers: Answer) -> None:
        self.answers = list(answers)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.requests.append(
            Request(
                request.method, request.path, dict(request.query), dict(request.headers), json.loads(text or "null")
            )
        )
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer.hangs:
            await asyncio.sleep(3600)
        if answer.breaks:
            response = web.StreamResponse(headers={"Content-Length": "1000"})
            await response.prepare(request)
            await response.write(b'{"half')
            assert request.transport is not None
            request.transport.abort()
            return response
        body = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
        return web.Response(text=body, status=answer.status, headers=answer.headers, content_type="application/json")

    @property
    def request(self) -> Request:
        """The only request."""
        (request,) = self.requests
        return request


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[ApiServer]:
    server = ApiServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    async with TestServer(app, host="127.0.0.1") as running:
        server.url = str(running.make_url("")).rstrip("/")
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_kubeconfig(monkeypatch, tmp_path_factory.mktemp("cluster"), server.url)
        connected = await Cluster.connect(user_agent="gptservice-operator/test", request_timeout=LIMIT_SECONDS)
    yield connected
    await connected.close()


@pytest.fixture
def api(server: ApiServer) -> ApiServer:
    """The server as a test finds it: no request has come, and every answer is an empty object."""
    server.requests.clear()
    server.will(Answer())
    return server


def status(message: str, **more: Any) -> Body:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, **more}


def item(name: str, **metadata: Any) -> Body:
    return {"metadata": {"name": name, "namespace": NAMESPACE, **metadata}}


async def pages(cluster: Cluster, kind: kinds.Kind, selector: str | None = None) -> list[list[Body]]:
    return [page.items async for page in cluster.list(kind, selector)]


class TestServes:
    """Discovery: what a group and version consists of."""

    @pytest.mark.parametrize(
        ("resources", "served"),
        [
            pytest.param([{"name": "certificates"}, {"name": "issuers"}], True, id="among others"),
            pytest.param([{"name": "issuers"}], False, id="the group without the kind"),
            pytest.param([{"name": "certificates/status"}], False, id="a part of it is not the kind"),
            pytest.param([], False, id="nothing"),
            pytest.param(None, False, id="null"),
        ],
    )
    async def test_a_kind_is_there_if_it_is_listed(
        self, cluster: Cluster, api: ApiServer, resources: list[Body] | None, served: bool
    ) -> None:
        api.will(Answer({"kind": "APIResourceList", "resources": resources}))
        assert await cluster.serves(kinds.CERTIFICATE) is served
        assert (api.request.method, api.request.path) == ("GET", "/apis/cert-manager.io/v1")

    async def test_a_group_that_is_not_there_has_none(self, cluster: Cluster, api: ApiServer) -> None:
        api.will(Answer(status("the server could not find the requested resource"), 404))
        assert not await cluster.serves(kinds.CERTIFICATE)

    async def test_no_answer_is_not_a_no(self, cluster: Cluster, api: ApiServer) -> None:
        api.will(Answer(status("overloaded"), 503))
        with pytest.raises(errors.Transient):
            await cluster.serves(kinds.CERTIFICATE)


class TestWhatIsSent:
    async def test_get(self, cluster: Cluster, api: ApiServer) -> None:
        api.will(Answer(DEPLOYMENT))
        assert await cluster.get(kinds.DEPLOYMENT, NAMESPACE, "chat") == DEPLOYMENT
        assert (api.request.method, api.request.path) == ("GET", "/apis/apps/v1/namespaces/team-a/deployments/chat")
        assert api.request.query == {}

    async def test_every_request_has_the_token_and_our_name(self, cluster: Cluster, api: ApiServer) -> None:
        await cluster.get(kinds.CONFIG_MAP, NAMESPACE, "chat")
        await cluster.apply(DEPLOYMENT, manager="m")
        for request in api.requests:
            assert request.headers["Authorization"] == f"Bearer {TOKEN}"
            assert request.headers["User-Agent"] == "gptservice-operator/test"
            assert request.headers["Accept"] == "application/json"

    async def test_apply_is_a_forced_server_side_apply_of_the_whole_manifest(
        self, cluster: Cluster, api: ApiServer
    ) -> None:
        reply: Body = {**DEPLOYMENT, "status": {}}
        api.will(Answer(reply))
        assert await cluster.apply(DEPLOYMENT, manager="gptservice-operator") == reply
        assert (api.request.method, api.request.path) == ("PATCH", "/apis/apps/v1/namespaces/team-a/deployments/chat")
        assert api.request.query == {"fieldManager": "gptservice-operator", "force": "true"}
        assert api.request.headers["Content-Type"] == "application/apply-patch+yaml; charset=utf-8"
        never = {**DEPLOYMENT["metadata"], "resourceVersion": "1"}
        assert api.request.body == {**DEPLOYMENT, "metadata": never}, "it makes an object and never changes one"

    async def test_apply_with_a_uid_demands_that_very_object(self, cluster: Cluster, api: ApiServer) -> None:
        await cluster.apply(DEPLOYMENT, manager="m", uid="u-1")
        assert api.request.body["metadata"] == {**DEPLOYMENT["metadata"], "uid": "u-1"}
        assert "uid" not in DEPLOYMENT["metadata"], "the caller's manifest must stay as it is"

    async def test_status_goes_to_its_own_subresource_under_its_own_manager(
        self, cluster: Cluster, api: ApiServer
    ) -> None:
        await cluster.apply_status(namespace=NAMESPACE, name="llama-3.1", uid="u-1", status={"phase": "Ready"})
        path = "/apis/ai.example.com/v1/namespaces/team-a/gptservices/llama-3.1/status"
        assert (api.request.method, api.request.path) == ("PATCH", path)
        assert api.request.query == {"fieldManager": STATUS_MANAGER, "force": "true"}
        assert STATUS_MANAGER != "gptservice-operator", "one manager's apply prunes what the other set"
        assert api.request.body == {
            "apiVersion": "ai.example.com/v1",
            "kind": "GPTService",
            "metadata": {"name": "llama-3.1", "namespace": NAMESPACE, "uid": "u-1"},
            "status": {"phase": "Ready"},
        }

    async def test_a_status_that_cannot_be_applied_for_its_object_s_types_is_merged(
        self, cluster: Cluster, api: ApiServer
    ) -> None:
        words = "failed to create typed live object (a/b): .spec.replicas: expected numeric, got string"
        api.will(Answer({"kind": "Status", "message": words}, 500), Answer({"metadata": {"name": "b"}}))
        assert await cluster.apply_status(namespace="a", name="b", uid="u-1", status={"phase": "Pending"})
        refused, merged = api.requests
        assert refused.path == merged.path
        assert merged.headers["Content-Type"].startswith("application/merge-patch+json")
        assert (merged.body["metadata"]["uid"], merged.body["status"]) == ("u-1", {"phase": "Pending"})

    async def test_a_manager_with_odd_characters_is_escaped(self, cluster: Cluster, api: ApiServer) -> None:
        await cluster.apply(DEPLOYMENT, manager="a&b=c d")
        assert api.request.query["fieldManager"] == "a&b=c d"

    async def test_delete_demands_that_very_object(self, cluster: Cluster, api: ApiServer) -> None:
        await cluster.delete(kinds.HPA, NAMESPACE, "chat", "u-1")
        (request,) = api.requests
        assert (request.method, request.path) == (
            "DELETE",
            f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers/chat",
        )
        assert request.body["preconditions"] == {"uid": "u-1"}
        assert request.body["propagationPolicy"] == "Background"
        assert request.headers["Content-Type"].startswith("application/json")

    @pytest.mark.parametrize("status", [404, 409])
    async def test_what_is_gone_already_is_deleted(self, cluster: Cluster, api: ApiServer, status: int) -> None:
        api.will(Answer({"kind": "Status", "message": "no"}, status))
        await cluster.delete(kinds.HPA, NAMESPACE, "chat", "u-1")

    async def test_a_deletion_that_is_refused_is_told(self, cluster: Cluster, api: ApiServer) -> None:
        api.will(Answer({"kind": "Status", "message": "forbidden"}, 403))
        with pytest.raises(errors.Waiting):
            await cluster.delete(kinds.HPA, NAMESPACE, "chat", "u-1")

    async def test_managed_fields_are_set_for_one_version_only(self, cluster: Cluster, api: ApiServer) -> None:
        await cluster.set_managed_fields(kinds.DEPLOYMENT, NAMESPACE, "chat", "17", [{"manager": "m"}])
        (request,) = api.requests
        assert request.method == "PATCH"
        assert request.headers["Content-Type"].startswith("application/merge-patch+json")
        assert request.body == {"metadata": {"resourceVersion": "17", "managedFields": [{"manager": "m"}]}}


SECRET: Body = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "chat-key-0f1e2d3c", "namespace": NAMESPACE},
    "data": {"api-key": "c2sta2V5"},
}


class TestCreate:
    async def test_it_is_a_post_to_the_collection(self, cluster: Cluster, api: ApiServer) -> None:
        api.will(Answer(SECRET, status=201))
        assert await cluster.create(SECRET) is True
        assert (api.request.method, api.request.path) == ("POST", "/api/v1/namespaces/team-a/secrets")
        assert api.request.query == {}
        assert api.request.body == SECRET

    async def test_one_that_is_there_is_as_good(self, cluster: Cluster, api: ApiServer) -> None:
        api.will(Answer(status('secrets "x" already exists', reason="AlreadyExists"), status=409))
        assert await cluster.create(SECRET) is False

    async def test_a_conflict_over_the_quota_s_counter_is_not_taken_for_that(
        self, cluster: Cluster, api: ApiServer
    ) -> None:
        message = 'Operation cannot be fulfilled on resourcequotas "q": the object has been modified'
        api.will(Answer(status(message, reason="Conflict"), status=409))
        with pytest.raises(errors.Transient, match="resourcequotas"):
            await cluster.create(SECRET)

    @pytest.mark.parametrize(
        ("code", "error"),
        [
            pytest.param(403, errors.Waiting, id="forbidden or over quota"),
            pytest.param(404, errors.Absent, id="no such namespace"),
            pytest.param(422, errors.Invalid, id="refused"),
            pytest.param(503, errors.Transient, id="unavailable"),
        ],
    )
    async def test_anything_else_is_a_failure(
        self, cluster: Cluster, api: ApiServer, code: int, error: type[errors.OperatorError]
    ) -> None:
        api.will(Answer(status("no"), status=code))
        with pytest.raises(error):
            await cluster.create(SECRET)


class TestEvents:
    async def test_those_of_one_object_are_listed(self, cluster: Cluster, api: ApiServer) -> None:
        listed = [{"reason": "FailedMount"}, {"reason": "Pulling"}]
        api.will(Answer({"kind": "EventList", "items": listed}))
        assert await cluster.events(NAMESPACE, "u-1") == listed
        assert (api.request.method, api.request.path) == ("GET", "/api/v1/namespaces/team-a/events")
        assert api.request.query == {"fieldSelector": "involvedObject.uid=u-1", "limit": str(PAGE_SIZE)}

    async def test_one_is_made(self, cluster: Cluster, api: ApiServer) -> None:
        api.will(Answer({"kind": "Event"}, status=201))
        event = {"metadata": {"name": "chat.1", "namespace": NAMESPACE}, "reason": "Stopped"}
        assert await cluster.create(event, kinds.EVENT) is True
        assert (api.request.method, api.request.path) == ("POST", "/api/v1/namespaces/team-a/events")
        assert api.request.body == event

    async def test_one_is_counted(self, cluster: Cluster, api: ApiServer) -> None:
        api.will(Answer({"kind": "Event"}))
        await cluster.patch_event(NAMESPACE, "chat.1", {"count": 2})
        assert (api.request.method, api.request.path) == ("PATCH", "/api/v1/namespaces/team-a/events/chat.1")
        assert api.request.headers["Content-Type"] == "application/merge-patch+json"
        assert api.request.body == {"count": 2}

    async def test_none_are_none(self, cluster: Cluster, api: ApiServer) -> None:
        api.will(Answer({"kind": "EventList", "items": None}))
        assert await cluster.events(NAMESPACE, "u-1") == []


class TestList:
    async def test_pages_are_followed_to_the_end_with_the_same_selector(self, cluster: Cluster, api: ApiServer) -> None:
        api.will(
            Answer({"metadata": {"continue": "t/1="}, "items": [item("a"), item("b")]}),
            Answer({"metadata": {"continue": "t/2="}, "items": []}),
            Answer({"metadata": {"continue": ""}, "items": [item("c")]}),
        )
        listed = await pages(cluster, kinds.POD, "app=x,y=z")
        assert [[body["metadata"]["name"] for body in page] for page in listed] == [["a", "b"], [], ["c"]]
        assert [request.path for request in api.requests] == ["/api/v1/pods"] * 3
        assert [request.query.get("continue") for request in api.requests] == [None, "t/1=", "t/2="]
        for request in api.requests:
            assert request.query["labelSelector"] == "app=x,y=z"
            assert request.query["limit"] == str(PAGE_SIZE)

    async def test_without_a_selector_none_is_sent(self, cluster: Cluster, api: ApiServer) -> None:
        api.will(Answer({"metadata": {}, "items": []}))
        assert await pages(cluster, kinds.GPT_SERVICE) == [[]]
        assert api.request.path == "/apis/ai.example.com/v1/gptservices"
        assert "labelSelector" not in api.request.query

    async def test_items_get_the_kind_that_a_built_in_list_leaves_out(self, cluster: Cluster, api: ApiServer) -> None:
        api.will(Answer({"kind": "DeploymentList", "metadata": {}, "items": [item("a")]}))
        ((body,),) = await pages(cluster, kinds.DEPLOYMENT)
        assert (body["apiVersion"], body["kind"]) == ("apps/v1", "Deployment")

    async def test_a_view_that_expired_half_way_is_transient(self, cluster: Cluster, api: ApiServer) -> None:
        expired = status("The provided continue parameter is too old", reason="Expired", code=410)
        api.will(Answer({"metadata": {"continue": "t"}, "items": [item("a")]}), Answer(expired, status=410))
        with pytest.raises(errors.Transient, match="too old"):
            await pages(cluster, kinds.POD)

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param({"kind": "Status"}, id="an object that is no list"),
            pytest.param({"metadata": {}, "items": None}, id="null for items"),
        ],
    )
    async def test_a_reply_that_is_no_list_is_transient(self, cluster: Cluster, api: ApiServer, body: Body) -> None:
        api.will(Answer(body))
        with pytest.raises(errors.Transient):
            await pages(cluster, kinds.POD)


ANSWERS = [
    pytest.param(400, errors.Invalid, id="400 bad request"),
    pytest.param(401, errors.Waiting, id="401 not logged in"),
    pytest.param(403, errors.Forbidden, id="403 forbidden"),
    pytest.param(404, errors.Absent, id="404 not found"),
    pytest.param(408, errors.Transient, id="408 time-out"),
    pytest.param(409, errors.Conflict, id="409 another UID"),
    pytest.param(410, errors.Transient, id="410 gone"),
    pytest.param(413, errors.Invalid, id="413 too large"),
    pytest.param(415, errors.Transient, id="415 a media type it does not know"),
    pytest.param(422, errors.Invalid, id="422 refused by validation"),
    pytest.param(429, errors.Transient, id="429 too many requests"),
    pytest.param(500, errors.Transient, id="500"),
    pytest.param(502, errors.Transient, id="502 a proxy"),
    pytest.param(503, errors.Transient, id="503 unavailable"),
    pytest.param(504, errors.Transient, id="504 a proxy's time-out"),
]


@pytest.mark.parametrize(("code", "error"), ANSWERS)
async def test_every_answer_becomes_one_kind_of_error(
    cluster: Cluster, api: ApiServer, code: int, error: type[errors.OperatorError]
) -> None:
    api.will(Answer(status('deployments.apps "chat": so it is'), status=code))
    with pytest.raises(error, match=r'apply Deployment: deployments\.apps "chat": so it is') as raised:
        await cluster.apply(DEPLOYMENT, manager="m")
    assert type(raised.value) is error


@pytest.mark.parametrize("code", [400, 403, 404, 409, 422, 500])
@pytest.mark.parametrize(
    "message",
    [
        'admission webhook "validate.policies.example.com" denied the request: registry is not allowed',
        """deployments.apps "chat" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no""",
    ],
)
async def test_a_policy_that_refuses_is_waited_for_whatever_status_it_chose(
    cluster: Cluster, api: ApiServer, code: int, message: str
) -> None:
    api.will(Answer(status(message), status=code))
    with pytest.raises(errors.Waiting):
        await cluster.apply(DEPLOYMENT, manager="m")


async def test_a_get_of_what_is_not_there_is_none(cluster: Cluster, api: ApiServer) -> None:
    api.will(Answer(status("not found"), status=404))
    assert await cluster.get(kinds.SERVICE, NAMESPACE, "chat") is None


async def test_a_namespace_that_is_being_deleted_counts_as_absent(cluster: Cluster, api: ApiServer) -> None:
    cause = {"reason": "NamespaceTerminating", "message": "namespace team-a is being terminated", "field": "metadata"}
    api.will(Answer(status("forbidden: unable to create new content", details={"causes": [cause]}), status=403))
    with pytest.raises(errors.Absent):
        await cluster.apply(DEPLOYMENT, manager="m")


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        pytest.param("create not allowed while custom resource definition is terminating", errors.Absent, id="going"),
        pytest.param("User cannot patch resource", errors.Waiting, id="not granted"),
    ],
)
async def test_a_kind_that_is_being_deleted_counts_as_absent(
    cluster: Cluster, api: ApiServer, message: str, kind: type[errors.OperatorError]
) -> None:
    api.will(Answer(status(f'certificates.cert-manager.io "chat" is forbidden: {message}'), status=403))
    with pytest.raises(kind):
        await cluster.apply(DEPLOYMENT, manager="m")


@pytest.mark.parametrize("code", [429, 500, 503])
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        pytest.param({"Retry-After": "7"}, 7.0, id="seconds"),
        pytest.param({}, None, id="none"),
        pytest.param({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, None, id="a date, which it never sends"),
        pytest.param({"Retry-After": ""}, None, id="empty"),
    ],
)
async def test_the_server_s_wish_is_kept(
    cluster: Cluster, api: ApiServer, code: int, header: dict[str, str], seconds: float | None
) -> None:
    api.will(Answer(status("later"), status=code, headers=header))
    with pytest.raises(errors.Transient) as raised:
        await cluster.get(kinds.POD, NAMESPACE, "p")
    assert raised.value.retry_after == seconds
    assert len(api.requests) == 1, "the queue retries, not the client"


async def test_a_conflict_with_a_wish_to_retry_stays_a_conflict(cluster: Cluster, api: ApiServer) -> None:
    api.will(Answer(status("Precondition failed"), status=409, headers={"Retry-After": "1"}))
    with pytest.raises(errors.Conflict):
        await cluster.apply(DEPLOYMENT, manager="m", uid="u-1")
    assert len(api.requests) == 1


NO_OBJECTS = [
    pytest.param("<html>Welcome to the hotel</html>", id="no JSON"),
    pytest.param("", id="nothing"),
    pytest.param("[]", id="a list"),
    pytest.param("null", id="null"),
    pytest.param('"text"', id="a text"),
    pytest.param('{"half', id="half of an object"),
]


@pytest.mark.parametrize("text", NO_OBJECTS)
async def test_a_good_answer_that_is_no_object_is_transient(cluster: Cluster, api: ApiServer, text: str) -> None:
    api.will(Answer(text))
    with pytest.raises(errors.Transient):
        await cluster.get(kinds.SERVICE, NAMESPACE, "chat")


@pytest.mark.parametrize("text", NO_OBJECTS)
@pytest.mark.parametrize(("code", "error"), [(503, errors.Transient), (403, errors.Waiting)])
async def test_a_bad_answer_that_is_no_object_is_judged_by_its_code(
    cluster: Cluster, api: ApiServer, text: str, code: int, error: type[errors.OperatorError]
) -> None:
    api.will(Answer(text, status=code))
    with pytest.raises(error, match=str(code)):
        await cluster.apply(DEPLOYMENT, manager="m")


async def test_an_answer_that_does_not_come_is_transient(api: ApiServer, kubeconfig: Kubeconfig) -> None:
    kubeconfig(api.url)
    cluster = await Cluster.connect(user_agent="x", request_timeout=0.05)
    api.will(Answer(hangs=True))
    with pytest.raises(errors.Transient, match="did not answer"):
        await cluster.get(kinds.POD, NAMESPACE, "p")
    await cluster.close()


async def test_an_answer_that_breaks_off_is_transient(cluster: Cluster, api: ApiServer) -> None:
    api.will(Answer(breaks=True))
    with pytest.raises(errors.Transient):
        await cluster.get(kinds.POD, NAMESPACE, "p")


async def test_nobody_listening_is_transient(kubeconfig: Kubeconfig) -> None:
    kubeconfig(f"http://127.0.0.1:{unused_port()}")
    cluster = await Cluster.connect(user_agent="x", request_timeout=LIMIT_SECONDS)
    with pytest.raises(errors.Transient, match="did not answer"):
        await cluster.apply(DEPLOYMENT, manager="m")
    await cluster.close()


async def test_the_environments_proxy_is_on_the_way(
    api: ApiServer, kubeconfig: Kubeconfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig("http://cluster.example.com")
    monkeypatch.setenv("http_proxy", api.url)
    cluster = await Cluster.connect(user_agent="x", request_timeout=LIMIT_SECONDS)
    await cluster.get(kinds.POD, NAMESPACE, "p")
    assert api.request.headers["Host"] == "cluster.example.com"
    await cluster.close()


async def test_a_server_that_the_environment_excepts_is_reached_without_the_proxy(
    api: ApiServer, kubeconfig: Kubeconfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig(api.url)
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{unused_port()}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    cluster = await Cluster.connect(user_agent="x", request_timeout=LIMIT_SECONDS)
    await cluster.get(kinds.POD, NAMESPACE, "p")
    assert api.request.path.endswith("/p")
    await cluster.close()


async def test_what_netrc_says_of_the_server_is_not_sent_to_it(
    api: ApiServer, kubeconfig: Kubeconfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    kubeconfig(api.url)
    cluster = await Cluster.connect(user_agent="x", request_timeout=LIMIT_SECONDS)
    await cluster.get(kinds.POD, NAMESPACE, "p")
    assert "Basic" not in api.request.headers.get("Authorization", "")
    await cluster.close()


async def test_without_access_to_a_cluster_it_says_what_it_looked_for(kubeconfig: Kubeconfig) -> None:
    kubeconfig("http://127.0.0.1:1").unlink()
    with pytest.raises(errors.Waiting, match="no access to a cluster: no service account, and KUBECONFIG"):
        await Cluster.connect(user_agent="x", request_timeout=1)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        pytest.param("plain", '"plain"', id="ASCII"),
        pytest.param("\U0001f642", '"\U0001f642"', id="an emoji goes as it is: YAML has no surrogate pairs"),
        pytest.param("\x7f\x85\u2028", '"\\u007f\\u0085\\u2028"', id="control characters are escaped"),
        pytest.param("\\ud83d", '"\\\\ud83d"', id="what only looks like an escape stays"),
    ],
)
async def test_an_apply_is_json_that_a_yaml_parser_reads(text: str, sent: str) -> None:
    text_sent = replies.encoded({"a": text})
    assert text_sent == f'{{"a":{sent}}}'
    assert json.loads(text_sent) == yaml.safe_load(text_sent) == {"a": text}


class TestCounting:
    """Requests are counted by verb, kind and answer, those without an answer too."""

    @staticmethod
    def counted(verb: str, kind: str, code: str) -> float:
        labels = {"verb": verb, "kind": kind, "code": code}
        return REGISTRY.get_sample_value("gptservice_operator_api_requests_total", labels) or 0.0

    @pytest.mark.parametrize(
        ("answer", "code"),
        [
            pytest.param(Answer(), "200", id="a good answer"),
            pytest.param(Answer(status("later"), status=503), "503", id="a bad one"),
            pytest.param(Answer(breaks=True), "error", id="half of one"),
        ],
    )
    async def test_each_is_counted_once(self, cluster: Cluster, api: ApiServer, answer: Answer, code: str) -> None:
        before = self.counted("apply", "Deployment", code)
        api.will(answer)
        with contextlib.suppress(errors.OperatorError):
            await cluster.apply(DEPLOYMENT, manager="m")
        assert self.counted("apply", "Deployment", code) == before + 1

    async def test_a_page_is_one_request(self, cluster: Cluster, api: ApiServer) -> None:
        before = self.counted("list", "Pod", "200")
        api.will(Answer({"metadata": {"continue": "t"}, "items": []}), Answer({"metadata": {}, "items": []}))
        await pages(cluster, kinds.POD)
        assert self.counted("list", "Pod", "200") == before + 2
