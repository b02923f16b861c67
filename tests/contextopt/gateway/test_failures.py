"""Upstreams, clients, the gateway and the database fail, and no prompt is broken by us."""

import asyncio
import collections
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx2
import psutil
import psycopg
import pytest
from django.db import connection
from django.utils import timezone
from psycopg import sql
from psycopg.conninfo import make_conninfo

from config.embedded.pulses import FOLDER, MainLoop, Pulses
from contextopt.assemblies.models import Assembly
from contextopt.gateway.admission import load_admission
from contextopt.gateway.app import Gateway
from contextopt.gateway.deciders import DECIDERS, Deciders
from contextopt.gateway.insertion import Conversation
from contextopt.gateway.modelanswers import AnswerCopy
from contextopt.gateway.models import GatewayPolicy, GatewayRequest, Mode, Outcome, Protocol
from contextopt.gateway.preparation import Arrival, Prepared
from contextopt.gateway.promptlog import RequestJob
from contextopt.gateway.protocols import read_chat
from contextopt.gateway.relay import READ_MAX_BYTES, Relayed
from contextopt.people.models import Scope, hash_key
from tests import factories
from tests.concurrency import in_own_loop, wait_until
from tests.contextopt.gateway.conftest import (
    PROCESSES,
    Caller,
    Process,
    gateway_process,
    said,
)
from tests.gateway_upstream import Answer, Upstream, chat_events, event, respond_well, stream, whole
from tests.processes import database, free_port

CHAT = "/v1/chat/completions"
ASKED = {"model": "m", "stream": True, "messages": said("Why is the queue stuck?")}


def opened(caller: Caller, **options: Any) -> Any:
    address = f"{caller.address}{CHAT}"
    options = {"timeout": 20, "verify": False, **options}
    return httpx2.stream("POST", address, json=ASKED, headers=caller.headers, **options)


