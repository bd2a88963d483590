"""Images for the embedded cluster, built without a registry, and how they get into containerd.

`catalogue.archive(name)` is an image as an OCI archive; `seed.seed()` is a containerd root with all of them,
which every new cluster clones; `load.load_image` brings a rebuilt one into a running cluster. All of it is
kept in the cache under keys made of the inputs, so what has not changed is not built again.
"""
