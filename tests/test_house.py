"""How far apart the code is: what a name means, where a fact is named, and how many modules a request needs.

`pytest tests/test_house.py -s` lists the modules on the ways of six requests.
"""

import asyncio
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from types import CodeType
from typing import Any

import httpx2
import pytest
import time_machine
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from config.settings import BASE_DIR
from contextopt.gateway.app import Gateway
from contextopt.gateway.deciders import Decider
from contextopt.gateway.models import GatewayPolicy
from contextopt.people.models import Scope, Team
from contextopt.spaces.models import Space
from dashboard.rollups.fold import keep_rollups
from tests import factories
from tests.concurrency import PATIENCE_SECONDS, in_own_loop
from tests.dashboard.pages.overview.test_figures import log_row
from tests.gateway_upstream import Upstream

PACKAGES = ("config", "contextopt", "memory", "dashboard")

# These names say what a module is for, which is the same in every folder.
ROLES = {
    "admin", "api", "apps", "base", "candidates", "charts", "commands", "figures", "filters", "formats",
    "forms", "gateway", "health", "importing", "inputs", "management", "models", "purge", "results", "search",
    "settings", "tasks", "tiles", "urls", "values", "verify",
}  # fmt: skip
# These things have one home, and may have a module of the same name in each of the layers.
RESOURCES = {
    "agents", "assemble", "assemblies", "audit", "backtests", "chat", "completions", "configs", "connect",
    "demo", "feedback", "findings", "guide", "handoffs", "keys", "mcp", "members", "memories", "memory",
    "people", "phaselinks", "phases", "placement", "policies", "questions", "records", "replay",
    "repositories", "retries", "reviews", "savedviews", "sets", "spaces", "steps", "strategies",
    "timelines", "traffic",
}  # fmt: skip
LAYERS = ("api", "admin", "management", "pages", "demo", "mcp", "steps", "engine")
# The most modules that name a setting and a figure.
NAMED_IN = {"adaptive_strictness": 3, "cacheable_tokens": 3}
MIGRATIONS_MAX = 12
# A module with content has more lines than an empty package.
MODULES_MAX, CONTENT_LINES = 500, 5


def own_files() -> list[Path]:
    """Return the modules of the product below the root, migrations apart."""
    found = (path.relative_to(BASE_DIR) for name in PACKAGES for path in (BASE_DIR / name).rglob("*.py"))
    return [path for path in found if "migrations" not in path.parts]


def repeated_names() -> set[str]:
    """Return the names of modules and folders that may mean more than one thing."""
    layers = defaultdict(list)
    for path in own_files():
        *folders, name = path.parent.parts if path.stem == "__init__" else path.with_suffix("").parts
        # A folder's main module may have its name.
        if name not in folders[-1:]:
            layers[name].append(next((layer for layer in LAYERS if layer in folders), "home"))
    repeated = {name for name, found in layers.items() if len(found) > 1} - ROLES
    return {name for name in repeated if name not in RESOURCES or len(set(layers[name])) < len(layers[name])}


def test_a_name_means_one_thing() -> None:
    assert not repeated_names()


def test_there_are_few_modules_and_migrations() -> None:
    migrations = [path for name in PACKAGES for path in (BASE_DIR / name).rglob("migrations/0*.py")]
    lines = [len((BASE_DIR / path).read_text().splitlines()) for path in own_files()]
    modules = sum(length > CONTENT_LINES for length in lines)
    print(f"\n{len(migrations)} migrations, {modules} modules, {sum(lines):,} lines")
    assert len(migrations) <= MIGRATIONS_MAX
    assert modules <= MODULES_MAX


@pytest.mark.parametrize("word", NAMED_IN)
def test_a_fact_is_named_in_few_places(word: str) -> None:
    naming = [path for path in own_files() if re.search(rf"\b{word}\b", (BASE_DIR / path).read_text())]
    assert len(naming) <= NAMED_IN[word], naming


@dataclass
class Way:
    """The own code that ran: the functions of each module, by their qualified names."""

    functions: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, code: CodeType) -> None:
        module = own_module(code.co_filename)
        if module is not None and code.co_name != "<module>":
            # Lambdas and generator expressions belong to the function or the module around them.
            name = code.co_qualname.partition(".<locals>.<")[0]
            self.functions[module] |= set() if name.endswith(">") else {name}

    @property
    def figures(self) -> tuple[int, int]:
        return len(self.functions), sum(map(len, self.functions.values()))

    def __str__(self) -> str:
        lines = [f"{len(names):4}  {module}" for module, names in sorted(self.functions.items())]
        return "\n".join(lines)


def own_module(filename: str) -> str | None:
    """Return the module of a file of this checkout, unless it is a migration."""
    path = Path(filename)
    if not path.is_relative_to(BASE_DIR):
        return None
    parts = path.relative_to(BASE_DIR).with_suffix("").parts
    return ".".join(parts) if parts[0] in PACKAGES and "migrations" not in parts else None


@contextmanager
def followed() -> Iterator[Way]:
    """Follow all threads through the own code."""
    way, monitoring = Way(), sys.monitoring
    codes: set[CodeType] = set()

    def begin(code: CodeType, _offset: int) -> object:
        codes.add(code)
        return monitoring.DISABLE

    monitoring.use_tool_id(monitoring.PROFILER_ID, "house")
    monitoring.register_callback(monitoring.PROFILER_ID, monitoring.events.PY_START, begin)
    monitoring.set_events(monitoring.PROFILER_ID, monitoring.events.PY_START)
    monitoring.restart_events()
    try:
        yield way
    finally:
        monitoring.set_events(monitoring.PROFILER_ID, monitoring.events.NO_EVENTS)
        monitoring.register_callback(monitoring.PROFILER_ID, monitoring.events.PY_START, None)
        monitoring.free_tool_id(monitoring.PROFILER_ID)
    for code in codes:
        way.add(code)