@pytest.mark.parametrize("is_chunked", [True, False])
def test_an_upstream_that_breaks_off(caller: Caller, upstream: Upstream, is_chunked: bool) -> None:
    """The client sees what it would see without us: the beginning, then the end of the connection."""
    events = chat_events()
    upstream.respond = lambda _: stream(events, is_cut=True, is_chunked=is_chunked)
    parts: list[bytes] = []
    with opened(caller) as response, pytest.raises(httpx2.RemoteProtocolError):
        collections.deque((parts.append(chunk) for chunk in response.iter_raw()), maxlen=0)
    got = b"".join(parts)
    assert got == b"".join(events[: len(events) // 2])
    [row] = caller.logged()
    assert (row.outcome, row.status_code, row.input_tokens) == ("broken", 200, None)
    assert row.answer_bytes == len(got)


def test_a_failure_that_an_answer_reports(caller: Caller, upstream: Upstream) -> None:
    """A provider that fails in the middle of a stream has sent the status 200 already."""
    failure = {"error": {"message": "The server had an error", "type": "server_error"}}
    upstream.respond = lambda _: stream([*chat_events()[:2], event(failure)])
    with opened(caller) as response:
        assert response.read().endswith(event(failure))
    [row] = caller.logged()
    assert (row.outcome, row.status_code) == ("broken", 200)


def test_a_refusal_is_an_answer(caller: Caller, upstream: Upstream) -> None:
    upstream.respond = lambda _: whole({"error": {"message": "Overloaded"}}, status=529)
    with opened(caller) as response:
        response.read()
    [row] = caller.logged()
    assert (row.outcome, row.status_code) == ("answered", 529)


def test_a_client_that_leaves(caller: Caller, upstream: Upstream) -> None:
    """The upstream learns of it, so it can stop generating."""
    upstream.respond = lambda _: stream(chat_events() * 200, pause_seconds=0.05)
    before = upstream.left
    with opened(caller) as response:
        next(response.iter_raw())
    wait_until(lambda: upstream.left > before)
    assert caller.logged()[0].outcome == "abandoned"


def test_a_client_that_leaves_at_an_error(caller: Caller, upstream: Upstream) -> None:
    """It need not read more than the status."""
    refusal = Answer([b"{}"] * 200, pause_seconds=0.05, status=529)
    upstream.respond = lambda _: refusal
    before = upstream.left
    with opened(caller) as response:
        assert response.status_code == 529
        next(response.iter_raw())
    wait_until(lambda: upstream.left > before)
    [row] = caller.logged()
    assert (row.outcome, row.status_code) == ("answered", 529)


def test_a_client_that_leaves_at_the_last_event(caller: Caller, upstream: Upstream) -> None:
    """OpenAI's client disconnects at [DONE], which is often before the provider ends the stream."""
    upstream.respond = lambda _: stream([*chat_events(), *[b"\n"] * 20], pause_seconds=0.05)
    before, got = upstream.left, b""
    with opened(caller) as response:
        for chunk in response.iter_raw():
            got += chunk
            if b"[DONE]" in got:
                break
    wait_until(lambda: upstream.left > before)
    [row] = caller.logged()
    assert (row.outcome, row.input_tokens, row.output_tokens) == ("answered", 40, 9)


def test_an_upstream_that_hangs(caller: Caller, upstream: Upstream) -> None:
    upstream.respond = lambda _: stream([], is_silent=True)
    with pytest.raises(httpx2.ReadTimeout), opened(caller, timeout=1.0):
        pass
    [row] = caller.logged()
    assert (row.outcome, row.status_code, row.first_byte_ms) == ("abandoned", None, None)


def test_each_chunk_passes_when_it_comes(caller: Caller, upstream: Upstream) -> None:
    upstream.respond = lambda _: stream([b"data: 1\n\n", b"data: 2\n\n"], pause_seconds=3_600)
    with opened(caller) as response:
        assert next(response.iter_raw()) == b"data: 1\n\n"


def test_a_client_that_sends_half_a_request(caller: Caller, upstream: Upstream) -> None:
    assert send_half(caller, 99).startswith(b"HTTP/1.1 400 ")
    caller.chat("Hi")
    assert len(upstream.got) == 1


def test_a_client_that_leaves_while_it_sends(caller: Caller) -> None:
    """A request that long passes as it comes."""
    assert send_half(caller, READ_MAX_BYTES + 1).startswith(b"HTTP/1.1 400 ")
    [row] = caller.logged()
    assert (row.outcome, row.reason) == ("abandoned", "too_large")


def test_a_client_that_stops_sending(caller: Caller, upstream: Upstream, tmp_path: Path) -> None:
    process = gateway_process(upstream, tmp_path, BODY_STALL_SECONDS="1")
    process.start()
    own = Caller(caller.space, caller.secret, process.address)
    try:
        # A request that is too long to be read passes as it comes.
        answers = [send_half(own, length, is_cut=False) for length in (99, READ_MAX_BYTES + 1)]
    finally:
        process.stop()
    for answer in answers:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in head
        assert json.loads(body)["error"]["message"] == "The body did not arrive in time."


def test_a_client_without_a_key_is_refused_before_its_body(caller: Caller) -> None:
    assert send_half(replace(caller, secret=""), 99, is_cut=False).startswith(b"HTTP/1.1 401 ")


def send_half(caller: Caller, length: int, *, is_cut: bool = True) -> bytes:
    """Announce a request of this length, send no more than its beginning, and return what comes back until
    the server closes the connection.
    """
    host, port = caller.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        lines = (
            f"POST {CHAT} HTTP/1.1",
            "Host: x",
            f"X-Contextopt-Key: {caller.secret}",
            f"Content-Length: {length}",
        )
        client.sendall("\r\n".join([*lines, "", '{"model"']).encode())
        if is_cut:
            client.shutdown(socket.SHUT_WR)
        client.settimeout(60)
        return b"".join(iter(lambda: client.recv(1_000), b""))


@pytest.fixture
def own(caller: Caller, upstream: Upstream, tmp_path: Path) -> Iterator[tuple[Process, Caller, Upstream]]:
    """A gateway that may be killed, with an upstream that may be stopped."""
    process = gateway_process(upstream, tmp_path)
    process.start()
    yield process, Caller(caller.space, caller.secret, process.address), upstream
    process.stop()


def test_no_upstream_answers(caller: Caller, upstream: Upstream, tmp_path: Path) -> None:
    process = gateway_process(upstream, tmp_path, LLM_BASE_URL=f"http://127.0.0.1:{free_port()}/v1")
    process.environment["ANTHROPIC_BASE_URL"] = ""
    process.start()
    try:
        own = Caller(caller.space, caller.secret, process.address)
        refused = own.chat("Hi")
        assert (refused.status_code, refused.json()["error"]["type"]) == (502, "api_error")
        assert refused.headers["x-should-retry"] == "true"
        assert caller.logged()[0].outcome == "unreachable"
        unset = own.post("/v1/messages", {"messages": said("Hi")})
        assert (unset.status_code, unset.headers["x-should-retry"]) == (502, "false")
        assert "ANTHROPIC_BASE_URL" in unset.json()["error"]["message"]
    finally:
        process.stop()


class Load:
    """Threads that send prompts with texts of their own, and note what came back."""

    def __init__(self, caller: Caller, threads: int = 4) -> None:
        self.caller = caller
        self.sent: list[str] = []
        self.answered: list[str] = []
        self.refused: list[str] = []
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self, thread: int) -> None:
        number = 0
        while not self._ends.is_set():
            number += 1
            text = f"Question {number} of {thread}?"
            self.sent.append(text)
            try:
                response = self.caller.send(CHAT, {"model": "m", "messages": said(text)}, {})
            except httpx2.TransportError:
                self.refused.append("gateway away")
                time.sleep(0.05)
                continue
            if response.status_code == 200:
                self.answered.append(text)
            else:
                self.refused.append(f"{response.status_code} {response.text}")
            time.sleep(0.02)

    def end(self) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()


def test_the_gateway_is_killed(own: tuple[Process, Caller, Upstream]) -> None:
    process, caller, _ = own
    GatewayPolicy.objects.create(space=caller.space, mode="insert")
    load = Load(caller)
    try:
        wait_until(lambda: len(load.answered) > 10)
        os.killpg(process.running.pid, signal.SIGKILL)
        process.running.wait()
        process.start()
        done = len(load.answered)
        wait_until(lambda: len(load.answered) > done + 10)
    finally:
        load.end()
    # Only requests at work in the moment of the kill failed, and those sent while nothing listened.
    assert set(load.refused) == {"gateway away"}
    last = load.answered[-1]
    wait_until(lambda: GatewayRequest.objects.filter(question_hash=digest(last)).exists())
    _assert_logged_once(caller, load)


def deciders(process: Process) -> list[psutil.Process]:
    """The gateway's processes that decide on contexts: the fork server's children."""
    servers = forked(process)
    return [one for one in servers if one.ppid() in {server.pid for server in servers}]


def forked(process: Process) -> list[psutil.Process]:
    """The fork server, which is the oldest, and its children."""
    processes = psutil.Process(process.running.pid).children(recursive=True)
    # A process that has just ended has no command line.
    commands = [(one, one.as_dict(["cmdline"])["cmdline"] or []) for one in processes if one.is_running()]
    return [one for one, command in commands if "multiprocessing.forkserver" in " ".join(command)]


@pytest.mark.parametrize("mode", ["audit", "insert"])
def test_deciders_are_killed(own: tuple[Process, Caller, Upstream], mode: str) -> None:
    process, caller, _ = own
    GatewayPolicy.objects.create(space=caller.space, mode=mode)
    decided = GatewayRequest.objects.filter(team=caller.space.team, assembly__isnull=False)
    load = Load(caller)
    try:
        wait_until(decided.exists)
        killed = deciders(process)
        for one in killed:
            one.kill()
        done = decided.count()
        wait_until(lambda: decided.count() > done + 5)
        # New ones start as they are needed.
        wait_until(lambda: 0 < len(deciders(process)) <= DECIDERS)
    finally:
        load.end()
    assert len(killed) == DECIDERS
    assert (load.refused, len(load.answered)) == ([], len(load.sent))
    wait_until(lambda: GatewayRequest.objects.filter(team=caller.space.team).count() == len(load.sent))
    _assert_logged_once(caller, load)


def test_the_fork_server_hangs(caller: Caller, upstream: Upstream, tmp_path: Path) -> None:
    """Prompts pass without contexts until `up` has ended it."""
    pulses = Pulses(tmp_path / "pulses")
    pulses.reset()
    process = gateway_process(upstream, tmp_path, **{FOLDER: str(pulses.folder)})
    process.start()
    try:
        caller = Caller(caller.space, caller.secret, process.address)
        GatewayPolicy.objects.create(space=caller.space, mode="insert")
        wait_until(lambda: len(deciders(process)) == DECIDERS)
        server, *children = forked(process)
        wait_until((pulses.folder / str(server.pid)).exists)
        server.suspend()
        for child in children:
            child.kill()

        def status() -> str:
            for pid in pulses.find_silent():
                os.kill(pid, signal.SIGKILL)
            assert process.answers()
            response = caller.send(CHAT, {"model": "m", "messages": said("Is it stuck?")}, {})
            return str(response.headers["x-contextopt-status"])

        assert status() != "inserted"
        wait_until(lambda: status() == "inserted")
        assert not server.is_running()
    finally:
        process.stop()


def test_the_loop_shows_that_it_turns(settings: Any) -> None:
    """`up` ends a gateway whose loop hangs."""
    settings.LLM_BASE_URL = settings.ANTHROPIC_BASE_URL = ""
    loop = MainLoop(stuck_seconds=3.0, turned_at=0.0)
    assert not loop.is_well()
    told = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"type": next(told)}

    async def send(_: object) -> None:
        pass

    in_own_loop(Gateway("config.decider", loop.turn)({"type": "lifespan"}, receive, send))
    assert loop.is_well()


