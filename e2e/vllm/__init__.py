"""vLLM's own argument parser, without an engine: what the schema and the verdicts of the operator are held against."""
