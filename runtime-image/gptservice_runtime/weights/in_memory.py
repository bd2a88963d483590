"""Encrypted weights in a pod: decrypted into memory, before the engine starts, or not served."""

import errno
import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from gptservice_runtime import contract, models, selection
from gptservice_runtime.units import size
from gptservice_runtime.weights import decrypting, keys, mounts
from gptservice_runtime.weights.errors import RefusedError, UnusableKeyError, WeightsError

_log = logging.getLogger(__name__)
_PAGE = 4096


def decrypt(model: Path, key_directory: Path, root: Path) -> Path:
    """Decrypt what serving needs of an encrypted model, a folder or a file in one; where it is then. models.ModelError.

    Args:
        model: its files as they were fetched.
        key_directory: the mounted Secret with the keys.
        root: a volume in memory.
    """
    try:
        return _decrypt(model, key_directory, root)
    except UnusableKeyError as error:
        what = f"decryptionKeySecretRef: {error}"
        raise models.ModelError(contract.REASON_MODEL_ACCESS_DENIED, what) from error
    except RefusedError as error:
        raise models.ModelError(contract.REASON_CHECKSUM_MISMATCH, f"{model}: {error}") from error
    except WeightsError as error:
        raise models.ModelError(contract.REASON_MODEL_LOAD_FAILED, str(error)) from error
    except OSError as error:
        what = f"cannot decrypt {model}: {error.filename or root}: {error.strerror}"
        full = error.errno == errno.ENOSPC
        raise models.ModelError(
            contract.REASON_OUT_OF_MEMORY if full else contract.REASON_MODEL_ACCESS_DENIED, what
        ) from error


def _decrypt(model: Path, key_directory: Path, root: Path) -> Path:
    _demand_memory(root)
    whole = model if model.is_dir() else model.parent
    opened = decrypting.opened(whole, keys.read_directory(key_directory))
    wanted = _wanted(model, opened)
    # A container that runs again finds what the one before it has left; the engine does not run yet.
    for leftover in root.iterdir():
        shutil.rmtree(leftover)
    _demand_room(root, [opened.size([name]) for name in wanted])
    # By the encryption's identifier: the engine's caches tell models apart by their paths.
    target = root / opened.seal.model_id.hex()
    opened.decrypt(wanted, target)
    return target if model == whole else target / model.name


def _wanted(model: Path, opened: decrypting.Opened) -> list[str]:
    """What serving needs, by the seal: so a file that is missing is missed."""
    if model != opened.folder:
        if model.name not in opened.names:
            raise RefusedError(f"{model.name} was added: the seal does not name it")
        return [model.name]
    needed = selection.needed(opened.names)
    if (lacking := models.missing(needed)) is not None:
        raise models.ModelError(contract.REASON_MODEL_NOT_FOUND, f"{model} is no model folder: {lacking}")
    return needed


def _demand_memory(root: Path) -> None:
    mount = mounts.mount_of(root)
    if mount is None or mount.kind not in mounts.IN_MEMORY:
        where = "an unknown file system" if mount is None else mount.kind
        raise models.ModelError(
            contract.REASON_INVALID_IMAGE,
            f"{root} is on {where}, not in memory, and decrypted weights never go to a disk: mount an emptyDir with "
            "medium Memory there",
        )
    if "noswap" not in mount.options and mounts.node_swaps():
        _log.warning("the node swaps, and %s is not mounted with noswap: decrypted weights may reach its disk", root)


def _demand_room(root: Path, sizes: Sequence[int]) -> None:
    needed = sum(-(-one // _PAGE) * _PAGE for one in sizes)
    system = os.statvfs(root)
    free = system.f_bavail * system.f_frsize
    if needed > free:
        raise models.ModelError(
            contract.REASON_OUT_OF_MEMORY,
            f"the decrypted weights need {size(needed)} of memory, and their volume holds {size(free)}: raise "
            f"spec.resources.limits.memory by at least {size(needed - free)}, without a GPU by twice that",
        )
