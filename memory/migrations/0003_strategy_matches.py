"""Keeps how a strategy matched each task that used it. Whether the task was completed is the task's state.

Until now, strategies matched by similarity alone, and repeated the tokens that a report claimed as saved.
"""

from typing import ClassVar

from django.db import migrations, models

MATCHES = "UPDATE memory_strategyuse SET match_score = similarity"
CLAIMS = """
UPDATE memory_memory SET payload = payload - 'tokens_saved'
 WHERE memory_type = 'strategy' AND jsonb_typeof(payload) = 'object' AND payload ? 'tokens_saved'
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memory", "0002_words_of_any_script")]

    operations: ClassVar = [
        migrations.RemoveField("strategyuse", "succeeded"),
        migrations.AddField(
            "strategyuse",
            "match_score",
            models.FloatField(default=0.0, help_text="how well the strategy matched the task, 0 to 1"),
            preserve_default=False,
        ),
        migrations.AlterField(
            "strategyuse",
            "similarity",
            models.FloatField(blank=True, help_text="cosine; blank without a vector", null=True),
        ),
        migrations.AddField(
            "strategyuse",
            "word_share",
            models.FloatField(
                blank=True, help_text="share of the task's words that the strategy holds", null=True
            ),
        ),
        migrations.AddField(
            "strategyuse",
            "same_pattern",
            models.BooleanField(default=False, help_text="whether the task had the strategy's pattern"),
        ),
        migrations.RunSQL(MATCHES, migrations.RunSQL.noop),
        migrations.RunSQL(CLAIMS, migrations.RunSQL.noop),
    ]
