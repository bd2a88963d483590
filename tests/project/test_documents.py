"""Every block of the documents is run or applied by a test, or it is said here why not; every page is on the site."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from kubernetes.client import models

from e2e import documents
from e2e.documents import Block
from gptservice_operator import names, revisions
from gptservice_operator.api import schema
from gptservice_runtime import contract

ROOT = documents.ROOT
BLOCKS = documents.blocks()
COMMANDS = re.compile(r"^\s*\$?\s*(?:sudo )?(kubectl|helm|make|docker|uv|curl|openssl)\b", re.MULTILINE)

# Which test file runs a shell block.
RUN_BY = {
    "e2e/api/test_documents.py": (
        "README.md: Try it, sh 2",
        "docs/gitops.md: Install the health scripts, sh 1",
        "docs/operations.md: API keys, sh 1",
        "docs/operations.md: API keys, sh 2",
        "docs/operations.md: At night, sh 1",
        "docs/operations.md: Encrypted weights, sh 1",
        "docs/operations.md: Encrypted weights, sh 2",
        "docs/operations.md: Revisions, sh 1",
        "docs/operations.md: Revisions, sh 2",
        "docs/operations.md: Revisions, sh 3",
        "docs/operations.md: Rollback, sh 1",
        "docs/operations.md: TLS, sh 1",
        "docs/operations.md: TLS, sh 2",
        "docs/upgrading.md: The operator, sh 2",
    ),
    "e2e/api/chart/test_documents.py": (
        "docs/gitops.md: kubectl alone, sh 1",
        "docs/monitoring.md: Monitoring, sh 1",
        "docs/operations.md: At night, sh 2",
        "docs/operations.md: Install, sh 2",
        "docs/operations.md: Install, sh 3",
        "docs/operations.md: Install, sh 4",
        "docs/operations.md: The operator itself, sh 1",
        "docs/quick-start.md: On a cluster of yours, sh 1",
        "docs/quick-start.md: On a cluster of yours, sh 2",
        "docs/quick-start.md: On a cluster of yours, sh 3",
        "docs/quick-start.md: On a cluster of yours, sh 4",
        "docs/quick-start.md: On a cluster of yours, sh 5",
        "docs/quick-start.md: On a cluster of yours, sh 6",
        "docs/quick-start.md: Without Helm in the cluster, sh 1",
        "docs/quick-start.md: Without Helm in the cluster, sh 2",
        "docs/releasing.md: What a release is, sh 1",
        "docs/upgrading.md: Back, sh 1",
        "docs/upgrading.md: The operator, sh 1",
        "docs/upgrading.md: The operator, sh 3",
    ),
    "tests/policy/test_policy.py": ("policy/README.md: Policy, sh 1",),
    "tests/runtime/sources/test_inspecting.py": ("docs/operations.md: Where models come from, sh 1",),
    "tests/runtime/test_digest.py": ("runtime-image/README.md: `gptservice-runtime fetch` (init container), sh 1",),
}
TESTS_OF_THEIR_OWN = "what it starts are the tests themselves"
PUBLIC_IMAGES = "pulls public base images: the same Containerfiles are built by `make images`, and linted"
NOT_RUN = {
    "README.md: Try it, sh 1": "e2e/node/test_demo.py runs what `make demo` runs",
    "README.md: What the machine needs, sh 1": "installs packages; `make prerequisites` tells the same",
    "README.md: Work on it, sh 1": TESTS_OF_THEIR_OWN,
    "docs/contributing.md: Set up, sh 1": TESTS_OF_THEIR_OWN,
    "docs/contributing.md: A new field, end to end, sh 1": TESTS_OF_THEIR_OWN,
    "docs/contributing.md: A new field, end to end, sh 2": TESTS_OF_THEIR_OWN,
    "docs/contributing.md: Before you hand in, sh 1": TESTS_OF_THEIR_OWN,
    "docs/operations.md: Install, sh 1": PUBLIC_IMAGES,
    "docs/quick-start.md: On this machine, sh 1": "e2e/node/test_demo.py runs what `make demo` runs",
    "policy/README.md: Images, sh 1": "needs Trivy, and images in a registry; the page says that it was not tried",
    "runtime-image/README.md: The runtime image: the contract, sh 1": PUBLIC_IMAGES,
}
# Blocks of YAML that are no manifests, and what they are.
OTHER_YAML = {
    "docs/coming-from.md: vLLM production-stack, yaml 1": "values of another chart",
    "docs/contributing.md: A new field, end to end, yaml 1": "rows of a table of tests",
    "docs/operations.md: Metrics of the pods, yaml 1": "configuration of the Prometheus adapter",
    "docs/operations.md: Where models come from, yaml 2": "values that tests/charts/test_chart.py gives the chart",
    "docs/operations.md: Where pods run, yaml 1": "values that tests/charts/test_chart.py gives the chart",
}
SHELL = [block for block in BLOCKS if block.language in documents.SHELL]


def test_every_shell_block_is_run_or_says_why_not() -> None:
    run = [name for names in RUN_BY.values() for name in names]
    assert sorted([*run, *NOT_RUN]) == sorted(block.name for block in SHELL)


@pytest.mark.parametrize("file", RUN_BY)
def test_the_file_that_runs_a_block_names_it(file: str) -> None:
    text = (ROOT / file).read_text()
    assert [name for name in RUN_BY[file] if f'"{name}"' not in text] == []


@pytest.mark.parametrize("reason", sorted(set(NOT_RUN.values())))
def test_a_file_that_a_reason_names_is_there(reason: str) -> None:
    for name in re.findall(r"(?:e2e|tests)/[\w/]+\.py", reason):
        assert (ROOT / name).is_file()


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language not in documents.SHELL], ids=lambda b: b.name)
def test_a_block_with_commands_is_a_shell_block(block: Block) -> None:
    """Or nobody would run it. What a run looked like is `text`."""
    if block.language != "text":
        assert COMMANDS.search(block.text) is None


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "yaml"], ids=lambda block: block.name)
def test_a_yaml_block_is_ours_somebody_s_or_listed(block: Block) -> None:
    for document in yaml.safe_load_all(block.text):
        if block.name in OTHER_YAML:
            assert not (isinstance(document, dict) and "apiVersion" in document)
        else:
            # What e2e/api/test_documents.py applies, or another project's.
            assert "apiVersion" in document or list(document) == ["spec"]


@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.name)
def test_targets_and_files_that_it_names_exist(block: Block) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*(?: [a-z-]+)*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    known = {name for names in targets for name in names.split()}
    for asked in re.findall(r"^(?:sudo )?make((?: [a-z-]+(?!=))*)", block.text, flags=re.MULTILINE):
        assert asked.split(), block.text
        assert set(asked.split()) <= known
    for path in re.findall(r"uv run pytest (\S+)", block.text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize(
    "file",
    [file for folder in ("examples", "gitops") for file in sorted((ROOT / folder).rglob("*.yaml"))],
    ids=lambda file: str(file.relative_to(ROOT)),
)
def test_a_command_in_a_manifest_s_comment_names_what_is_there(file: Path) -> None:
    comments = "\n".join(re.findall(r"#(.*)$", file.read_text(), flags=re.MULTILINE))
    for path in re.findall(r" (?:-f|-k|--values) ([\w./-]+)", comments):
        assert (ROOT / path).exists(), path
        assert file.is_relative_to(ROOT / path) or path.endswith("values.yaml"), "of another manifest"


def test_every_test_that_the_threats_name_is_there() -> None:
    page = (ROOT / "docs/security.md").read_text()
    named = re.findall(r"`((?:tests|e2e)/[\w/]+\.py)::(\w+)`", page)
    assert len(named) > 20
    missing = [f"{file}::{test}" for file, test in named if f"def {test}(" not in (ROOT / file).read_text()]
    assert missing == []


def test_every_threat_is_shown_by_a_test() -> None:
    page = (ROOT / "docs/security.md").read_text().partition("## Threats")[2].partition("\n## ")[0]
    rows = [row for row in page.splitlines() if row.startswith("| ")][2:]
    assert [row for row in rows if "::test_" not in row.rsplit("|", 2)[1]] == []


def test_an_upgrade_takes_both_images_from_one_release() -> None:
    """As the page itself asks for; the values at hand would keep the old ones."""
    text = documents.block("docs/upgrading.md: The operator, sh 1").text
    set_to = dict(re.findall(r"--set ([\w.]+)=(\S+)", text))
    assert set(set_to) == {"image.tag", "runtime.image"}
    assert set_to["runtime.image"].endswith(f":{set_to['image.tag']}")


def test_fields_that_restart_no_pod_are_those_that_shape_none() -> None:
    page = (ROOT / "docs/upgrading.md").read_text()
    (row,) = re.findall(r"^\| change (.*) \| those that are there stay \|$", page, flags=re.MULTILINE)
    shaping = {path.partition(".")[0] for path in revisions.POD_SHAPING}
    fields = set(schema.spec_schemas()["GPTService"]["properties"])
    # Of rollout, one field shapes pods; the row names it.
    assert set(re.findall(r"`(\w+)`", row)) == fields - shaping | {"rollout", "readyLatencyMilliseconds"}


def test_the_site_is_built_without_a_warning_and_asks_no_other_host(tmp_path: Path) -> None:
    """Broken links and anchors, and pages that no list of contents names, are warnings."""
    flags = ["--fail-on-warning", "--keep-going", "--nitpicky", "--fresh-env", "--quiet"]
    command = [sys.executable, "-m", "sphinx", *flags, "-c", "docs", ".", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.relative_to(tmp_path).with_suffix(".md").as_posix() for path in tmp_path.rglob("*.html")}
    assert {block.page for block in BLOCKS} <= pages
    loads = re.compile(r"<(?:script|img|iframe)[^>]*\bsrc=\"https?:|<link[^>]*rel=\"stylesheet\"[^>]*https?:")
    assert [str(path) for path in tmp_path.rglob("*.html") if loads.search(path.read_text())] == []


def test_the_policy_of_a_mesh_is_for_the_pods_of_every_service() -> None:
    (block,) = [block for block in BLOCKS if block.name == "docs/operations.md: Around the pods, yaml 1"]
    policy = yaml.safe_load(block.text)
    models.V1NetworkPolicy.model_validate(policy)
    selected = policy["spec"]["podSelector"]["matchLabels"]
    for name in ("chat", "llama-3.1-8b"):
        assert selected.items() <= names.labels(name).items()
    ports = [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]]
    assert ports == [15008, contract.PROBE_PORT]
