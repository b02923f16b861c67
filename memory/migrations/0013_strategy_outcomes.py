"""The outcome of the task that a strategy was used in. Trust is not computed again."""

from typing import ClassVar

from django.db import migrations, models

# As `lessons.why_no_success` says. A task counts once for each strategy.
FILL = """
UPDATE memory_strategyuse u
   SET succeeded = t.state = 'completed' AND t.quality_score >= 7
       AND NOT EXISTS (SELECT FROM contextopt_attempt a WHERE a.task_id = t.id)
       AND coalesce((c.report ->> 'total_attempts')::numeric, 1) <= 1
  FROM contextopt_task t JOIN contextopt_completion c ON c.task_id = t.id
 WHERE t.id = u.task_id AND c.learned_at IS NOT NULL
   AND u.id = (SELECT min(o.id) FROM memory_strategyuse o WHERE o.task_id = t.id AND o.memory_id = u.memory_id);
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memory", "0012_memory_purges"), ("contextopt", "0062_audit_erasure")]

    operations: ClassVar = [
        migrations.AddField(
            "strategyuse",
            "succeeded",
            models.BooleanField(
                blank=True,
                help_text="whether its task succeeded; blank until it ends",
                null=True,
            ),
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
