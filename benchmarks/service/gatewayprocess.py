"""The gateway as a process of its own, the space it asks, and the prompts that are sent through it."""

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from django.conf import settings
from django.core.management.base import OutputWrapper

from benchmarks.corpus import Generated
from benchmarks.service.prompts import PromptOutcome, PromptPlan
from benchmarks.service.server import ServerError, free_port, run_plan, start, stop, wait_for
from benchmarks.spaces import build_indexes, describe_space, fill, new_space, settle
from contextopt.gateway.models import GatewayRequest
from contextopt.management.upkeep import make_searchable
from contextopt.people.models import ApiKey, Scope, Team
from contextopt.search import registry
from contextopt.spaces.models import Record, Space
from contextopt.spaces.spaces import delete_space
from dashboard.management.commands.up import gateway_command

QUESTION_WORDS = 6
LOG_SECONDS = 900.0
LOG_PAUSE_SECONDS = 2.0
SEED = 31
BUSY_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Prompted:
    """A space, the key of the prompts for it, and their questions."""

    space: Space
    key: str
    questions: list[str]


@dataclass(frozen=True, slots=True)
class Gateway:
    """The running process, its port and the upstream's, and the space of the prompts."""

    port: int
    upstream_port: int
    process: psutil.Process
    prompted: Prompted

    def memory_mb(self) -> float:
        """Return the memory of all its processes. Pages shared by forking count once."""
        processes = [self.process, *self.process.children(recursive=True)]
        return float(sum(each.memory_full_info().pss for each in processes)) / 2**20

    def logged(self) -> int:
        """Wait until the log is complete; return how many requests are in it."""
        ends, number = time.monotonic() + LOG_SECONDS, -1
        while number < (number := GatewayRequest.objects.filter(space=self.prompted.space).count()):
            if time.monotonic() > ends:
                raise ServerError(f"the log was not complete within {LOG_SECONDS:g} s")
            time.sleep(LOG_PAUSE_SECONDS)
        return number


@contextlib.contextmanager
def prompted_space(team: Team, slug: str, records: Iterable[Generated]) -> Iterator[Prompted]:
    """Make a space of these records with all indexes, a key for it, and questions of its words."""
    space = new_space(team, describe_space(slug))
    fill(space, records)
    with Path(os.devnull).open("w") as sink:
        make_searchable(OutputWrapper(sink), registry.get("record"), space.pk)
    build_indexes()
    settle()
    rng = random.Random(SEED)
    notes = Record.objects.filter(space=space, deleted_at=None).values_list("notes", flat=True)[:200]
    questions = [" ".join(rng.sample(text.split(), QUESTION_WORDS)) for text in notes]
    key, secret = ApiKey.objects.create_with_secret(
        team=team, name=slug, scope=Scope.WRITE, space_ids=[space.pk]
    )
    try:
        yield Prompted(space, secret, questions)
    finally:
        key.delete()
        delete_space(space=Space.objects.get(pk=space.pk))


@contextlib.contextmanager
def one_busy_core() -> Iterator[None]:
    """Keep a core busy with another process, which stops by itself."""
    busy = f"import time; ends = time.monotonic() + {BUSY_SECONDS}\nwhile time.monotonic() < ends: pass"
    with subprocess.Popen([sys.executable, "-c", busy]) as process:
        try:
            yield
        finally:
            process.kill()


@contextlib.contextmanager
def serving_gateway(prompted: Prompted) -> Iterator[Gateway]:
    """Run the gateway, and stop it afterwards."""
    port, upstream_port = free_port(), free_port()
    base = f"http://127.0.0.1:{upstream_port}"
    command = [str(port) if part == str(settings.GATEWAY_PORT) else part for part in gateway_command()]
    environment = {"LLM_BASE_URL": f"{base}/v1", "ANTHROPIC_BASE_URL": base}
    with tempfile.TemporaryDirectory() as folder:
        running = start(command, Path(folder) / "gateway.log", environment)
        try:
            wait_for(port, running)
            yield Gateway(port, upstream_port, psutil.Process(running.pid), prompted)
        finally:
            stop([running])


def make_plan(
    gateway: Gateway,
    mode: str,
    requests: int,
    *,
    per_second: float = 0.0,
    stream_seconds: float = 0.0,
    earlier_characters: int = 0,
) -> PromptPlan:
    return PromptPlan(
        mode=mode, port=gateway.port, upstream_port=gateway.upstream_port, key=gateway.prompted.key,
        questions=gateway.prompted.questions,
        requests=requests, per_second=per_second, stream_seconds=stream_seconds,
        earlier_characters=earlier_characters,
    )  # fmt: skip


def run_prompts(plan: PromptPlan) -> PromptOutcome:
    outcome = PromptOutcome(**run_plan("benchmarks.service.prompts", asdict(plan), timeout_seconds=1_200))
    if outcome.failures:
        raise ServerError(f"{len(outcome.failures)} requests failed: {'; '.join(outcome.failures[:5])}")
    return outcome
