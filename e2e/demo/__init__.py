"""`make demo`: from nothing to a model's answer, with what happens shown while it happens.

All state is in the caches and in the cluster, and each stage makes its own part so, whatever was there
before: it can be ended anywhere, and a second run goes on where the first one stopped.
"""
