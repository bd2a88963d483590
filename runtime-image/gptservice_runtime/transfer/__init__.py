"""A model's files into the cache, whatever they come from: once, resumed, tried again and checked.

What a source is, is in `source`; the sources themselves are in `gptservice_runtime.sources`.
"""
