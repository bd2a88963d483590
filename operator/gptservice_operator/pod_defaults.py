"""What every pod gets beside what its service says of it: from its GPUs, and from the configuration."""

from collections.abc import Sequence

from .api.access import SecretRef
from .api.engine import Engine
from .api.scheduling import Scheduling, Toleration
from .config import Config
from .render.resolved import ResolvedGpu


def image(own: Engine | None, gpu: ResolvedGpu, config: Config) -> str:
    """Return the runtime image: the service's own, else the configuration's for what its replicas run on."""
    of_device = config.runtime_cpu_image if gpu.count == 0 else ""
    return (own is not None and own.image) or of_device or config.runtime_image


def pull_secrets(own: Sequence[SecretRef] | None, config: Config) -> tuple[str, ...]:
    """Return the names of the Secrets that the image is pulled with: a service's own list, an empty one too, wins."""
    return config.runtime_image_pull_secrets if own is None else tuple(secret.name for secret in own)


def scheduling(own: Scheduling | None, gpu: ResolvedGpu, config: Config) -> Scheduling:
    """Return where pods may run: each field is the service's, else the configuration's; tolerations add up.

    Args:
        own: what the service says; a field that is there and empty is said, too.
        gpu: of one replica.
        config: the operator's configuration.
    """
    own, defaults = own or Scheduling(), config.runtime_scheduling
    said = {name: value for name in Scheduling.model_fields if (value := getattr(own, name)) is not None}
    listed = [*(own.tolerations or ()), *(defaults.tolerations or ()), *_gpu_taint(gpu)]
    return defaults.model_copy(update={**said, "tolerations": list(dict.fromkeys(listed)) or None})


def _gpu_taint(gpu: ResolvedGpu) -> tuple[Toleration, ...]:
    """GPU nodes are often tainted by their resource's name, to keep away who wants no GPU: who asks for it is meant.

    Kubernetes' admission plugin ExtendedResourceToleration adds the very same, where a cluster has it on.
    """
    if gpu.count == 0:
        return ()
    return (Toleration(key=gpu.resource_name, operator="Exists", effect="NoSchedule"),)
