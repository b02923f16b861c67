"""The time to load a model or a tokenizer doesn't count as assembly time."""

import time
from threading import Event

import pytest

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.engine.text import encodings, tokens
from contextopt.search import registry
from contextopt.search.embedders import current
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.spaces.models import Space
from contextopt.telemetry import loading, work_seconds
from tests.concurrency import beside
from tests.factories import NOW, make_record

LOADING_SECONDS = 1.0


def hidden_ms(space: Space, query: str) -> float:
    """Preview a context; return the milliseconds that its assembly time leaves out."""
    request = AssemblyIn(space=space.slug, query=query, window_days="all", as_of=NOW)
    started = time.perf_counter()
    result = assemble_space(team_id=space.team_id, request=request, actor="test", store=False)
    return (time.perf_counter() - started) * 1_000 - result.assembly_ms


def test_an_embedder_that_is_still_being_loaded(space: Space) -> None:
    make_record(space)
    ensure_embedded(registry.get("record"), space.pk, limit=10)
    current._loaded.clear()
    is_held = Event()

    def load_slowly() -> None:
        with current._lock:
            is_held.set()
            time.sleep(LOADING_SECONDS)

    other = beside(load_slowly)
    assert is_held.wait(10)
    assert hidden_ms(space, "queue") > LOADING_SECONDS * 900
    other.result(10)


def test_a_tokenizer_that_is_loaded_first(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = tokens.get_tokenizer("cl100k_base")
    monkeypatch.setattr(tokens, "_tokenizers", {})
    monkeypatch.setattr(encodings, "_loadings", {})
    assert hidden_ms(space, "") > 20
    assert tokens.get_tokenizer("cl100k_base") is not tokenizer


def test_loading_inside_loading_counts_once() -> None:
    started, clock = time.perf_counter(), work_seconds()
    with loading():
        time.sleep(0.05)
        with loading():
            time.sleep(0.05)
    time.sleep(0.05)
    passed = time.perf_counter() - started
    assert 0.05 <= work_seconds() - clock <= passed - 0.1
