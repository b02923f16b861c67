"""All that was sent for a task, in one place: assemblies name their task, and hints are assemblies."""

from typing import ClassVar

import django.db.models.deletion
from django.db import migrations, models

BEFORE = ["space", "phase", "retry", "handoff"]
TRIGGER = """
DROP TRIGGER contextopt_assembly_immutable ON contextopt_assembly;
CREATE TRIGGER contextopt_assembly_immutable BEFORE UPDATE ON contextopt_assembly
    FOR EACH ROW EXECUTE FUNCTION contextopt_refuse_change({columns});
"""
# Retries and hand-offs have always noted their task in the request.
FILL = """
UPDATE contextopt_assembly a SET task_id = t.id
  FROM contextopt_assemblypayload p, contextopt_task t
 WHERE a.kind IN ('retry', 'handoff') AND p.assembly_id = a.id
   AND t.id = (p.request ->> 'task_id')::bigint AND t.team_id = a.team_id;
"""
# A phase ends with the last hand-off made in it.
FILL_PHASES = """
UPDATE contextopt_task t
   SET design_at = (SELECT max(c.created_at) FROM contextopt_phasecompression c
                     WHERE c.task_id = t.id AND c.phase = 'analysis' AND c.made_in = ''),
       implementation_at = (SELECT max(c.created_at) FROM contextopt_phasecompression c
                             WHERE c.task_id = t.id AND c.phase = 'design' AND c.made_in = ''
                               AND t.phase = 'implementation')
 WHERE t.phase <> 'analysis';
"""
# The foreign key's checks would block the index that follows.
CHECK_NOW = "SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED;"
FORGET_HINTS = "DELETE FROM contextopt_assembly WHERE kind = 'hint';"


def _kind(*values: str) -> models.CheckConstraint:
    return models.CheckConstraint(condition=models.Q(kind__in=values), name="assembly_kind")


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0042_key_rotations")]

    operations: ClassVar = [
        migrations.AddField(
            "assembly",
            "task",
            models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DB_SET_NULL,
                related_name="assemblies",
                to="contextopt.task",
            ),
        ),
        migrations.RunSQL(TRIGGER.format(columns="'task_id'"), TRIGGER.format(columns="")),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.AddField("task", "design_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField("task", "implementation_at", models.DateTimeField(blank=True, null=True)),
        migrations.RunSQL(FILL_PHASES, migrations.RunSQL.noop),
        migrations.RunSQL(CHECK_NOW, CHECK_NOW),
        migrations.AddIndex(
            "assembly",
            models.Index(
                condition=models.Q(task__isnull=False), fields=["task", "created_at", "id"], name="assembly_task"
            ),
        ),
        migrations.AlterField(
            "assembly",
            "kind",
            models.CharField(
                choices=[
                    ("space", "Space context"),
                    ("phase", "Phase filter"),
                    ("retry", "Retry delta"),
                    ("handoff", "Hand-off"),
                    ("hint", "Strategy hint"),
                ],
                default="space",
                max_length=8,
            ),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, FORGET_HINTS),
        migrations.RemoveConstraint("assembly", "assembly_kind"),
        migrations.AddConstraint("assembly", _kind(*BEFORE, "hint")),
    ]
