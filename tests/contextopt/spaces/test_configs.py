"""The migration that adds settings for questions: each space gets a new version, and the old ones stay."""

import json
from importlib import import_module

from django.db import connection

from contextopt.assemblies.verify import read_config, verify_assembly
from contextopt.models import AssemblyPayload, ContextConfig, Space
from tests.factories import make_assembly, make_record

UPGRADE = import_module("contextopt.migrations.0022_question_settings")
MENTIONS = import_module("contextopt.migrations.0035_mention_weights")


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
        # Columns that later upgrades add.
        for name in ("date_weight", "who_weight"):
            cursor.execute(f"ALTER TABLE contextopt_contextconfig ALTER {name} SET DEFAULT 0")
        cursor.execute(UPGRADE.FILL)
        cursor.execute(UPGRADE.PUBLISH)
    first.refresh_from_db()
    assert (first.is_active, first.question_window_days, first.question_max_records) == (False, 7, 5)
    assert first.question_notes_chars == 500
    active = space.configs.active().get()
    assert (active.version, active.created_by, active.window_days, active.max_records) == (4, "upgrade", 7, 5)
    limits = (active.question_window_days, active.question_max_records, active.question_notes_chars)
    assert limits == (None, None, None)


def test_the_upgrade_publishes_the_weights_of_mentions(space: Space) -> None:
    kept = {
        "date_weight": 0,
        "who_weight": 0,
        "question_record_tokens": None,
        "semantic_weight": 5,
        "lexical_weight": 6,
    }
    before = space.configs.publish(space=space, created_by="ann", **kept)
    with connection.cursor() as cursor:
        cursor.execute(MENTIONS.PUBLISH)
    before.refresh_from_db()
    assert (before.is_active, before.date_weight, before.question_record_tokens) == (False, 0, None)
    active = space.configs.active().get()
    assert (active.version, active.created_by, active.semantic_weight) == (before.version + 1, "upgrade", 5)
    default = ContextConfig()
    named = ("lexical_weight", "date_weight", "who_weight", "question_record_tokens")
    assert [getattr(active, name) for name in named] == [getattr(default, name) for name in named]


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
