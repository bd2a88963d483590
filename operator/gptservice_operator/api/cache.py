"""``spec.cache``: where downloaded weights are kept."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .autoscaling import POSITIVE
from .base import SET, ApiModel, Rule, ruled
from .words import Name, Quantity

AccessMode = Literal["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]
_ALONE = Rule(
    "!self.exists(m, m == 'ReadWriteOncePod') || size(self) == 1",
    "ReadWriteOncePod cannot be combined with another access mode",
    lambda modes: "ReadWriteOncePod" not in modes or len(modes) == 1,
)
AccessModes = Annotated[list[AccessMode], Field(min_length=1, max_length=3), *SET, *ruled(_ALONE)]


class Claim(ApiModel):
    """A PersistentVolumeClaim in the service's namespace."""

    claim_name: Name
    """Claim's name; its access mode must suit the number of replicas."""


class Cache(ApiModel):
    """Where downloaded weights are kept; a small volume on the node's disk if absent."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.persistentVolumeClaim) || "
            "!(has(self.size) || has(self.storageClassName) || has(self.accessModes))",
            "persistentVolumeClaim cannot be combined with size, storageClassName or accessModes",
            lambda cache: (
                cache.persistent_volume_claim is None
                or (cache.size is None and cache.storage_class_name is None and cache.access_modes is None)
            ),
        ),
        Rule(
            "has(self.size) || !(has(self.storageClassName) || has(self.accessModes))",
            "storageClassName and accessModes need size",
            lambda cache: cache.size is not None or (cache.storage_class_name is None and cache.access_modes is None),
        ),
    )

    persistent_volume_claim: Claim | None = None
    """A claim that exists already."""
    size: Annotated[Quantity, *ruled(POSITIVE)] | None = None
    """Size of a claim to make. It can grow; a smaller size is a warning."""
    storage_class_name: Name | None = None
    """StorageClass of that claim; the cluster's default if absent."""
    access_modes: AccessModes | None = None
    """Access modes of that claim; ReadWriteOnce if absent, which allows one replica only."""

    @property
    def one_pod_at_a_time(self) -> bool:
        """Whether the claim can be mounted by the pods of one node, or one pod, only."""
        return self.size is not None and "ReadWriteMany" not in (self.access_modes or [])
