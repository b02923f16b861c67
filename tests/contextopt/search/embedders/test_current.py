import json
import logging
from pathlib import Path

import numpy as np
import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given, settings
from hypothesis import strategies as st

from config.variables import env_choice
from contextopt.search.embedders import localmodels
from contextopt.search.embedders.current import configured_embedder, get_embedder
from contextopt.search.embedders.endpoints import Endpoint, EndpointEmbedder
from contextopt.search.embedders.localmodels import MINILM_HINT, load_folder, load_minilm
from contextopt.search.embedders.values import EmbeddingUnavailable
from tests.model_server import FAILING, GARBAGE, SLOW, ModelServer, Reply, Seen, busy, embeddings, refused

TEXTS = ["The queue got stuck after a deploy", "Workers wait for a lock that nobody holds", "A cake recipe"]
MINILM = "onnx:all-MiniLM-L6-v2-int8"


@pytest.fixture
def server():
    with ModelServer() as server:
        yield server


def make_endpoint(server: ModelServer, **overrides) -> EndpointEmbedder:
    values = {
        "base_url": server.base_url, "api_key": "sk-secret", "model": "small", "dimensions": 8, "batch": 4,
        "timeout_seconds": 2.0,
    }  # fmt: skip
    return EndpointEmbedder(Endpoint(**{**values, **overrides}))


@pytest.mark.parametrize("name", ["wordllama-256", MINILM])
def test_like_texts_are_nearer_than_others_and_blank_ones_are_zeros(name: str) -> None:
    embedder = get_embedder(name)
    vectors = embedder.embed([*TEXTS, "", " \n"])
    assert vectors.shape == (5, embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors[:3], axis=1), 1, atol=1e-5)
    assert not vectors[3:].any()
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    assert embedder.embed([]).shape == (0, embedder.dimensions)
    assert get_embedder(name) is embedder


@pytest.mark.parametrize("name", ["wordllama-256", MINILM])
def test_a_text_has_one_vector_whatever_it_is_embedded_with(name: str) -> None:
    embedder = get_embedder(name)
    together = embedder.embed([*TEXTS, "x" * 50_000, "word " * 5_000])
    alone = np.concatenate([embedder.embed([text]) for text in [*TEXTS, "x" * 50_000, "word " * 5_000]])
    # The int8 model's rounding depends on the batch.
    assert (together * alone).sum(axis=1).min() > 0.98


@settings(max_examples=50)
@given(st.lists(st.text(max_size=200), max_size=5))
def test_any_text_is_a_unit_vector_or_zeros(texts: list[str]) -> None:
    lengths = np.linalg.norm(get_embedder("wordllama-256").embed(texts), axis=1)
    assert all(length == 0 or abs(length - 1) < 1e-4 for length in lengths)


def test_a_missing_package_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(localmodels, "MINILM_MODEL", ("no_such_package", "model.onnx"))
    with pytest.raises(EmbeddingUnavailable, match="pip install"):
        load_minilm()
    assert "config/requirements/minilm.txt" in MINILM_HINT


def test_a_folder_says_which_file_is_missing_or_broken(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingUnavailable, match=r"no model\.onnx"):
        load_folder(tmp_path)
    vocabulary = {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "model": vocabulary}))
    for content in (b"", b"not a model", b"\x08\x07\x12\x00"):
        (tmp_path / "model.onnx").write_bytes(content)
        with pytest.raises(EmbeddingUnavailable, match="ONNXRuntimeError"):
            load_folder(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b"[1]", b'{"version": "1.0"}'])
def test_a_broken_tokenizer_is_a_named_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.onnx").touch()
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(EmbeddingUnavailable, match="Cannot instantiate Tokenizer"):
        load_folder(tmp_path)


