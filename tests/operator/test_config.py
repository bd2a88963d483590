"""Settings from the environment, and what is said of one that cannot be used."""

import dataclasses
from typing import Any

import pytest

from gptservice_operator import config
from gptservice_operator.api.scheduling import Scheduling
from gptservice_operator.config import Config, ConfigError

PRIORITY = Scheduling.model_validate({"priorityClassName": "x"})
IMAGE = {"GPTSERVICE_RUNTIME_IMAGE": "runtime:1"}


def load(**variables: str) -> Config:
    return config.load({**IMAGE, **{f"GPTSERVICE_{name}": value for name, value in variables.items()}})


def test_the_image_is_all_that_must_be_set() -> None:
    settings = config.load(IMAGE)
    assert settings == Config(runtime_image="runtime:1")
    assert (settings.runtime_image_pull_policy, settings.runtime_cpu, settings.runtime_memory) == (
        "IfNotPresent", "1", "8Gi",
    )  # fmt: skip
    assert settings.fs_group == 65532
    assert (settings.resync_seconds, settings.status_interval_seconds) == (600, 1)
    assert (settings.health_port, settings.metrics_port) == (8080, 9090)


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        pytest.param("RUNTIME_IMAGE_PULL_POLICY", "Always", "Always", id="pull policy"),
        pytest.param("RUNTIME_CPU_IMAGE", "cpu:1", "cpu:1", id="another image without GPUs"),
        pytest.param("RUNTIME_IMAGE_PULL_SECRETS", "hub.io,mirror", ("hub.io", "mirror"), id="pull secrets"),
        pytest.param("RUNTIME_HTTPS_PROXY", "http://proxy:3128", "http://proxy:3128", id="a proxy"),
        pytest.param("RUNTIME_NO_PROXY", ".example.com, 10.0.0.7", (".example.com", "10.0.0.7"), id="around it"),
        pytest.param("RUNTIME_CPU", "500m", "500m", id="a quantity"),
        pytest.param("RUNTIME_CACHE_SIZE", "20Gi", "20Gi", id="a size"),
        pytest.param("HUB_ENDPOINT", "http://hub:8080/hf", "http://hub:8080/hf", id="a hub"),
        pytest.param("NAMESPACE", "platform", "platform", id="the operator's namespace"),
        pytest.param("FS_GROUP", "1000", 1000, id="a group"),
        pytest.param("FS_GROUP", "", None, id="no group: the platform's"),
        pytest.param("FS_GROUP", "0", 0, id="root's group"),
        pytest.param("RESYNC_SECONDS", "0.5", 0.5, id="a fraction of a second"),
        pytest.param("STATUS_INTERVAL_SECONDS", "0", 0.0, id="no interval"),
        pytest.param("STABLE_SECONDS", "2.5", 2.5, id="a period"),
        pytest.param("WORKERS", "4", 4, id="workers"),
        pytest.param("HEALTH_PORT", "0", 0, id="a port switched off"),
        pytest.param("LOG_LEVEL", "debug", "debug", id="a level in lower case"),
        pytest.param("LOG_FORMAT", "json", "json", id="a format"),
        pytest.param("NAMESPACES", "team-a, team-b,", ("team-a", "team-b"), id="namespaces"),
        pytest.param("NAMESPACES", "", (), id="all namespaces"),
        pytest.param("CATALOGUE", "False", False, id="a switch"),
        pytest.param("LEASE_SECONDS", "0", 0, id="no election"),
        pytest.param("RUNTIME_SCHEDULING", '{"priorityClassName":"x"}', PRIORITY, id="where pods run"),
    ],
)
def test_a_setting_is_read(variable: str, text: str, value: Any) -> None:
    assert getattr(load(**{variable: text}), variable.lower()) == value


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        pytest.param("WORKERS", "many", id="no number"),
        pytest.param("NAMESPACES", "team-a,Team B", id="no namespace"),
        pytest.param("CATALOGUE", "no", id="neither true nor false"),
        pytest.param("LEASE_SECONDS", "2", id="a lease that one slow request loses"),
        pytest.param("LOG_FORMAT", "yaml", id="no format"),
        pytest.param("HUB_ENDPOINT", "hub.example.com", id="no URL"),
        pytest.param("RUNTIME_CACHE_SIZE", "large", id="no size"),
        pytest.param("WORKERS", "1.5", id="no whole number"),
        pytest.param("WORKERS", "", id="empty"),
        pytest.param("WORKERS", "0", id="no worker"),
        pytest.param("RESYNC_SECONDS", "10m", id="a duration with a unit"),
        pytest.param("RESYNC_SECONDS", "0", id="no period"),
        pytest.param("RESYNC_SECONDS", "-1", id="a negative period"),
        pytest.param("RESYNC_SECONDS", "nan", id="not a number at all"),
        pytest.param("RESYNC_SECONDS", "inf", id="for ever"),
        pytest.param("BACKOFF_MAX_SECONDS", "x", id="back-off"),
        pytest.param("FS_GROUP", "staff", id="a group's name"),
        pytest.param("FS_GROUP", "-1", id="a negative group"),
        pytest.param("HEALTH_PORT", "http", id="a port's name"),
        pytest.param("METRICS_PORT", "-1", id="a negative port"),
        pytest.param("LOG_LEVEL", "LOUD", id="no such log level"),
        pytest.param("RUNTIME_IMAGE_PULL_POLICY", "Sometimes", id="no such pull policy"),
        pytest.param("NAMESPACE", "", id="no namespace"),
        pytest.param("NAMESPACE", "Platform", id="a namespace that cannot be"),
        pytest.param("RUNTIME_CPU", "many", id="no quantity"),
        pytest.param("RUNTIME_MEMORY", "8 GB", id="no quantity either"),
        pytest.param("RUNTIME_IMAGE_PULL_SECRETS", "My_Secret", id="no name of a Secret"),
        pytest.param("RUNTIME_CA_BUNDLE", "no certificate", id="no certificate"),
        pytest.param("RUNTIME_HTTP_PROXY", "proxy:3128", id="a proxy without a scheme"),
        pytest.param("RUNTIME_HTTPS_PROXY", "http://user:password@proxy", id="a proxy with a password"),
        pytest.param("RUNTIME_NO_PROXY", "10.0.0.0/8", id="a network, which not every library knows"),
        pytest.param("RUNTIME_NO_PROXY", "*.example.com", id="a star, which none knows"),
        pytest.param("RUNTIME_SCHEDULING", "zone: a", id="no JSON"),
        pytest.param("RUNTIME_SCHEDULING", '{"nodeSelektor":{}}', id="no such field"),
    ],
)
def test_an_unusable_value_is_refused_by_its_name(variable: str, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^GPTSERVICE_{variable}"):
        load(**{variable: text})


def test_of_more_than_a_word_the_chart_s_value_and_the_field_are_named() -> None:
    with pytest.raises(ConfigError) as refused:
        load(RUNTIME_SCHEDULING='{"tolerations": [{"key": "a", "operator": "Is"}]}')
    assert str(refused.value).startswith("GPTSERVICE_RUNTIME_SCHEDULING: runtime.scheduling.tolerations[0].operator: ")
    assert str(refused.value).endswith("; correct it in the chart's values")


@pytest.mark.parametrize(
    "environment", [pytest.param({}, id="unset"), pytest.param({"GPTSERVICE_RUNTIME_IMAGE": ""}, id="empty")]
)
def test_a_missing_image_is_named(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="GPTSERVICE_RUNTIME_IMAGE is not set"):
        config.load(environment)


def test_the_process_s_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPTSERVICE_RUNTIME_IMAGE", "runtime:2")
    monkeypatch.setenv("GPTSERVICE_WORKERS", "3")
    settings = config.load()
    assert (settings.runtime_image, settings.workers) == ("runtime:2", 3)


def test_other_variables_are_none_of_ours() -> None:
    assert config.load({**IMAGE, "WORKERS": "x", "GPTSERVICE_UNHEARD_OF": "x"}) == Config(runtime_image="runtime:1")


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.load(IMAGE).workers = 1  # type: ignore[misc]
