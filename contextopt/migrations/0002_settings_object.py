"""Stores the settings of a config as one JSON object, so that a new setting needs no migration."""

from typing import ClassVar

from django.db import migrations, models

NUMBERS = (
    "window_days", "max_records", "system_tokens", "history_tokens", "response_tokens", "context_tokens",
    "stage3_context_tokens", "total_tokens", "question_window_days", "question_max_records",
    "question_notes_chars", "question_record_tokens",
)  # fmt: skip
# In JSON, decimals are texts with all their digits, since a float would not be exact.
DECIMALS = (
    "recency_weight", "frequency_weight", "semantic_weight", "lexical_weight", "neighbour_share",
    "date_weight", "who_weight", "adaptive_strictness",
)  # fmt: skip
TEXTS = ("encoding", "record_order", "budget_mode")
NAMES = (*NUMBERS, *DECIMALS, *TEXTS)
CONSTRAINTS = (
    "config_window", "config_max_records", "config_response", "config_weights", "config_strictness",
    "config_total",
)  # fmt: skip

# Rows of settings never change; only this migration may fill its own columns.
_FILL = """
ALTER TABLE contextopt_contextconfig DISABLE TRIGGER contextopt_config_immutable;
UPDATE contextopt_contextconfig SET {values};
ALTER TABLE contextopt_contextconfig ENABLE TRIGGER contextopt_config_immutable;
"""
_TYPES = dict.fromkeys(NUMBERS, "integer") | dict.fromkeys(DECIMALS, "numeric") | dict.fromkeys(TEXTS, "text")
FORWARDS = _FILL.format(
    values="settings = jsonb_build_object({})".format(
        ", ".join(f"'{name}', {name}{'::text' if name in DECIMALS else ''}" for name in NAMES)
    )
)
# A setting that is absent has the default of its column.
BACKWARDS = _FILL.format(
    values=", ".join(
        f"{name} = CASE WHEN settings ? '{name}' THEN (settings->>'{name}')::{kind} ELSE {name} END"
        for name, kind in _TYPES.items()
    )
)


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0001_squashed_0062_audit_erasure")]

    operations: ClassVar = [
        migrations.AddField("contextconfig", "settings", models.JSONField(default=dict)),
        *(migrations.RemoveConstraint("contextconfig", name) for name in CONSTRAINTS),
        migrations.RunSQL(FORWARDS, BACKWARDS),
        *(migrations.RemoveField("contextconfig", name) for name in NAMES),
    ]
