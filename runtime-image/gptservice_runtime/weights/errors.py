"""What can be wrong with encrypted weights; every text says what, where and what to do, and never what a key is."""


class WeightsError(Exception):
    """The weights cannot be encrypted, decrypted or verified."""


class UnusableKeyError(WeightsError):
    """A file that should hold keys does not."""


class RefusedError(WeightsError):
    """What is there is not what was encrypted: another key, another file, a changed byte, or nothing encrypted."""
