"""Stored hand-offs that are older than today's format."""

from contextopt.agents.handoffs.status import compression_json
from contextopt.agents.models import Task
from tests.contextopt.agents.handoffs.journeys import compress
from tests.factories import make_finding


def test_warnings_of_before_are_notes(task: Task) -> None:
    make_finding(task)
    compression = compress(task)
    compression.warnings = ["the findings take 9 tokens"]
    (warning,) = compression_json(compression)["warnings"]
    assert warning == {"code": "note", "message": "the findings take 9 tokens", "remedy": None}
