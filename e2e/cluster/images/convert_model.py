"""Turns a GGUF file into bfloat16 safetensors, with tokenizer and chat template: `convert_model.py GGUF FOLDER`.

A program, not a module: it runs in the vLLM environment, where torch and transformers are.
"""

import importlib
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Reads the file named first, writes into the folder named second."""
    gguf, folder = Path(sys.argv[1]), sys.argv[2]
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.bfloat16)
    # What was loaded is no longer quantised, but says so, and refuses to be saved as anything else.
    model.config.__dict__.pop("quantization_config", None)
    model.hf_quantizer = None
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(**source).save_pretrained(folder)


main()
