"""Kill and freeze every process of `up`, idle and busy, while clients write, and measure the effects."""

import json
import signal
import threading
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

import psutil

from benchmarks.figures import Figure, Sample, Section, at_most
from benchmarks.service.ownup import Endpoint, Product, own_product, wait_until
from benchmarks.service.server import ServerError
from benchmarks.spaces import say
from contextopt.locks import Lock

SPACE = "kills"
WEB = "config.asgi:application"
WRITERS = 2
PAUSE_SECONDS = 0.05
REQUEST_SECONDS = 10
PATIENCE_SECONDS = 180.0
GOES_ON_SECONDS = 15.0
WEB_SECONDS = 5.0
SECOND_UP_SECONDS = 10.0
BULK_ROWS = 1_000

EMBEDDED = "SELECT 1 FROM contextopt_recordembedding WHERE record_id = %s"
UNFOLDED = "SELECT 1 FROM dashboard_unfoldedassembly WHERE assembly_id = %s"
STATE = "SELECT state FROM contextopt_message WHERE id = %s"
HELD = """
SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted
   AND ((classid::bigint << 32) | objid::bigint) = %s AND pid <> pg_backend_pid()
"""
BACKEND = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
   AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1
"""


@dataclass
class Api:
    """A client of the product that repeats a write under its idempotency key until it is answered."""

    port: int
    key: str

    def write(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Raises: ServerError if there is no answer within PATIENCE_SECONDS, or the write is refused."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        named = str(uuid4())
        while time.monotonic() < deadline:
            try:
                return self._post(path, body, named)
            except urllib.error.HTTPError as error:
                # An earlier try under the same key may still run, or the database may be restarting.
                if error.code < 500 and error.code not in (409, 429):
                    raise ServerError(f"{path}: {error.code} {error.read()[:300]!r}") from error
            except OSError:
                pass
            time.sleep(PAUSE_SECONDS)
        raise ServerError(f"{path}: no answer within {PATIENCE_SECONDS:.0f} s")

    def _post(self, path: str, body: dict[str, Any], named: str) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v1/{path}",
            json.dumps(body).encode(),
            {
                "Authorization": f"Bearer {self.key}",
                "Content-Type": "application/json",
                "Idempotency-Key": named,
            },
        )
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@dataclass
class Log:
    """Acknowledged writes: the name in each, by table."""

    names: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    problems: list[str] = field(default_factory=list)


@dataclass
class Trial:
    """One run: the product, its client, and the acknowledged writes."""

    product: Product
    api: Api
    endpoint: Endpoint
    conversation: int
    log: Log = field(default_factory=Log)
    done: threading.Event = field(default_factory=threading.Event)

    def record(self) -> int:
        name = str(uuid4())
        made = self.api.write(f"spaces/{SPACE}/records", {"title": name, "notes": "The queue is stuck."})
        self.log.names["record"].append(name)
        return int(made["id"])

    def assembly(self) -> int:
        name = str(uuid4())
        made = self.api.write("assemblies", {"space": SPACE, "stage": 3, "conversation": name})
        self.log.names["assembly"].append(name)
        return int(made["id"])

    def message(self, text: str) -> int:
        name = f"{text} {uuid4()}"
        made = self.api.write(f"conversations/{self.conversation}/messages", {"text": name})
        self.log.names["message"].append(name)
        return int(made["id"])

    def keep_writing(self) -> None:
        while not self.done.wait(PAUSE_SECONDS):
            try:
                self.record()
                self.assembly()
            except ServerError as error:
                self.log.problems.append(str(error))

    def fill(self) -> None:
        """Give the worker seconds of embedding work, and return once it has started."""
        rows = [{"title": f"{uuid4()} {number}", "notes": "Words. " * 100} for number in range(BULK_ROWS)]
        self.api.write(f"spaces/{SPACE}/records/bulk", {"records": rows})
        wait_until(partial(self._is_held, Lock.EMBED), seconds=30, what="embedding")

    def _is_held(self, lock: Lock) -> bool:
        return bool(self.product.ask(HELD, lock.number()))

    def ask_slowly(self) -> int:
        """Make the chat worker wait for the endpoint, and return the message that it sends."""
        before = len(self.endpoint.asked)
        message = self.message("Slow")
        wait_until(lambda: len(self.endpoint.asked) > before, seconds=60, what="a question")
        return message

    def seconds_to_go_on(self, since: float, *messages: int) -> dict[str, float]:
        """Start one piece of each kind of work, and return when each is done, these messages included."""
        goals: dict[str, Callable[[], bool]] = {
            "embedding": partial(self._has, EMBEDDED, self.record()),
            "folding": partial(self._lacks, UNFOLDED, self.assembly()),
            "chat": partial(self._are_answered, (self.message("Quick"), *messages)),
        }
        took = {"site": time.monotonic() - since}
        while goals:
            for name in [name for name, is_reached in goals.items() if is_reached()]:
                took[name] = time.monotonic() - since
                del goals[name]
            if time.monotonic() - since > PATIENCE_SECONDS:
                raise ServerError(f"{', '.join(goals)}: not within {PATIENCE_SECONDS:.0f} s")
            time.sleep(PAUSE_SECONDS)
        return took

    def _has(self, statement: str, key: int) -> bool:
        return bool(self.product.ask(statement, key))

    def _lacks(self, statement: str, key: int) -> bool:
        return self.product.ask(f"SELECT EXISTS ({statement})", key) == [(False,)]

    def _are_answered(self, messages: tuple[int, ...]) -> bool:
        return all(self.product.ask(STATE, message) == [("answered",)] for message in messages)


@dataclass(frozen=True)
class Kill:
    """A process to kill or freeze. `prepare` makes it busy and returns messages that must be answered."""

    what: str
    find: Callable[[Trial], psutil.Process]
    prepare: Callable[[Trial], tuple[int, ...]] = lambda _: ()
    is_stop: bool = False

    def run(self, trial: Trial) -> dict[str, float]:
        messages = self.prepare(trial)
        victim = self.find(trial)
        since = time.monotonic()
        victim.send_signal(signal.SIGSTOP if self.is_stop else signal.SIGKILL)
        return trial.seconds_to_go_on(since, *messages)


def _child(word: str) -> Callable[[Trial], psutil.Process]:
    return lambda trial: trial.product.child(word)


def _web_worker(trial: Trial) -> psutil.Process:
    return trial.product.child(WEB).children()[0]


def _backend(trial: Trial) -> psutil.Process:
    return psutil.Process(trial.product.ask(BACKEND)[0][0])


def _filled(trial: Trial) -> tuple[int, ...]:
    trial.fill()
    return ()


def _asked(trial: Trial) -> tuple[int, ...]:
    return (trial.ask_slowly(),)


KILLS = (
    Kill("a web worker", _web_worker),
    Kill("the worker, idle", _child("worker@%h")),
    Kill("the worker, embedding", _child("worker@%h"), _filled),
    Kill("the chat's worker, idle", _child("chat@%h")),
    Kill("the chat's worker, sending", _child("chat@%h"), _asked),
    Kill("the schedule", _child("beat")),
    Kill("PostgreSQL's main process", lambda trial: trial.product.postmaster()),
    Kill("a backend of PostgreSQL", _backend),
    Kill("the worker, idle: stopped", _child("worker@%h"), is_stop=True),
    Kill("the worker, embedding: stopped", _child("worker@%h"), _filled, is_stop=True),
    Kill("the chat's worker, sending: stopped", _child("chat@%h"), _asked, is_stop=True),
    Kill("the schedule: stopped", _child("beat"), is_stop=True),
)


def kill_web(product: Product, api: Api) -> float:
    """Kill the web's main process. Return the longest time without an answer until others took its place."""
    master = product.child(WEB)
    family = [master, *master.children()]
    answered = time.monotonic()
    deadline, longest = answered + PATIENCE_SECONDS, 0.0
    master.kill()
    while True:
        are_gone = not any(map(_is_alive, family))
        if api.is_up():
            longest, answered = max(longest, time.monotonic() - answered), time.monotonic()
            if are_gone:
                return longest
        if time.monotonic() > deadline:
            raise ServerError(f"the site: not within {PATIENCE_SECONDS:.0f} s")
        time.sleep(PAUSE_SECONDS)


