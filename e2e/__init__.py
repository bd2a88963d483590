"""The test bed: an embedded Kubernetes, instruments, the demo, and the api and node levels of the tests."""
