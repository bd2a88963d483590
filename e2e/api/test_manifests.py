"""The table of manifests on a real API server: its verdicts are the operator's, and both name the same field."""

from __future__ import annotations

import pytest

from e2e.kube import Kube, KubeError
from tests.operator.api.manifests import BAD, GOOD, Row, names_field

SHARED = "default"
"""Nothing is stored, so that the rows need no namespace of their own."""


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in GOOD.values()])
def test_is_accepted(kube: Kube, access: object, row: Row) -> None:
    assert kube.judge(row.body, SHARED)["spec"] is not None


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in BAD.values()])
def test_is_refused_at_its_field(kube: Kube, access: object, row: Row) -> None:
    with pytest.raises(KubeError) as refused:
        kube.judge(row.body, SHARED)
    field = row.server or row.refused or ""
    if row.by == "strict":
        assert f'unknown field "{field}"' in refused.value.message
    elif refused.value.fields and refused.value.fields != ["<nil>"]:
        # A number that an int32 cannot hold is told twice, the first time without a field.
        assert any(names_field(found, field) for found in refused.value.fields), refused.value.message
    else:
        # A rule on the whole object has no field; what cannot be decoded is told in words.
        assert field in refused.value.message