def _is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def _kill_up(trial: Trial) -> tuple[float, float]:
    """Kill `up` and start another. Return the seconds until it is ready and until all work continues."""
    since = time.monotonic()
    trial.product.process.kill()
    trial.product.process.wait()
    trial.product.up()
    ready = time.monotonic() - since
    return ready, max(trial.seconds_to_go_on(since).values())


def measure_kills(rounds: int) -> Section:
    endpoint = Endpoint()
    with endpoint.serving() as url, own_product(url) as product:
        api = Api(product.port, product.manage("create_api_key", "kills", "--scope", "admin").strip())
        api.write("spaces", {"slug": SPACE})
        conversation = int(api.write("conversations", {"space": SPACE})["id"])
        trial = Trial(product, api, endpoint, conversation)
        trial.seconds_to_go_on(time.monotonic())
        writers = [threading.Thread(target=trial.keep_writing) for _ in range(WRITERS)]
        for writer in writers:
            writer.start()
        try:
            figures = _kill_all(trial, rounds)
        finally:
            trial.done.set()
            for writer in writers:
                writer.join()
        return Section("Kills and stops, with writers at work", (*figures, *_count(trial)), _notes(trial))


def _kill_all(trial: Trial, rounds: int) -> list[Figure]:
    figures = []
    for kill in KILLS:
        took = [kill.run(trial) for _ in range(rounds)]
        slowest = {name: max(each[name] for each in took) for name in took[0]}
        say(f"  {kill.what}: {', '.join(f'{name} {value:.1f} s' for name, value in slowest.items())}")
        longest = [max(each.values()) for each in took]
        figures.append(_figure(f"{kill.what}: work goes on", longest, GOES_ON_SECONDS))
    web = [kill_web(trial.product, trial.api) for _ in range(max(5, rounds))]
    figures.append(_figure("the web's main process, in a row: longest without an answer", web, WEB_SECONDS))
    say(f"  web: {', '.join(f'{seconds:.1f} s' for seconds in web)}")
    again = [_kill_up(trial) for _ in range(rounds)]
    say(f"  up: {', '.join(f'{ready:.1f} s, {work:.1f} s' for ready, work in again)}")
    ready, work = zip(*again, strict=True)
    figures.append(_figure("`up`, then a second one: ready", ready, SECOND_UP_SECONDS))
    figures.append(_figure("`up`, then a second one: work goes on", work, GOES_ON_SECONDS))
    return figures


