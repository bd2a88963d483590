"""Real servers of models on the loopback (S3, Google Cloud Storage, an OCI registry, a web server), and a gate before
each with the faults of networks: the same for all, and the same as those of the stand-in hub.
"""
