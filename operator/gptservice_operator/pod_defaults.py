"""What every pod gets beside what its service says of it: from its GPUs, and from the configuration."""

from .api.scheduling import Scheduling, Toleration
from .render.resolved import ResolvedGpu


def scheduling(own: Scheduling | None, gpu: ResolvedGpu) -> Scheduling:
    """Return where pods may run.

    Args:
        own: what the service says.
        gpu: of one replica.
    """
    chosen = own or Scheduling()
    tolerated = dict.fromkeys([*(chosen.tolerations or ()), *_gpu_taint(gpu)])
    return chosen.model_copy(update={"tolerations": list(tolerated) or None})


def _gpu_taint(gpu: ResolvedGpu) -> tuple[Toleration, ...]:
    """GPU nodes are often tainted by their resource's name, to keep away who wants no GPU: who asks for it is meant.

    Kubernetes' admission plugin ExtendedResourceToleration adds the very same, where a cluster has it on.
    """
    if gpu.count == 0:
        return ()
    return (Toleration(key=gpu.resource_name, operator="Exists", effect="NoSchedule"),)
