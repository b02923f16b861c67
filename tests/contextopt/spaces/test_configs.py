"""The migration that adds settings for questions: each space gets a new version, and the old ones stay."""

import json
from importlib import import_module

from django.db import connection

from contextopt.assemblies.verify import read_config, verify_assembly
from contextopt.models import AssemblyPayload, Space
from tests.factories import make_assembly, make_record

UPGRADE = import_module("contextopt.migrations.0022_question_settings")


def test_the_upgrade_publishes_a_version_and_keeps_the_old_ones(space: Space) -> None:
    first = space.configs.publish(
        space=space, created_by="ann", window_days=7, max_records=5, question_notes_chars=500
    )
    space.configs.publish(space=space, created_by="ann", window_days=30)
    space.configs.filter(is_active=True).update(is_active=False)
    space.configs.filter(pk=first.pk).update(is_active=True)
    with connection.cursor() as cursor:
        # A table cannot change while deferred checks of this transaction's rows are pending.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(UPGRADE.FILL)
        cursor.execute(UPGRADE.PUBLISH)
    first.refresh_from_db()
    assert (first.is_active, first.question_window_days, first.question_max_records) == (False, 7, 5)
    assert first.question_notes_chars == 500
    active = space.configs.active().get()
    assert (active.version, active.created_by, active.window_days, active.max_records) == (4, "upgrade", 7, 5)
    limits = (active.question_window_days, active.question_max_records, active.question_notes_chars)
    assert limits == (None, None, None)


def test_an_assembly_of_before_still_verifies(space: Space) -> None:
    """Older snapshots have one window, one record limit, and another name for the notes' limit."""
    make_record(space)
    payload = AssemblyPayload.objects.get(pk=make_assembly(space, query="queue").id)
    before = {name: value for name, value in payload.config.items() if not name.startswith("question_")}
    payload.config = json.loads(json.dumps({**before, "notes_chars": 500}))
    config = read_config(payload.config)
    assert (config.question_window_days, config.question_max_records) == (14, 20)
    assert config.question_notes_chars == 500
    assert verify_assembly(payload) == []
