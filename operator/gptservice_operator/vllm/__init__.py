"""vLLM's argument parser, made again from the schema that was exported from it: the one reading of engine arguments."""
