"""A stand-in for `vllm serve`: the same command line and HTTP API, no model. See e2e/standin/README.md."""
