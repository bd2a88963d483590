"""What sources that are no hub make of names."""

import pytest

from gptservice_runtime import models
from gptservice_runtime.sources import naming
from gptservice_runtime.transfer.source import RemoteFile


def remote(path: str) -> RemoteFile:
    return RemoteFile(path=path, size=1, digest=None, name=path, address=path, is_archive=True)


@pytest.mark.parametrize("name", ["a\0.tar", "a\n.tar", "x" * 250 + ".tar"])
def test_a_name_that_no_file_can_have_is_the_spec_s_fault(name: str) -> None:
    with pytest.raises(models.ModelError, match="store it by another name") as refused:
        naming.listing([remote(name)], "https://host/x")
    assert refused.value.reason == "InvalidSpec"


def test_an_ordinary_name_is_none() -> None:
    assert naming.listing([remote("a b.tar")], "https://host/x").files == (remote("a b.tar"),)