def test_deciders_end_with_their_gateway(own: tuple[Process, Caller, Upstream]) -> None:
    process, _, _ = own
    left = deciders(process)
    [gateway] = {psutil.Process(one.ppid()).parent() for one in left}
    assert gateway is not None
    gateway.kill()
    assert psutil.wait_procs(left, timeout=20)[1] == []


def test_the_database_goes_away(own: tuple[Process, Caller, Upstream]) -> None:
    _, caller, _ = own
    _, other = factories.make_key(caller.space.team, Scope.WRITE, "other")
    load = Load(caller)
    try:
        wait_until(lambda: len(load.answered) > 20)
        with outage():
            # Remembered keys need the database again after five seconds.
            time.sleep(6)
            done = len(load.answered)
            wait_until(lambda: len(load.answered) > done + 8)
            refused = caller.send(CHAT, {}, {"X-Contextopt-Key": other})
            assert (refused.status_code, refused.headers["x-should-retry"]) == (503, "true")
    finally:
        load.end()
    assert load.refused == []
    assert len(load.answered) == len(load.sent)
    wait_until(lambda: GatewayRequest.objects.filter(team=caller.space.team).count() == len(load.sent))
    _assert_logged_once(caller, load)


def test_the_upstream_is_stopped(caller: Caller, tmp_path: Path) -> None:
    """Requests fail while it is away, as they would without us, and pass again afterwards."""
    upstream = Upstream(port=free_port())
    with upstream:
        process = gateway_process(upstream, tmp_path)
        process.start()
        load = Load(Caller(caller.space, caller.secret, process.address), threads=2)
        wait_until(lambda: len(load.answered) > 10)
    try:
        time.sleep(0.5)
        with Upstream(respond_well, port=upstream.port):
            done = len(load.answered)
            wait_until(lambda: len(load.answered) > done + 10)
            load.end()
    finally:
        load.end()
        process.stop()
    assert load.refused
    assert all(refused.startswith("502 ") for refused in load.refused)
    wait_until(lambda: GatewayRequest.objects.filter(team=caller.space.team).count() == len(load.sent))
    _assert_logged_once(caller, load)


