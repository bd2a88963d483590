"""What serving needs of a repository."""

import pytest

from gptservice_runtime import selection

SMALL = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "merges.txt"]


@pytest.mark.parametrize(
    ("also", "taken"),
    [
        pytest.param(["model.safetensors", "pytorch_model.bin"], ["model.safetensors"], id="safetensors before bin"),
        pytest.param(["pytorch_model.bin", "model.pth"], ["pytorch_model.bin"], id="bin before pth"),
        pytest.param(["pytorch_model.bin", "training_args.bin"], ["pytorch_model.bin"], id="no leftovers of training"),
        pytest.param(
            ["a-1-of-2.safetensors", "a-2-of-2.safetensors", "a.safetensors.index.json", "consolidated.safetensors"],
            ["a-1-of-2.safetensors", "a-2-of-2.safetensors", "a.safetensors.index.json"],
            id="shards, not the consolidated copy",
        ),
        pytest.param(
            [
                *("m-1-of-1.safetensors", "m.safetensors.index.json", "consolidated.safetensors.index.json"),
                *("pytorch_model-1-of-1.bin", "pytorch_model.bin.index.json", "tf_model.h5.index.json"),
            ],
            ["m-1-of-1.safetensors", "m.safetensors.index.json"],
            id="the index of what is taken, and no other",
        ),
        pytest.param(["consolidated.safetensors"], ["consolidated.safetensors"], id="a consolidated file alone"),
        pytest.param(
            ["model.safetensors", "original/params.json", "original/consolidated.00.pth", "onnx/model.onnx"],
            ["model.safetensors"],
            id="no other formats",
        ),
        pytest.param(
            ["model.safetensors", "model.h5", "flax.msgpack", "m.gguf"], ["model.safetensors"], id="nor files"
        ),
        pytest.param(
            ["m.safetensors", "1_Pooling/config.json", "2_Dense/model.safetensors", "2_Dense/pytorch_model.bin"],
            ["1_Pooling/config.json", "2_Dense/model.safetensors", "m.safetensors"],
            id="modules of sentence-transformers",
        ),
        pytest.param(
            ["m.safetensors", "modeling_x.py", "chat_template.jinja"],
            ["chat_template.jinja", "m.safetensors", "modeling_x.py"],
            id="code",
        ),
        pytest.param(
            ["m.safetensors", "README.md", "LICENSE", "plot.png", ".gitattributes", ".cache/x.json"],
            ["m.safetensors"],
            id="no papers",
        ),
    ],
)
def test_what_is_taken(also: list[str], taken: list[str]) -> None:
    assert selection.needed([*also, *SMALL]) == sorted([*SMALL, *taken])
