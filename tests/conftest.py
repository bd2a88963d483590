"""How generated examples are run, whichever folder of tests is asked for."""

from hypothesis import HealthCheck, settings

# The machine may be busy: how long an example takes says nothing about the code.
settings.register_profile("suite", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
