"""Vectors of texts, and triggers that note each text that was written."""

import django.contrib.postgres.indexes
import django.db.models.deletion
import pgvector.django
from django.db import migrations, models

# Arguments: the searchable's name and its column of the corpus. Other tables attach the same functions.
NOTE = """
CREATE FUNCTION contextopt_note_inserted_texts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'INSERT INTO contextopt_embeddingtodo (searchable, corpus_id, row_id) SELECT %L, %I, id FROM inserted',
        TG_ARGV[0], TG_ARGV[1]);
    RETURN NULL;
END $$;

CREATE FUNCTION contextopt_note_updated_text() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'INSERT INTO contextopt_embeddingtodo (searchable, corpus_id, row_id) SELECT %L, ($1).%I, ($1).id',
        TG_ARGV[0], TG_ARGV[1]) USING NEW;
    RETURN NULL;
END $$;

CREATE TRIGGER contextopt_record_texts_inserted AFTER INSERT ON contextopt_record
    REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT
    EXECUTE FUNCTION contextopt_note_inserted_texts('record', 'space_id');
CREATE TRIGGER contextopt_record_text_updated AFTER UPDATE OF title, notes, deleted_at ON contextopt_record
    FOR EACH ROW WHEN (OLD.title IS DISTINCT FROM NEW.title OR OLD.notes IS DISTINCT FROM NEW.notes
                       OR (OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL))
    EXECUTE FUNCTION contextopt_note_updated_text('record', 'space_id');
"""
UNNOTE = """
DROP TRIGGER contextopt_record_text_updated ON contextopt_record;
DROP TRIGGER contextopt_record_texts_inserted ON contextopt_record;
DROP FUNCTION contextopt_note_updated_text();
DROP FUNCTION contextopt_note_inserted_texts();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('contextopt', '0006_repositories'),
    ]

    operations = [
        pgvector.django.VectorExtension(),
        migrations.CreateModel(
            name='EmbeddingModel',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200, unique=True)),
                ('dimensions', models.PositiveIntegerField()),
                ('state', models.CharField(choices=[('building', 'Building'), ('active', 'In force'), ('retired', 'Retired')], default='building', max_length=8)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('activated_at', models.DateTimeField(blank=True, null=True)),
                ('retired_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('state', 'retired'), _negated=True), fields=('state',), name='embedding_model_one_of_a_state'), models.CheckConstraint(condition=models.Q(('dimensions__gte', 1), ('dimensions__lte', 4000)), name='embedding_model_dimensions')],
            },
        ),
        migrations.CreateModel(
            name='EmbeddingTodo',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('searchable', models.CharField(max_length=32)),
                ('corpus_id', models.BigIntegerField()),
                ('row_id', models.BigIntegerField()),
                ('model', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.DB_CASCADE, related_name='+', to='contextopt.embeddingmodel')),
            ],
            options={
                'indexes': [models.Index(fields=['model', 'id'], name='embedding_todo_next'), models.Index(fields=['searchable', 'corpus_id', 'id'], name='embedding_todo_corpus')],
            },
        ),
        migrations.CreateModel(
            name='EmbeddingFill',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('searchable', models.CharField(max_length=32)),
                ('total', models.BigIntegerField(default=0, help_text='rows when the fill began')),
                ('walked', models.BigIntegerField(default=0, help_text='rows seen so far')),
                ('filled_to', models.BigIntegerField(default=0, help_text='the last id seen')),
                ('is_filled', models.BooleanField(default=False)),
                ('is_indexed', models.BooleanField(default=False)),
                ('model', models.ForeignKey(on_delete=django.db.models.deletion.DB_CASCADE, related_name='fills', to='contextopt.embeddingmodel')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('model', 'searchable'), name='embedding_fill_once')],
            },
        ),
        migrations.CreateModel(
            name='RecordEmbedding',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('corpus_id', models.BigIntegerField()),
                ('embedding', pgvector.django.HalfVectorField()),
                ('content_hash', models.BinaryField(max_length=16)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('model', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='contextopt.embeddingmodel')),
                ('record', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name='embeddings', to='contextopt.record')),
            ],
            options={
                'indexes': [models.Index(fields=['model', 'corpus_id'], name='record_embedding_corpus')],
                'constraints': [models.UniqueConstraint(fields=('record', 'model'), name='record_embedding_once')],
            },
        ),
        migrations.AddIndex(
            model_name='record',
            index=models.Index(condition=models.Q(('deleted_at', None)), fields=['space', 'type', 'source'], name='record_kinds'),
        ),
        migrations.AddIndex(
            model_name='record',
            index=django.contrib.postgres.indexes.GinIndex(condition=models.Q(('deleted_at', None)), fastupdate=False, fields=['tags'], name='record_tags'),
        ),
        migrations.RunSQL(NOTE, UNNOTE),
    ]
