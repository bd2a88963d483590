"""A stand-in for a model hub: Hugging Face's HTTP API over folders, with the faults of networks and hubs."""
