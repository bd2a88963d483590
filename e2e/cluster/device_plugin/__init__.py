"""A device plugin for devices that do not exist, speaking the kubelet's real gRPC API.

`python -m e2e.cluster.device_plugin --socket-dir DIR --resource nvidia.com/gpu --count 4 --control FILE`: GPU
requests of pods then go through the scheduler and the kubelet's device manager as they would with NVIDIA's
plugin.
"""
