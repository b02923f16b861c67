"""Adds the factors of token counts, and imports from pages."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('contextopt', '0005_words_of_any_script'),
    ]

    operations = [
        migrations.AddField(
            model_name='assembly',
            name='counted_tokens',
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='assembly',
            name='factor',
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name='assembly',
            name='factor_mean',
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name='assembly',
            name='factor_prompts',
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='assembly',
            name='factor_source',
            field=models.CharField(blank=True, db_default='', default='', max_length=7),
        ),
        migrations.CreateModel(
            name='TokenFactor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('model', models.CharField(max_length=120)),
                ('kind', models.CharField(choices=[('prose', 'prose'), ('code', 'code'), ('data', 'data'), ('cjk', 'cjk')], max_length=5)),
                ('prompts', models.PositiveIntegerField(default=0)),
                ('counted_tokens', models.PositiveBigIntegerField(default=0)),
                ('reported_tokens', models.PositiveBigIntegerField(default=0)),
                ('histogram', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list)),
                ('mean', models.PositiveIntegerField(default=0)),
                ('limit', models.PositiveIntegerField(default=0)),
                ('latest_counted', django.contrib.postgres.fields.ArrayField(base_field=models.PositiveIntegerField(), default=list)),
                ('latest_reported', django.contrib.postgres.fields.ArrayField(base_field=models.PositiveIntegerField(), default=list)),
                ('mean_before', models.PositiveIntegerField(null=True)),
                ('since', models.DateTimeField(default=django.utils.timezone.now)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name='token_factors', to='contextopt.team')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('team', 'model', 'kind'), name='token_factor_unique'), models.CheckConstraint(condition=models.Q(('mean__lte', models.F('limit'))), name='token_factor_limit')],
            },
        ),
        migrations.CreateModel(
            name='ImportRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='name of the file, or the git address', max_length=480)),
                ('is_git', models.BooleanField(default=False)),
                ('newest', models.PositiveIntegerField(help_text='newest commits of a git address to fetch', null=True)),
                ('state', models.CharField(choices=[('uploading', 'Uploading'), ('fetching', 'Fetching'), ('preparing', 'Reading the first rows'), ('ready', 'Ready'), ('running', 'Importing'), ('done', 'Finished'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='uploading', max_length=9)),
                ('format', models.CharField(blank=True, help_text='empty: it is recognised', max_length=20)),
                ('options', models.JSONField(default=dict)),
                ('preview', models.JSONField(default=dict)),
                ('report', models.JSONField(default=dict)),
                ('error', models.TextField(blank=True)),
                ('created_by', models.CharField(max_length=160)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('worked_at', models.DateTimeField(default=django.utils.timezone.now, help_text='last sign of life of its process')),
                ('finished_at', models.DateTimeField(null=True)),
                ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name='import_runs', to='contextopt.space')),
            ],
        ),
        migrations.CreateModel(
            name='ImportPart',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('content', models.BinaryField()),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name='parts', to='contextopt.importrun')),
            ],
        ),
        migrations.AddIndex(
            model_name='importrun',
            index=models.Index(fields=['space', '-created_at', '-id'], name='import_run_newest'),
        ),
        migrations.AddIndex(
            model_name='importrun',
            index=models.Index(condition=models.Q(('state__in', ['fetching', 'preparing', 'running', 'uploading', 'ready'])), fields=['worked_at'], name='import_run_open'),
        ),
        migrations.AddConstraint(
            model_name='importrun',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['uploading', 'fetching', 'preparing', 'ready', 'running', 'done', 'failed', 'cancelled'])), name='import_run_state'),
        ),
        migrations.AddConstraint(
            model_name='importpart',
            constraint=models.UniqueConstraint(fields=('run', 'number'), name='import_part_once'),
        ),
    ]
