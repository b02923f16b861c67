"""Runs the chosen benchmarks. Imported only after the database exists and Django is set up."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, cast

from django.core.management import call_command
from django.db import connections

from benchmarks.agents.briefs import measure_briefs
from benchmarks.agents.deltas import measure_deltas
from benchmarks.agents.errorlogs import measure_error_logs
from benchmarks.agents.files import measure_files
from benchmarks.agents.filespeed import measure_speed
from benchmarks.agents.strategies import measure_strategies
from benchmarks.figures import Section
from benchmarks.material import Material
from benchmarks.report import Machine, render_terminal
from benchmarks.retrieval.finding import measure_finding
from benchmarks.retrieval.languages import measure_languages
from benchmarks.retrieval.lean import measure_lean
from benchmarks.retrieval.pastes import measure_pastes
from benchmarks.retrieval.placement import measure_placement
from benchmarks.retrieval.recall import measure_recall
from benchmarks.retrieval.search import measure_search
from benchmarks.retrieval.tokenizers import measure_tokenizers
from benchmarks.retrieval.usage import measure_use
from benchmarks.service.assembly import measure_assembly
from benchmarks.service.attacks import measure_attacks
from benchmarks.service.dashboard import measure_dashboard
from benchmarks.service.gateway import measure_gateway
from benchmarks.service.hostile import measure_hostile, total_section
from benchmarks.service.importing import measure_import
from benchmarks.service.kills import measure_kills
from benchmarks.service.recount import Recount
from benchmarks.service.replays import measure_replays
from benchmarks.service.web import measure_web
from benchmarks.spaces import Filled, generated_space, measured, say, settle
from contextopt.people.models import Team
from contextopt.spaces.models import Space

DATA_SPACE = "given"


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of everything in a run."""

    sizes: tuple[int, ...]
    rounds: int
    web_seconds: float
    bulk_calls: int
    import_few: int
    import_many: int
    hostile_spaces: int
    dashboard_assemblies: int
    dashboard_runs: int
    files: int
    file_cases: int
    search_sizes: tuple[int, ...]
    kills: int
    replayed_records: int
    replays: int
    recall_models: tuple[str, ...]
    pasted_questions: int
    lean_moments: int
    gateway_records: int
    gateway_requests: int
    gateway_seconds: float
    slow_clients: int
    attack_seconds: float
    counted_contexts: int


FULL = Scale(
    sizes=(1_000, 10_000, 100_000, 1_000_000),
    rounds=300,
    web_seconds=20.0,
    bulk_calls=20,
    import_few=50_000,
    import_many=500_000,
    hostile_spaces=40,
    dashboard_assemblies=1_000_000,
    dashboard_runs=20,
    files=10_000,
    file_cases=40,
    search_sizes=(1_000, 10_000, 100_000),
    kills=3,
    replayed_records=20_000,
    replays=1_000,
    recall_models=("wordllama", "minilm"),
    pasted_questions=10,
    lean_moments=200,
    gateway_records=10_000,
    gateway_requests=10_000,
    gateway_seconds=30.0,
    slow_clients=2_000,
    attack_seconds=20.0,
    counted_contexts=500,
)
QUICK = Scale(
    sizes=(1_000, 10_000),
    rounds=60,
    web_seconds=5.0,
    bulk_calls=5,
    import_few=5_000,
    import_many=20_000,
    hostile_spaces=4,
    dashboard_assemblies=10_000,
    dashboard_runs=5,
    files=1_000,
    file_cases=4,
    search_sizes=(1_000,),
    kills=1,
    replayed_records=1_000,
    replays=100,
    recall_models=("wordllama",),
    pasted_questions=2,
    lean_moments=20,
    gateway_records=1_000,
    gateway_requests=500,
    gateway_seconds=5.0,
    slow_clients=500,
    attack_seconds=5.0,
    counted_contexts=30,
)


