"""Names of the GPU metrics that NVIDIA's DCGM exporter has by default.

Recorded from the `etc/default-counters.csv` of dcgm-exporter 4: no test of this project has that exporter and a GPU,
so that one that is renamed there is not noticed here.
"""

LABEL = "gpu"
"""Of each of them: the GPU's number on its node."""

NAMES = frozenset(
    {
        *("DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_GPU_TEMP"),
        *("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"),
        *("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_DEC_UTIL"),
        *("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED"),
        *("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_VGPU_LICENSE_STATUS"),
        *("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"),
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
    }
)
