"""The gateway: how the prompts of a space are treated, and one row for each prompt that passed."""

import django.db.models.deletion
import django.utils.timezone
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('contextopt', '0046_placement'),
    ]

    operations = [
        migrations.CreateModel(
            name='GatewayGap',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('requests', models.PositiveIntegerField()),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name='gateway_gaps', to='contextopt.team')),
            ],
        ),
        migrations.CreateModel(
            name='GatewayPolicy',
            fields=[
                ('space', models.OneToOneField(on_delete=django.db.models.deletion.DB_CASCADE, primary_key=True, related_name='gateway_policy', serialize=False, to='contextopt.space')),
                ('mode', models.CharField(choices=[('audit', 'Audit'), ('insert', 'Insert')], default='audit', max_length=6)),
                ('insert_percent', models.PositiveSmallIntegerField(default=100, help_text='share of conversations that get a context in insert mode, 0 to 100')),
                ('placement', models.CharField(choices=[('auto', 'Cheapest'), ('system', 'System prompt'), ('tail', 'Before the question'), ('append', 'Appended')], default='auto', max_length=6)),
                ('keep', models.CharField(choices=[('sizes', 'Sizes only'), ('question', 'The question'), ('all', 'The question and the answer')], default='sizes', max_length=8)),
                ('history_tokens', models.PositiveIntegerField(blank=True, help_text='cut older turns beyond this many tokens; blank to never cut', null=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
            ],
            options={
                'verbose_name_plural': 'gateway policies',
                'constraints': [models.CheckConstraint(condition=models.Q(('mode__in', ['audit', 'insert'])), name='gateway_policy_mode'), models.CheckConstraint(condition=models.Q(('keep__in', ['sizes', 'question', 'all'])), name='gateway_policy_keep'), models.CheckConstraint(condition=models.Q(('insert_percent__lte', 100)), name='gateway_policy_percent'), models.CheckConstraint(condition=models.Q(('placement__in', {'append': 'Appended', 'auto': 'Cheapest', 'system': 'System prompt', 'tail': 'Before the question'})), name='gateway_policy_placement')],
            },
        ),
        migrations.CreateModel(
            name='GatewayRequest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uid', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('protocol', models.CharField(choices=[('chat', 'Chat completions'), ('responses', 'Responses'), ('messages', 'Messages')], max_length=9)),
                ('model', models.CharField(blank=True, max_length=120)),
                ('is_streamed', models.BooleanField(default=False)),
                ('mode', models.CharField(choices=[('audit', 'Audit'), ('insert', 'Insert')], max_length=6)),
                ('is_inserted', models.BooleanField(default=False)),
                ('reason', models.CharField(blank=True, choices=[('no_space', 'The team has no space'), ('unnamed_space', 'The team has several spaces and the request names none'), ('unknown_space', 'The key reaches no space of that name'), ('too_large', 'The request is over 32 MiB'), ('compressed', 'The request is compressed'), ('unreadable', "The request is not the protocol's JSON"), ('no_question', 'The request has no user text'), ('tool_results', 'The turn ends in tool results and had no context before'), ('empty', 'The context is empty'), ('over_budget', 'The prompt leaves no room for a context'), ('timeout', 'The context took longer than 150 ms'), ('unavailable', 'The database was not available'), ('failed', 'Assembling the context failed')], max_length=13)),
                ('outcome', models.CharField(choices=[('answered', 'Answered'), ('unreachable', 'Not reachable'), ('broken', 'Broke off'), ('abandoned', 'Client disconnected')], max_length=11)),
                ('status_code', models.PositiveSmallIntegerField(help_text="the provider's; null without an answer", null=True)),
                ('conversation', models.CharField(blank=True, max_length=64)),
                ('turn', models.PositiveIntegerField(null=True)),
                ('question_hash', models.CharField(blank=True, max_length=32)),
                ('request_bytes', models.PositiveBigIntegerField()),
                ('answer_bytes', models.PositiveBigIntegerField()),
                ('prompt_tokens', models.PositiveIntegerField(null=True)),
                ('context_tokens', models.PositiveIntegerField(null=True)),
                ('input_tokens', models.PositiveBigIntegerField(null=True)),
                ('cached_tokens', models.PositiveBigIntegerField(null=True)),
                ('cache_write_tokens', models.PositiveBigIntegerField(null=True)),
                ('output_tokens', models.PositiveBigIntegerField(null=True)),
                ('added_ms', models.FloatField(help_text="from the whole request's arrival until it went on upstream")),
                ('first_byte_ms', models.FloatField(help_text="from its arrival to the answer's first byte", null=True)),
                ('total_ms', models.FloatField()),
                ('question', models.TextField(blank=True, help_text="kept only if the space's policy says so")),
                ('answer', models.TextField(blank=True, help_text="kept only if the space's policy says so")),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('api_key', models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_SET_NULL, related_name='gateway_requests', to='contextopt.apikey')),
                ('assembly', models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_SET_NULL, related_name='gateway_requests', to='contextopt.assembly')),
                ('space', models.ForeignKey(null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name='gateway_requests', to='contextopt.space')),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name='gateway_requests', to='contextopt.team')),
            ],
            options={
                'indexes': [models.Index(fields=['team', '-created_at', '-id'], name='gateway_newest'), models.Index(condition=models.Q(('conversation', ''), _negated=True), fields=['team', 'conversation', '-created_at', '-id'], name='gateway_conversation')],
                'constraints': [models.CheckConstraint(condition=models.Q(('protocol__in', ['chat', 'responses', 'messages'])), name='gateway_protocol'), models.CheckConstraint(condition=models.Q(('mode__in', ['audit', 'insert'])), name='gateway_mode'), models.CheckConstraint(condition=models.Q(('outcome__in', ['answered', 'unreachable', 'broken', 'abandoned'])), name='gateway_outcome'), models.CheckConstraint(condition=models.Q(('is_inserted', False), models.Q(('mode', 'insert'), ('reason', '')), _connector='OR'), name='gateway_inserted')],
            },
        ),
    ]
