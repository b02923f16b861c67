"""Snapshots of settings that older versions logged."""

import json

from contextopt.assemblies.models import AssemblyPayload
from contextopt.assemblies.verify import read_config, verify_assembly
from contextopt.spaces.models import Space
from tests.factories import make_assembly, make_record


def test_an_assembly_of_before_still_verifies(space: Space) -> None:
    """Older snapshots have one window, one record limit, and another name for the notes' limit."""
    make_record(space)
    payload = AssemblyPayload.objects.get(pk=make_assembly(space, query="queue").id)
    later = ("question_", "date_", "who_")
    before = {name: value for name, value in payload.config.items() if not name.startswith(later)}
    payload.config = json.loads(json.dumps({**before, "notes_chars": 500}))
    config = read_config(payload.config)
    assert (config.question_window_days, config.question_max_records) == (14, 20)
    assert (config.question_notes_chars, config.question_record_tokens) == (500, None)
    assert (config.date_weight, config.who_weight) == (0, 0)
    assert verify_assembly(payload) == []
