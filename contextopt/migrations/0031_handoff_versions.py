"""Hand-offs in versions, findings that are tagged and linked afterwards, warnings with codes."""

from django.db import migrations, models

PHASES = [("analysis", "Analysis"), ("design", "Design"), ("implementation", "Implementation")]

# Text warnings stay texts within the list, and are read as notes.
WARNINGS = """
ALTER TABLE contextopt_phasecompression
    ALTER COLUMN warnings TYPE jsonb USING to_jsonb(warnings);
"""
WARNING_TEXTS = """
CREATE FUNCTION pg_temp.warning_texts(warnings jsonb) RETURNS text[] LANGUAGE sql AS $$
    SELECT coalesce(array_agg(coalesce(each ->> 'message', each #>> '{}') ORDER BY place), '{}')
      FROM jsonb_array_elements(warnings) WITH ORDINALITY AS listed (each, place)
$$;
ALTER TABLE contextopt_phasecompression
    ALTER COLUMN warnings TYPE text[] USING pg_temp.warning_texts(warnings);
DROP FUNCTION pg_temp.warning_texts(jsonb);
"""

TRIGGER = """
DROP TRIGGER contextopt_finding_immutable ON contextopt_finding;
CREATE TRIGGER contextopt_finding_immutable BEFORE UPDATE ON contextopt_finding
    FOR EACH ROW EXECUTE FUNCTION contextopt_refuse_change({columns});
"""
RESOLVED = "'decision', 'resolution', 'resolved_by', 'resolved_at'"
RELABELLED = "'tags', 'depends_on', 'tokens', 'relabelled_by', 'relabelled_at'"

# Only the latest version of a phase fits the constraint of before.
LATEST_ONLY = """
DELETE FROM contextopt_phasecompression old USING contextopt_phasecompression new
 WHERE old.task_id = new.task_id AND old.phase = new.phase AND old.version < new.version;
"""


class Migration(migrations.Migration):
    dependencies = [("contextopt", "0030_completion_patterns")]

    operations = [
        migrations.RunSQL(
            WARNINGS,
            WARNING_TEXTS,
            state_operations=[
                migrations.AlterField("phasecompression", "warnings", models.JSONField(blank=True, default=list))
            ],
        ),
        migrations.AddField("phasecompression", "version", models.PositiveIntegerField(db_default=1, default=1)),
        migrations.AddField(
            "phasecompression",
            "made_in",
            models.CharField(blank=True, choices=PHASES, db_default="", max_length=16),
        ),
        migrations.RemoveConstraint("phasecompression", "compression_once"),
        migrations.AddConstraint(
            "phasecompression",
            models.UniqueConstraint(fields=("task", "phase", "version"), name="compression_version_once"),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, LATEST_ONLY),
        migrations.AddField(
            "finding", "relabelled_by", models.CharField(blank=True, db_default="", max_length=160)
        ),
        migrations.AddField(
            "finding",
            "relabelled_at",
            models.DateTimeField(blank=True, help_text="tags or dependencies, the last time", null=True),
        ),
        migrations.RunSQL(
            TRIGGER.format(columns=f"{RESOLVED}, {RELABELLED}"), TRIGGER.format(columns=RESOLVED)
        ),
    ]