def test_the_settings_name_the_embedder(settings) -> None:
    assert configured_embedder() == "wordllama-256"
    settings.EMBEDDING_MODEL, settings.EMBEDDING_MODEL_PATH = "onnx", "/models/gte-small"
    assert configured_embedder() == "onnx:gte-small"
    settings.EMBEDDING_MODEL, settings.EMBEDDING_ENDPOINT_MODEL = "endpoint", "nomic"
    settings.EMBEDDING_DIMENSIONS = 768
    assert configured_embedder() == "endpoint:nomic:768"
    with pytest.raises(EmbeddingUnavailable, match="no settings for the embedding model"):
        get_embedder("endpoint:nomic:768")


def test_an_unknown_choice_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDING_MODEL", "word2vec")
    with pytest.raises(ImproperlyConfigured, match="EMBEDDING_MODEL is 'word2vec'; use one of wordllama"):
        env_choice("EMBEDDING_MODEL", ("wordllama", "minilm"))


def test_an_endpoint_is_asked_in_bounded_batches_with_the_key(server: ModelServer) -> None:
    embedder = make_endpoint(server)
    vectors = embedder.embed([*TEXTS, " ", *TEXTS])
    assert [len(seen.body["input"]) for seen in server.seen] == [4, 2]
    assert server.seen[0].headers["authorization"] == "Bearer sk-secret"
    assert np.allclose(vectors[0], vectors[4])
    assert not vectors[3].any()
    assert embedder.name == "endpoint:small:8"


def test_temporary_failures_are_tried_again(server: ModelServer) -> None:
    server.script += [busy("0.05"), FAILING]
    assert make_endpoint(server).embed(TEXTS).any(axis=1).all()
    assert len(server.seen) == 3


def test_a_question_is_asked_once_and_nobody_waits_long(server: ModelServer) -> None:
    server.script += [busy("0")]
    with pytest.raises(EmbeddingUnavailable, match="status 429"):
        make_endpoint(server).embed(["one question"])
    server.script += [busy("3600")]
    with pytest.raises(EmbeddingUnavailable, match="status 429"):
        make_endpoint(server).embed(TEXTS)
    assert len(server.seen) == 2


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (SLOW, r"took more than 0\.2 s"),
        (GARBAGE, "small (sent|returns|did not return)"),
        (Reply(body={"data": "none"}), "not return a list of vectors|unreadable"),
        (Reply(body={"data": None}), "not return a list of vectors|unreadable"),
        (embeddings(["a"], 8), "1 vectors for 3 texts"),
        (embeddings(TEXTS, 9), "returns vectors with 9 dimensions; set EMBEDDING_DIMENSIONS"),
        (refused(401), "status 401"),
        (refused(404), "status 404"),
    ],
)
def test_a_bad_answer_is_a_named_error(server: ModelServer, reply: Reply, message: str, caplog) -> None:
    server.script += [reply] * 3
    caplog.set_level(logging.DEBUG)
    with pytest.raises(EmbeddingUnavailable, match=message) as caught:
        make_endpoint(server, timeout_seconds=0.2).embed(TEXTS)
    assert "sk-secret" not in caplog.text + str(caught.value) + repr(make_endpoint(server)._endpoint)


def test_nobody_listening_is_a_named_error(server: ModelServer) -> None:
    with pytest.raises(EmbeddingUnavailable, match="cannot be reached"):
        make_endpoint(server, base_url="http://127.0.0.1:9/v1").embed(["word"])


def test_one_refused_text_costs_only_its_own_vector(server: ModelServer) -> None:
    def respond(seen: Seen) -> Reply:
        return refused() if "poison" in seen.body["input"] else server.respond_well(seen)

    server.respond = respond
    vectors = make_endpoint(server).embed([*TEXTS, "poison"])
    assert vectors.any(axis=1).tolist() == [True, True, True, False]


def test_an_endpoint_that_refuses_everything_is_unavailable(server: ModelServer) -> None:
    server.respond = lambda seen: refused()
    with pytest.raises(EmbeddingUnavailable, match="status 400"):
        make_endpoint(server).embed(TEXTS)