def _figure(what: str, seconds: Sequence[float], limit: float) -> Figure:
    sample = Sample(tuple(seconds))
    bar = at_most(limit, max(seconds), f"≤ {limit:.0f} s each time")
    return Figure(what, "s", len(seconds), sample.median, max(seconds), bar=bar)


TWICE = {
    "record": "SELECT title, count(*) FROM contextopt_record GROUP BY title",
    "assembly": (
        "SELECT conversation, count(*) FROM contextopt_assembly"
        " WHERE conversation <> '' GROUP BY conversation"
    ),
    "message": (
        "SELECT q.text, count(a.id) FROM contextopt_message q LEFT JOIN contextopt_message a"
        " ON a.reply_to_id = q.id WHERE q.author = 'user' GROUP BY q.id, q.text"
    ),
}
SUMS = """
SELECT (SELECT count(*) FROM contextopt_assembly),
       (SELECT coalesce(sum(assemblies), 0) FROM dashboard_quarterrollup),
       (SELECT count(*) FROM dashboard_unfoldedassembly)
"""


def _count(trial: Trial) -> list[Figure]:
    """Compare the acknowledged writes with the stored ones."""
    wait_until(lambda: trial.product.ask(SUMS)[0][2] == 0, seconds=60, what="folding")
    lost = twice = 0
    for table, names in trial.log.names.items():
        rows = trial.product.ask(TWICE[table])
        found: dict[str, int] = defaultdict(int)
        for name, count in rows:
            found[name] += count
        lost += sum(found[name] == 0 for name in names)
        twice += sum(found[name] > 1 for name in names)
    [(assemblies, folded, _)] = trial.product.ask(SUMS)
    return [
        _none("acknowledged writes and messages, lost", sum(map(len, trial.log.names.values())), lost),
        _none("acknowledged writes and answers, there twice", sum(map(len, trial.log.names.values())), twice),
        _none("assemblies, in no rollup or in two", int(assemblies), abs(int(assemblies) - int(folded))),
        _none("writers that gave up", WRITERS, len(trial.log.problems)),
    ]


def _none(what: str, of: int, found: int) -> Figure:
    return Figure(what, "", of, found, bar=at_most(0, found, "none"))


def _notes(trial: Trial) -> tuple[str, ...]:
    messages = len(trial.log.names["message"])
    return (
        (
            "The second time is the longest. Work continues when a record written after the kill is "
            "embedded, an assembly is in the rollups, and a new message and the one being sent are "
            "answered."
        ),
        (
            f"{len(trial.endpoint.asked):,} questions were sent for {messages:,} messages: one whose worker "
            "is killed is asked again under the same idempotency key."
        ),
        *trial.log.problems[:5],
    )
