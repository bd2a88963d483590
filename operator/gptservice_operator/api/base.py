"""What every model of the API shares: strict types, camelCase names, docstrings as descriptions, rules."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, twice: as CEL for the API server, and in Python, since the CRD of a cluster may be older than that."""

    cel: str
    """CEL over ``self``."""
    message: str
    """What is wrong and what to do, as both say it."""
    holds: Callable[[Any], bool]
    """The same over the model, or over the field's value."""
    told: Callable[[Any], str] | None = None
    """The message with the values, which CEL cannot give: turning a number into text has no bounded cost."""
    spares: str | None = None
    """CEL over ``self`` and ``old``, the object as it is stored: whether it broke the rule in this way already. Without
    it, an object that was stored before there was such a rule on its spec could not be edited any more. It may well be
    stored: the operator says what is wrong with it."""

    def schema(self) -> dict[str, Any]:
        """Return the ``x-kubernetes-validations`` entry."""
        if self.spares is None:
            return {"rule": self.cel, "message": self.message}
        rule = f"{self.cel} || oldSelf.optMap(old, {self.spares}).orValue(false)"
        return {"rule": rule, "message": self.message, "optionalOldSelf": True}

    def check(self, value: Any) -> Any:
        """Return the value.

        Raises:
            ValueError: it breaks the rule.
        """
        if not self.holds(value):
            raise ValueError(self.message if self.told is None else self.told(value))
        return value


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

    rules: ClassVar[tuple[Rule, ...]] = ()
    """Rules that concern more than one field."""

    @model_validator(mode="after")
    def _keep_rules(self) -> "ApiModel":
        for rule in self.rules:
            rule.check(self)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema: dict[str, Any] = handler.resolve_ref_schema(handler(core_schema))
        if cls.rules:
            schema["x-kubernetes-validations"] = [rule.schema() for rule in cls.rules]
        return schema


def ruled(*rules: Rule, **extra: Any) -> tuple[Any, ...]:
    """Return the annotations that put rules, and further schema keys, on one field."""
    schema: dict[str, Any] = {
        **extra,
        **({"x-kubernetes-validations": [rule.schema() for rule in rules]} if rules else {}),
    }
    return (Field(json_schema_extra=schema), *(AfterValidator(rule.check) for rule in rules))


def keys_match(pattern: str, message: str, *, longest: int = 253) -> Rule:
    """Return the rule on a map that its keys match a regular expression."""
    compiled = re.compile(pattern)

    def holds(value: dict[str, Any]) -> bool:
        return all(len(key) <= longest and compiled.fullmatch(key) for key in value)

    return Rule(f"self.all(k, size(k) <= {longest} && k.matches(r'^{pattern}$'))", message, holds)


def list_map(*keys: str) -> tuple[Any, ...]:
    """Return the annotations of a list that server-side apply merges by ``keys``, which must then differ."""

    def unlike(items: list[Any]) -> list[Any]:
        seen = [tuple(item.model_dump(by_alias=True)[key] for key in keys) for item in items]
        return _unlike(items, seen, " and ".join(keys))

    schema: dict[str, Any] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    return (Field(json_schema_extra=schema), AfterValidator(unlike))


def _unlike(items: list[Any], identities: list[Any], what: str) -> list[Any]:
    if len(set(identities)) != len(identities):
        raise ValueError(f"no two items may have the same {what}")
    return items


def _set(items: list[Any]) -> list[Any]:
    return _unlike(items, items, "value")


SET: tuple[Any, ...] = (Field(json_schema_extra={"x-kubernetes-list-type": "set"}), AfterValidator(_set))
"""Annotations of a list whose items must differ."""
ATOMIC: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}
