"""The dashboards' files: what Grafana needs, and what a person who reads one needs."""

from pathlib import Path
from typing import Any

import pytest

from e2e.monitoring import dcgm, queries

UNITS = {"none", "short", "s", "percent", "percentunit", "ops", "reqps", "bytes", "mbytes", "watt", "suffix: tokens/s"}
VARIABLES = {"operator.json": ["namespace"], "fleet.json": ["namespace"], "service.json": ["namespace", "service"]}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

each_dashboard = pytest.mark.parametrize("file", queries.DASHBOARDS, ids=lambda file: file.name)


def area(panel: dict[str, Any]) -> set[tuple[int, int]]:
    """The cells of the grid that a panel covers."""
    at = panel["gridPos"]
    return {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}


def test_there_is_one_for_each_question() -> None:
    assert {file.name for file in queries.DASHBOARDS} == set(VARIABLES)


def test_their_identifiers_are_theirs_alone() -> None:
    boards = [queries.dashboard(file) for file in queries.DASHBOARDS]
    for key in ("uid", "title"):
        assert len({board[key] for board in boards}) == len(boards)
    assert all(
        board["uid"] == f"gptservice-{file.stem}" for board, file in zip(boards, queries.DASHBOARDS, strict=True)
    )


@each_dashboard
def test_a_person_chooses_the_data_source_and_what_it_is_about(file: Path) -> None:
    source, *others = queries.dashboard(file)["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert [variable["name"] for variable in others] == VARIABLES[file.name]
    assert all(variable["datasource"] == SOURCE for variable in others)


@each_dashboard
def test_every_panel_can_be_read(file: Path) -> None:
    board = queries.dashboard(file)
    assert board["description"]
    identifiers = [panel["id"] for panel in board["panels"]]
    assert len(set(identifiers)) == len(identifiers)
    for panel in queries.panels(board):
        title = panel["title"]
        assert title
        assert panel["datasource"] == SOURCE, title
        defaults = panel["fieldConfig"]["defaults"]
        overridden = [
            each["value"]
            for override in panel["fieldConfig"]["overrides"]
            for each in override["properties"]
            if each["id"] == "unit"
        ]
        assert {defaults["unit"], *overridden} <= UNITS, title
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references) > 0, title


@each_dashboard
def test_several_lines_of_a_panel_have_names(file: Path) -> None:
    for panel in queries.panels(queries.dashboard(file)):
        if panel["type"] == "timeseries":
            legends = [target["legendFormat"] for target in panel["targets"]]
            assert all(legends), panel["title"]
            assert len(set(legends)) == len(legends), panel["title"]


@each_dashboard
def test_panels_lie_beside_and_not_upon_each_other(file: Path) -> None:
    covered: set[tuple[int, int]] = set()
    for panel in queries.dashboard(file)["panels"]:
        cells = area(panel)
        assert not covered & cells, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        covered |= cells


@each_dashboard
def test_a_panel_shows_what_was_chosen(file: Path) -> None:
    """But for GPUs, which are chosen by the pods, and for what the operator says of all services."""
    for panel in queries.panels(queries.dashboard(file)):
        for target in panel["targets"]:
            of_all_services = file.name == "fleet.json" and "gptservice_operator_" in target["expr"]
            if not of_all_services:
                assert all(f"${name}" in target["expr"] for name in VARIABLES[file.name]), panel["title"]


def test_links_between_dashboards_lead_to_one() -> None:
    boards = {queries.dashboard(file)["uid"]: queries.dashboard(file) for file in queries.DASHBOARDS}
    links = [
        link["url"]
        for board in boards.values()
        for panel in queries.panels(board)
        for override in panel["fieldConfig"]["overrides"]
        for each in override["properties"]
        if each["id"] == "links"
        for link in each["value"]
    ]
    assert links
    for link in links:
        path, _, parameters = link.partition("?")
        variables = {variable["name"] for variable in boards[path.removeprefix("/d/")]["templating"]["list"]}
        assert {part.partition("=")[0] for part in parameters.split("&")} == {f"var-{name}" for name in variables}


def test_gpu_metrics_are_those_that_the_exporter_has_by_default() -> None:
    named = {word for query in queries.of_panels() for word in query.text.replace("(", " ").replace(",", " ").split()}
    gpu = {word for word in named if word.startswith("DCGM_")}
    assert gpu
    assert gpu <= dcgm.NAMES
