"""The pods' own account."""

import pytest

from gptservice_operator.render.service_account import render_service_account
from tests.operator import builders


@pytest.mark.parametrize("name", ["chat", "default", "llama-3.1-8b", "a" * 63])
def test_no_service_s_account_is_the_namespace_s_own(name: str) -> None:
    manifest = render_service_account(builders.resolved({"model": "pvc://models/m"}, name=name))
    assert manifest is not None
    assert manifest["metadata"]["name"] != "default"
    assert manifest["metadata"]["name"].endswith("-pods")


def test_it_gives_no_token() -> None:
    manifest = render_service_account(builders.resolved())
    assert manifest is not None
    assert manifest["automountServiceAccountToken"] is False


@pytest.mark.parametrize("named", ["serving", "default", "chat-pods"])
def test_none_is_made_where_the_user_names_one(named: str) -> None:
    """Not even one of the same name: it is the user's, who may have made it already."""
    assert render_service_account(builders.resolved({"model": "pvc://m/x", "serviceAccountName": named})) is None
