"""A record's words name the week of its date, so that a search inside a window reads no record outside it."""

from typing import ClassVar

import django.contrib.postgres.indexes
import django.contrib.postgres.search
from django.db import migrations, models

# What is subtracted makes an interval, whose parts depend on no time zone; the function may be immutable.
FUNCTION = """
CREATE FUNCTION contextopt_search_vector(
    corpus bigint, language text, title text, tags text[], body text, dated timestamptz)
RETURNS tsvector LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
BEGIN
    RETURN contextopt_search_vector(corpus, language, title, tags, body)
        || array_to_tsvector(ARRAY[
               ' ' || corpus || 'w' || floor(extract(epoch FROM dated - timestamptz 'epoch') / 604800)]);
END $$;
"""
DROP_FUNCTION = """
DROP FUNCTION contextopt_search_vector(bigint, text, text, text[], text, timestamptz);
"""
NAMES = ("space", "language", "title", "tags", "notes")
INDEX = django.contrib.postgres.indexes.GinIndex(
    condition=models.Q(("deleted_at", None)),
    fields=["search_vector"],
    gin_pending_list_limit=512,
    name="record_search",
)


def search_vector(*names: str) -> models.GeneratedField:
    return models.GeneratedField(
        db_persist=True,
        expression=models.Func(*map(models.F, names), function="contextopt_search_vector"),
        output_field=django.contrib.postgres.search.SearchVectorField(),
    )


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0014_tags_index")]

    operations: ClassVar = [
        migrations.RunSQL(FUNCTION, DROP_FUNCTION),
        # A generated column cannot be altered.
        migrations.RemoveIndex(model_name="record", name="record_search"),
        migrations.RemoveField(model_name="record", name="search_vector"),
        migrations.AddField(
            model_name="record", name="search_vector", field=search_vector(*NAMES, "date")
        ),
        migrations.AddIndex(model_name="record", index=INDEX),
    ]
