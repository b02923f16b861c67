"""The examples in the API reference are requests that were made: the story is told again and compared."""

import inspect
import json
import os
import re
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from contextopt.people.models import Role, Team
from tests import factories
from tests.contextopt.api.conftest import make_caller
from tests.contextopt.api.documented import described_paths
from tests.contextopt.api.story import Story, tell
from tests.model_server import ModelServer

pytestmark = pytest.mark.django_db
# Null if the queues do not exist, or the database runs on another machine.
MACHINE = {"queue_length", "chat_queue_length", "disk_free_bytes", "disk_total_bytes"}


@pytest.fixture
def told(team: Team, settings: Any) -> dict[str, dict[str, Any]]:
    """Return request and response of every operation, by its id."""
    for name in ("ben", "eva"):
        factories.make_user(name, team, Role.REVIEWER)
    with ModelServer() as server:
        settings.LLM_BASE_URL, settings.LLM_MODEL = server.base_url, "small"
        story = Story(make_caller(team))
        tell(story, team)
    return story.told


def operations() -> dict[str, Path]:
    """Return the file of each operation's examples, which lies beside its endpoint."""
    found = {}
    for methods in described_paths().values():
        for operation in methods.values():
            name = operation["operationId"]
            package = import_module(".".join(name.split("_")[:2]))
            found[name] = Path(inspect.getfile(package)).parent / "examples.json"
    return found


def same_shape(stored: Any, live: Any) -> bool:
    """Return whether both have the same keys and types; figures of the machine may be null in one of them."""
    if isinstance(stored, dict) and isinstance(live, dict):
        shared = stored.keys() - {key for key in MACHINE if None in (stored.get(key), live.get(key))}
        return stored.keys() == live.keys() and all(same_shape(stored[key], live[key]) for key in shared)
    if isinstance(stored, list) and isinstance(live, list):
        return len(stored) == len(live) and all(map(same_shape, stored, live))
    number = (int, float)
    if isinstance(stored, number) and isinstance(live, number):
        return isinstance(stored, bool) == isinstance(live, bool)
    return type(stored) is type(live)


def without_ids(request: Any) -> Any:
    """Return a part of a request without the ids of items, which differ from run to run."""
    if isinstance(request, dict):
        return {
            key: None if re.search(r"(^|_)ids?$", key) else without_ids(part) for key, part in request.items()
        }
    return [without_ids(part) for part in request] if isinstance(request, list) else request


def test_the_examples_are_what_the_api_answers(told: dict[str, dict[str, Any]]) -> None:
    """UPDATE_EXAMPLES=1 stores the story's requests and responses."""
    files: dict[Path, dict[str, Any]] = defaultdict(dict)
    for name, path in operations().items():
        assert name in told, f"the story lacks {name}"
        files[path][name] = told[name]
    for path, examples in files.items():
        if os.environ.get("UPDATE_EXAMPLES"):
            path.write_text(json.dumps(examples, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
        stored = json.loads(path.read_text())
        assert stored.keys() == examples.keys()
        for name, example in examples.items():
            assert stored[name]["status"] == example["status"], name
            assert same_shape(stored[name]["response"], example["response"]), name
            for part in ("path", "query", "body"):
                assert without_ids(stored[name][part]) == without_ids(example[part]), (name, part)