@dataclass(slots=True)
class Suite:
    """One run: its scale, the spaces created so far, and the budgets recounted so far."""

    scale: Scale
    team: Team
    material: Material
    recount: Recount
    spaces: list[Filled]

    def assembly(self) -> Section:
        return measure_assembly(self._spaces(), rounds=self.scale.rounds, recount=self.recount)

    def web(self) -> Section:
        return measure_web(
            self._largest(),
            seconds=self.scale.web_seconds,
            bulk_calls=self.scale.bulk_calls,
            recount=self.recount,
        )

    def imports(self) -> Section:
        return measure_import(self.team, few=self.scale.import_few, many=self.scale.import_many)

    def budget(self) -> Section:
        return measure_hostile(self.team, spaces=self.scale.hostile_spaces, recount=self.recount)

    def dashboard(self) -> Section:
        return measure_dashboard(self.scale.dashboard_assemblies, runs=self.scale.dashboard_runs)

    def files(self) -> Section:
        snapshots = self.material.snapshots(self.scale.file_cases)
        section, _ = measure_files(snapshots, aider=self.material.aider)
        return section

    def search(self) -> Section:
        return measure_search(
            self.team, self.scale.search_sizes, rounds=self.scale.rounds, recount=self.recount
        )

    def replay(self) -> Section:
        return measure_replays(self.team, records=self.scale.replayed_records, assemblies=self.scale.replays)

    def recall(self) -> Section:
        if not self.material.dialogues:
            return _not_given("recall", "--dialogues")
        return measure_recall(
            self.team,
            self.material.dialogues,
            models=self.scale.recall_models,
            mem0=self.material.mem0,
            recount=self.recount,
        )

    def pastes(self) -> Section:
        if not self.material.dialogues:
            return _not_given("pastes", "--dialogues")
        return measure_pastes(
            self.team,
            self.material.dialogues,
            models=self.scale.recall_models,
            questions=self.scale.pasted_questions,
            recount=self.recount,
        )

    def usage(self) -> Section:
        if not self.material.dialogues:
            return _not_given("usage", "--dialogues")
        return measure_use(self.team, self.material.dialogues)

    def finding(self) -> Section:
        commits, dialogues = self.material.commits, self.material.dialogues
        if not commits and not dialogues:
            return _not_given("finding", "--commits")
        return measure_finding(self.team, commits, dialogues)

    def cost(self) -> Section:
        if not self.material.dialogues:
            return _not_given("cost", "--dialogues")
        return measure_placement(self.team, self.material.dialogues)

    def lean(self) -> Section:
        material = self.material
        return measure_lean(self.team, material.dialogues, material.commits, moments=self.scale.lean_moments)

    def languages(self) -> Section:
        return measure_languages(self.team)

    def strategies(self) -> Section:
        return measure_strategies()

    def tokenizers(self) -> Section:
        return measure_tokenizers(self.team, self.scale.counted_contexts)

    def index(self) -> Section:
        return measure_speed(self.scale.files)

    def deltas(self) -> Section:
        releases = [self.material.releases] if self.material.releases else []
        return measure_deltas([*self.material.checkouts, *releases])

    def logs(self) -> Section:
        return measure_error_logs(self.material.logs) if self.material.logs else _not_given("logs", "--logs")

    def briefs(self) -> Section:
        commits = self.material.commits
        if not commits:
            return _not_given("briefs", "--commits")
        return measure_briefs(commits, self.material.dialogues)

    def kills(self) -> Section:
        return measure_kills(self.scale.kills)

    def gateway(self) -> Section:
        return measure_gateway(
            self.team,
            records=self.scale.gateway_records,
            requests=self.scale.gateway_requests,
            seconds=self.scale.gateway_seconds,
        )

    def hostile(self) -> Section:
        return measure_attacks(self.scale.slow_clients, self.scale.attack_seconds)

    def _spaces(self) -> list[Filled]:
        if not self.spaces:
            self.spaces = [generated_space(self.team, size) for size in self.scale.sizes]
            if self.material.records:
                self.spaces.insert(0, self._given())
            settle()
        return self.spaces

    def _largest(self) -> Filled:
        return max(self._spaces(), key=lambda filled: filled.records)

    def _given(self) -> Filled:
        """Import the records given with --data, which are measured next to the generated ones."""
        call_command("import_records", DATA_SPACE, str(self.material.records), team=self.team.slug)
        return measured(Space.objects.get(team=self.team, slug=DATA_SPACE))


BENCHMARKS: dict[str, Callable[[Suite], Section]] = {
    "assembly": Suite.assembly,
    "web": Suite.web,
    "import": Suite.imports,
    "budget": Suite.budget,
    "dashboard": Suite.dashboard,
    "search": Suite.search,
    "replay": Suite.replay,
    "recall": Suite.recall,
    "languages": Suite.languages,
    "pastes": Suite.pastes,
    "usage": Suite.usage,
    "finding": Suite.finding,
    "cost": Suite.cost,
    "lean": Suite.lean,
    "strategies": Suite.strategies,
    "tokenizers": Suite.tokenizers,
    "index": Suite.index,
    "files": Suite.files,
    "deltas": Suite.deltas,
    "logs": Suite.logs,
    "briefs": Suite.briefs,
    "kills": Suite.kills,
    "gateway": Suite.gateway,
    "hostile": Suite.hostile,
}


def _not_given(what: str, option: str) -> Section:
    return Section(f"{what.capitalize()}: not measured", (), (f"Give real data with {option}.",))


def run_suite(names: Sequence[str], scale: Scale, material: Material) -> tuple[list[Section], Machine]:
    """Migrate, run the named benchmarks, print and return their results, and recount all budgets."""
    call_command("migrate", verbosity=0, interactive=False)
    # Log events are formatted and written as in production, but not to the terminal.
    with Path(os.devnull).open("w") as sink:
        _send_logs_to(sink)
        suite = Suite(scale, Team.objects.ensure_default(), material, Recount(), [])
        sections = []
        for name in names:
            say(f"{name} …")
            sections.append(BENCHMARKS[name](suite))
            print(render_terminal(sections[-1]), flush=True)
        sections.append(total_section(suite.recount))
        print(render_terminal(sections[-1]), flush=True)
        return sections, Machine.here()


def close_connections() -> None:
    """Close all database connections, pool included, so that the database can be dropped."""
    for connection in connections.all(initialized_only=True):
        connection.close()
        connection.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's wrapper has it


def _send_logs_to(sink: TextIO) -> None:
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            cast("logging.StreamHandler[TextIO]", handler).setStream(sink)