def digest(text: str) -> str:
    return read_chat(b'{"messages":[{"role":"user","content":"%s"}]}' % text.encode()).turns[0].digest


def _assert_logged_once(caller: Caller, load: Load) -> None:
    rows = GatewayRequest.objects.filter(team=caller.space.team)
    logged = list(rows.values_list("question_hash", flat=True))
    assert len(set(logged)) == len(logged)
    assert set(logged) <= {digest(text) for text in load.sent}
    named = [one for one in rows.values_list("assembly_id", flat=True) if one is not None]
    assert len(set(named)) == len(named)


@contextmanager
def outage() -> Iterator[None]:
    """Close the gateways' connections to the database, and let them open no new ones."""
    name = connection.settings_dict["NAME"]
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    end = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s AND datname = %s"
    )
    beside_it = make_conninfo(database(PROCESSES), dbname="postgres", application_name="outage")
    with psycopg.connect(beside_it, autocommit=True) as beside:
        beside.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
        beside.execute(end, [PROCESSES, name])
        try:
            yield
        finally:
            beside.execute(allow.format(sql.Identifier(name), sql.SQL("true")))
            psycopg.connect(database(PROCESSES)).close()  # It can be reached again, also by the next tests.


class _Here:
    """Decides in the test's own process, and so in its transaction."""

    def run[*Ts, R](self, work: Callable[[*Ts], R], *args: *Ts) -> R:
        return work(*args)


@pytest.mark.django_db
def test_a_second_try_writes_nothing_twice() -> None:
    team = factories.make_team()
    space = factories.make_space(team)
    factories.make_record(space)
    _, secret = factories.make_key(team, Scope.WRITE)
    admission = load_admission(hash_key(secret), "")
    assert admission is not None
    prompt = read_chat(b'{"model":"m","messages":[{"role":"user","content":"Why?"}]}')
    conversation = Conversation("c" * 64, Mode.AUDIT)
    prepared = Prepared(prompt, conversation, drawn_id=10**9, is_new_question=True)
    arrival = Arrival(admission, Protocol.CHAT, "", 1, timezone.now())
    relayed = Relayed(Outcome.ANSWERED, AnswerCopy(), 0.0, None, 0.0)
    job = RequestJob(arrival, prepared, relayed, cast("Deciders", _Here()))
    for _ in range(2):
        job.write()
    # As when the process learned nothing of the first try's success.
    job.prepared, conversation.plan = prepared, None
    job.write()
    [row] = GatewayRequest.objects.all()
    assert (Assembly.objects.count(), row.assembly_id) == (1, 10**9)
