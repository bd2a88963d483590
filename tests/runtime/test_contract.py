"""The contract is constants only, and agrees with itself."""

import ast
import sys
from pathlib import Path
from typing import get_args

from gptservice_runtime import contract, draining, supervisor

SOURCE = Path(contract.__file__).read_text()
ONLY_IN_503 = {
    contract.REASON_DRAINING,
    contract.REASON_ENGINE_UNRESPONSIVE,
    contract.REASON_MODEL_LOADING,
    contract.REASON_READY_LATENCY_EXCEEDED,
}


def constants(prefix: str) -> set[str]:
    return {value for name, value in vars(contract).items() if name.startswith(prefix)}


def test_it_imports_nothing_but_typing() -> None:
    imports = [node for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node).split()[1] for node in imports] == ["typing"]


def test_importing_it_loads_no_other_module_of_the_runtime() -> None:
    package = Path(contract.__file__).parent / "__init__.py"
    assert "import" not in package.read_text(), f"{sys.executable} would load more than the contract"


def test_every_reason_has_a_constant_and_the_other_way_round() -> None:
    assert set(get_args(contract.TerminationReason)) == constants("REASON_") - ONLY_IN_503


def test_every_phase_has_a_constant_and_the_other_way_round() -> None:
    assert set(get_args(contract.Phase)) == constants("PHASE_")


def test_the_supervisor_is_done_before_the_kubelet_loses_patience() -> None:
    last = draining.KILL_MARGIN_SECONDS + supervisor.LAST_OUTPUT_SECONDS
    assert last + contract.EXIT_AFTER_ENGINE_DEATH_SECONDS < contract.GRACE_MARGIN_SECONDS