class Api:
    """A program with a key of the team."""

    def __init__(self, team: Team) -> None:
        _, secret = factories.make_key(team, Scope.WRITE)
        self.client = Client(headers={"Authorization": f"Bearer {secret}"})

    def post(self, path: str, **data: object) -> HttpResponse:
        response = self.client.post(f"/api/v1{path}", data, content_type="application/json")
        assert response.status_code in {200, 201}, response.content
        return response


def way_of(ask: Callable[[], object]) -> Way:
    """Return the way of a request that was sent before, when everything is loaded."""
    ask()
    with followed() as way:
        ask()
    return way


def filled_space() -> Space:
    space = factories.make_space(factories.make_team())
    for number in range(6):
        title = f"Queue {number} stuck after deploy"
        factories.make_record(space, title=title, date=timezone.now() - timedelta(days=number), tags=["ops"])
    return space


def assembly() -> Way:
    space = filled_space()
    api = Api(space.team)
    return way_of(lambda: api.post("/assemblies", space=space.slug, stage=4))


def question_in_a_conversation() -> Way:
    space = filled_space()
    api = Api(space.team)
    question = {"query": "Why is the queue stuck?", "conversation": "c-1", "placement": "auto"}
    return way_of(lambda: api.post("/assemblies", space=space.slug, **question))


def record() -> Way:
    space = filled_space()
    api = Api(space.team)
    data = {"title": "Mail late", "date": "2026-03-02", "notes": "The relay was full.", "tags": ["mail"]}
    return way_of(lambda: api.post(f"/spaces/{space.slug}/records", **data))


def vote() -> Way:
    space = filled_space()
    api = Api(space.team)
    answers = [factories.make_assembly(space).id for _ in range(2)]
    return way_of(lambda: api.post("/feedback", assembly_id=answers.pop(), rater="ann", rating="up"))


def overview() -> Way:
    with time_machine.travel(factories.NOW, tick=False):
        space = filled_space()
        for days in range(28):
            log_row(space, factories.NOW - timedelta(days=days, minutes=1))
        keep_rollups()
        log_row(space, factories.NOW - timedelta(minutes=1))
        client = Client()
        client.force_login(factories.make_user("olga", space.team))
        return way_of(lambda: client.get("/").content)


def gateway_insert(settings: Any) -> Way:
    space = filled_space()
    GatewayPolicy.objects.create(space=space, mode="insert")
    _, secret = factories.make_key(space.team, Scope.WRITE)
    with Upstream() as upstream:
        settings.LLM_BASE_URL = f"{upstream.base_url}/v1"
        return in_own_loop(_insert({"X-Contextopt-Key": secret, "X-Contextopt-Space": space.slug}))


async def _insert(headers: dict[str, str]) -> Way:
    gateway = Gateway("config.decider", lambda: None)
    # The profiler does not see other processes.
    gateway._deciders.all = (Decider(lambda: ThreadPoolExecutor(1)),)  # type: ignore[arg-type,return-value]
    transport = httpx2.ASGITransport(gateway)
    messages: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
    is_started = asyncio.Event()
    living = asyncio.create_task(gateway({"type": "lifespan"}, messages.get, _tell(is_started)))
    messages.put_nowait({"type": "lifespan.startup"})
    await is_started.wait()
    async with httpx2.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as client:
        questions = (f"Why is queue {number} stuck?" for number in count())
        await _ask(gateway, client, next(questions))
        # A context that is late on a busy machine is asked for again.
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                with followed() as way:
                    status = await _ask(gateway, client, next(questions))
                if status == "inserted":
                    break
    messages.put_nowait({"type": "lifespan.shutdown"})
    await living
    return way


def _tell(is_started: asyncio.Event) -> Callable[[Mapping[str, Any]], Any]:
    async def send(_message: Mapping[str, Any]) -> None:
        is_started.set()

    return send


async def _ask(gateway: Gateway, client: httpx2.AsyncClient, question: str) -> str:
    """Send a prompt, and wait until the gateway has logged it."""
    prompt = {"model": "m", "messages": [{"role": "user", "content": question}]}
    response = await client.post("/v1/chat/completions", json=prompt)
    assert response.status_code == 200
    while gateway._log.waiting:
        await asyncio.sleep(0.01)
    return response.headers["x-contextopt-status"]


# Modules and functions at most.
WAYS = {
    assembly: (28, 146),
    question_in_a_conversation: (44, 268),
    record: (18, 62),
    vote: (18, 61),
    overview: (29, 210),
}
GATEWAY_INSERT = (59, 421)


def check(name: str, way: Way, limits: tuple[int, int]) -> None:
    modules, functions = way.figures
    print(f"\n{name}: {modules} modules, {functions} functions\n{way}")
    assert modules <= limits[0]
    assert functions <= limits[1]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ask", WAYS, ids=lambda ask: ask.__name__)
def test_ways_are_short(ask: Callable[[], Way]) -> None:
    check(ask.__name__, ask(), WAYS[ask])


@pytest.mark.filterwarnings("ignore:The default argument for algorithm in salted_hmac")
@pytest.mark.django_db(transaction=True)
def test_the_way_of_a_prompt_is_short(settings: Any) -> None:
    check("gateway_insert", gateway_insert(settings), GATEWAY_INSERT)
