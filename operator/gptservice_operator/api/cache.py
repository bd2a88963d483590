"""``spec.cache``: where downloaded weights are kept."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from .base import SET, ApiModel, Name, Quantity, cel, rules

AccessMode = Literal["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]
_EITHER = "persistentVolumeClaim cannot be combined with size, storageClassName or accessModes"
_SIZE = "storageClassName and accessModes need size"
_MODES: dict[str, Any] = SET


class Claim(ApiModel):
    """A PersistentVolumeClaim in the service's namespace."""

    claim_name: Name
    """Claim's name; its access mode must suit the number of replicas."""


class Cache(ApiModel):
    """Where downloaded weights are kept; a size-limited emptyDir if absent."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            cel(
                "!has(self.persistentVolumeClaim) || "
                "!(has(self.size) || has(self.storageClassName) || has(self.accessModes))",
                _EITHER,
            ),
            cel("has(self.size) || !(has(self.storageClassName) || has(self.accessModes))", _SIZE),
        )
    )

    persistent_volume_claim: Claim | None = None
    """A claim that exists already."""
    size: Quantity | None = None
    """Size of a claim to make. It can grow; a smaller size is a warning."""
    storage_class_name: Name | None = None
    """StorageClass of that claim; the cluster's default if absent."""
    access_modes: Annotated[list[AccessMode], Field(min_length=1, max_length=3, json_schema_extra=_MODES)] | None = None
    """Access modes of that claim; ReadWriteOnce if absent, which allows one replica only."""

    @property
    def one_pod_at_a_time(self) -> bool:
        """Whether the claim can be mounted by the pods of one node, or one pod, only."""
        return self.size is not None and "ReadWriteMany" not in (self.access_modes or [])

    @model_validator(mode="after")
    def _one_kind(self) -> "Cache":
        described = (self.size, self.storage_class_name, self.access_modes)
        if self.persistent_volume_claim is not None and any(value is not None for value in described):
            raise ValueError(_EITHER)
        if self.size is None and any(value is not None for value in described):
            raise ValueError(_SIZE)
        return self
