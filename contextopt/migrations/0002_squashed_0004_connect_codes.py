"""Stores the settings of a config as one JSON object, so that a new setting needs no migration.

Adds what the gateway keeps of prompts that clients send to themselves, and the codes of Connect.
"""

from typing import ClassVar

import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
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
    replaces: ClassVar = [
        ("contextopt", "0002_settings_object"),
        ("contextopt", "0003_prompts_of_clients"),
        ("contextopt", "0004_connect_codes"),
    ]
    dependencies: ClassVar = [
        ("contextopt", "0001_squashed_0062_audit_erasure"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations: ClassVar = [
        migrations.AddField("contextconfig", "settings", models.JSONField(default=dict)),
        *(migrations.RemoveConstraint("contextconfig", name) for name in CONSTRAINTS),
        migrations.RunSQL(FORWARDS, BACKWARDS),
        *(migrations.RemoveField("contextconfig", name) for name in NAMES),
        migrations.RemoveConstraint(
            model_name='apikey',
            name='api_key_scope',
        ),
        migrations.AddField(
            model_name='assembly',
            name='awaits_delivery',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='gatewaypolicy',
            name='internal_phrases',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200), blank=True, db_default=[], default=list, help_text="a prompt that contains one of these is the client's own, and gets no context", size=20),
        ),
        migrations.AddField(
            model_name='gatewaypolicy',
            name='time_limit_ms',
            field=models.PositiveSmallIntegerField(db_default=150, default=150, help_text='a prompt waits for its context for at most this long, 50 to 2,000'),
        ),
        migrations.AddField(
            model_name='gatewayrequest',
            name='is_own_part',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='gatewayrequest',
            name='time_limit_ms',
            field=models.PositiveSmallIntegerField(help_text="the space's limit at that time, if the context missed it", null=True),
        ),
        migrations.AlterField(
            model_name='apikey',
            name='scope',
            field=models.CharField(choices=[('gateway', 'Gateway'), ('read', 'Read'), ('write', 'Write'), ('admin', 'Admin')], default='write', max_length=8),
        ),
        migrations.AlterField(
            model_name='gatewayrequest',
            name='reason',
            field=models.CharField(blank=True, choices=[('no_space', 'The team has no space'), ('unnamed_space', 'The team has several spaces and the request names none'), ('unknown_space', 'The key reaches no space of that name'), ('too_large', 'The request is over 32 MiB or 30,000 JSON values'), ('compressed', 'The request is compressed'), ('unreadable', "The request is not the protocol's JSON"), ('no_question', 'The request has no user text'), ('tool_results', 'The turn ends in tool results and had no context before'), ('client_internal', "The client's own prompt, such as for a title or a summary"), ('empty', 'The context is empty'), ('over_budget', 'The prompt leaves no room for a context'), ('timeout', "The context took longer than the space's time limit"), ('busy', "Others' contexts took all of the space's time limit"), ('unavailable', 'The database was not available'), ('failed', 'Assembling the context failed')], max_length=15),
        ),
        migrations.AddIndex(
            model_name='assembly',
            index=models.Index(condition=models.Q(('awaits_delivery', True), ('is_sent', False)), fields=['team', '-created_at', '-id'], name='assembly_undelivered'),
        ),
        migrations.AddConstraint(
            model_name='apikey',
            constraint=models.CheckConstraint(condition=models.Q(('scope__in', ['gateway', 'read', 'write', 'admin'])), name='api_key_scope'),
        ),
        migrations.AddConstraint(
            model_name='apikey',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('scope', 'gateway'), _negated=True), models.Q(('expires_at__isnull', False), ('space_ids__len__gte', 1)), _connector='OR'), name='api_key_gateway_is_limited'),
        ),
        migrations.AddConstraint(
            model_name='gatewaypolicy',
            constraint=models.CheckConstraint(condition=models.Q(('time_limit_ms__range', (50, 2000))), name='gateway_policy_time_limit'),
        ),
        migrations.CreateModel(
            name='ConnectCode',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('space_ids', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), editable=False, null=True)),
                ('code_hash', models.CharField(editable=False, max_length=64, unique=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('expires_at', models.DateTimeField()),
                ('redeemed_at', models.DateTimeField(null=True)),
                ('machine', models.CharField(blank=True, max_length=60)),
                ('key', models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name='connect_codes', to='contextopt.apikey')),
                ('space', models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to='contextopt.space')),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name='connect_codes', to='contextopt.team')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name='connect_codes', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('key', None), ('redeemed_at', None)), models.Q(('key__isnull', False), ('redeemed_at__isnull', False)), _connector='OR'), name='connect_code_redeemed')],
            },
        ),
    ]
