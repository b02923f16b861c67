"""Models are loaded before a process takes requests."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# The models that are in memory, and the one that contexts use.
PROBE = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
from contextopt.search.embedders import current
print(json.dumps({"models": list(current._loaded), "configured": current.configured_embedder()}))
"""


def load(module: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, "-c", PROBE, module], env=environment, capture_output=True, text=True, check=True
    )


@pytest.mark.parametrize("module", ["config.asgi", "config.wsgi"])
def test_a_web_process_has_its_model(module: str) -> None:
    found = json.loads(load(module).stdout)
    assert found["models"] == [found["configured"]]


def test_a_web_process_starts_without_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).write_text("damaged")
    started = load("config.asgi", EMBEDDING_MODEL="onnx", EMBEDDING_MODEL_PATH=str(tmp_path))
    assert json.loads(started.stdout.splitlines()[-1])["models"] == []
    assert "embedder_not_loaded" in started.stdout + started.stderr


def test_a_web_process_asks_no_endpoint() -> None:
    variables = {
        "EMBEDDING_MODEL": "endpoint",
        "EMBEDDING_ENDPOINT_MODEL": "small",
        "EMBEDDING_DIMENSIONS": "16",
        "EMBEDDING_BASE_URL": "http://127.0.0.1:9/v1",
    }
    assert json.loads(load("config.asgi", **variables).stdout)["models"] == []
