"""The words of memories are made again: version numbers are words now."""

from typing import ClassVar

import django.contrib.postgres.indexes
import django.contrib.postgres.search
from django.db import migrations, models

NAMES = ("team", "language", "title", "tags", "content")
INDEX = django.contrib.postgres.indexes.GinIndex(
    condition=models.Q(("deleted_at", None), ("retired_at", None)),
    fields=["search_vector"],
    gin_pending_list_limit=512,
    name="memory_search",
)


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0018_version_words"), ("memory", "0003_reviews")]

    operations: ClassVar = [
        migrations.RemoveIndex(model_name="memory", name="memory_search"),
        migrations.RemoveField(model_name="memory", name="search_vector"),
        migrations.AddField(
            model_name="memory",
            name="search_vector",
            field=models.GeneratedField(
                db_persist=True,
                expression=models.Func(*map(models.F, NAMES), function="contextopt_search_vector"),
                output_field=django.contrib.postgres.search.SearchVectorField(),
            ),
        ),
        migrations.AddIndex(model_name="memory", index=INDEX),
    ]
