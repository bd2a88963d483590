"""The GPTService operator: from a five-line object to a served language model."""

from importlib import metadata

__version__ = metadata.version("gptservice")
