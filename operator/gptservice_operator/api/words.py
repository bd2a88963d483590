"""The words that Kubernetes takes for names, keys and quantities, as regular expressions that RE2 and Python agree on.

No ``\\s`` and no ``\\w``: the API server knows only ASCII by them.
"""

from typing import Annotated

from pydantic import Field

from .base import Rule, keys_match, ruled

DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
LABEL_KEY = rf"({DNS_SUBDOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
"""A qualified name: ``name`` or ``domain/name``."""
QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"

Name = Annotated[str, Field(min_length=1, max_length=253, pattern=rf"^{DNS_SUBDOMAIN}$")]
"""Name of an object: a DNS subdomain."""
NamespaceName = Annotated[str, Field(min_length=1, max_length=63, pattern=rf"^{DNS_LABEL}$")]
DataKey = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$")]
"""Key of a Secret or ConfigMap; neither ``.`` nor anything that begins with ``..``."""
LabelKey = Annotated[str, Field(min_length=1, max_length=253, pattern=rf"^{LABEL_KEY}$")]
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]
AnnotationValue = Annotated[str, Field(max_length=2048)]
Quantity = Annotated[str, Field(pattern=QUANTITY_PATTERN, max_length=20)] | Annotated[int, Field(ge=0)]
Int32 = Annotated[int, Field(ge=0, le=2147483647)]

_KEY = (
    "a key must be a name such as team, or one with a domain such as example.com/team: letters, digits, '-', '_', '.'"
)
KEYS: Rule = keys_match(LABEL_KEY, _KEY)
Labels = Annotated[dict[str, LabelValue], Field(max_length=32), *ruled(KEYS)]


def _is_read_by_kubernetes(key: str) -> bool:
    staged = ".alpha.kubernetes.io/" in key or ".beta.kubernetes.io/" in key
    return staged or key.startswith("kubernetes.io/config.") or key == "controller.kubernetes.io/pod-deletion-cost"


_READ_BY_KUBERNETES = Rule(
    "!self.exists(k, k.startsWith('kubernetes.io/config.') || k.contains('.alpha.kubernetes.io/') || "
    "k.contains('.beta.kubernetes.io/') || k == 'controller.kubernetes.io/pod-deletion-cost')",
    "annotations by which Kubernetes itself is told what to do with a pod (seccomp, AppArmor, mirror pods, deletion "
    "cost) cannot be set here: remove them",
    lambda annotations: not any(map(_is_read_by_kubernetes, annotations)),
)
PodAnnotations = Annotated[dict[str, AnnotationValue], Field(max_length=32), *ruled(KEYS, _READ_BY_KUBERNETES)]
