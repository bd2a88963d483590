"""Tests on a real kubelet: the operator in its own image, installed by Helm, and pods that answer.

Most run the stand-in engine, which keeps the runtime contract and starts in seconds; those marked `vllm` run the real
one with a small model.
"""
