"""What every model of the API shares: strict types, camelCase names, docstrings as descriptions."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """A frozen part of an object, parsed as strictly as the API server does.

    Unknown fields are ignored, so that an operator meets objects of a newer CRD without failing.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        strict=True,
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
    )


def cel(rule: str, message: str, *, field_path: str | None = None) -> dict[str, str]:
    """Return one ``x-kubernetes-validations`` entry."""
    entry = {"rule": rule, "message": message}
    return entry if field_path is None else {**entry, "fieldPath": field_path}


def rules(*entries: dict[str, str], **extra: Any) -> dict[str, Any]:
    """Return the ``json_schema_extra`` that carries CEL rules and further schema keys."""
    return {"x-kubernetes-validations": list(entries), **extra}


def list_map(*keys: str) -> dict[str, Any]:
    """Return the schema keys of a list that server-side apply merges by ``keys``."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


SET: dict[str, Any] = {"x-kubernetes-list-type": "set"}

QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
Quantity = Annotated[str, Field(pattern=QUANTITY_PATTERN, max_length=20)] | Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]
LabelKey = Annotated[str, Field(min_length=1, max_length=316)]
Int32 = Annotated[int, Field(ge=0, le=2147483647)]
