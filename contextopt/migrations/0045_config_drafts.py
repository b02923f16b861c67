from django.db import migrations, models

TRIGGER = """
CREATE OR REPLACE TRIGGER contextopt_config_immutable
    BEFORE UPDATE ON contextopt_contextconfig
    FOR EACH ROW
    EXECUTE FUNCTION contextopt_refuse_change({columns});
"""


class Migration(migrations.Migration):
    dependencies = [("contextopt", "0044_agent_contexts")]

    operations = [
        migrations.AddField(
            "contextconfig", "is_draft", models.BooleanField(db_default=False, default=False)
        ),
        migrations.AddConstraint(
            "contextconfig",
            models.CheckConstraint(
                condition=models.Q(("is_active", False), ("is_draft", False), _connector="OR"),
                name="config_active_is_no_draft",
            ),
        ),
        migrations.RunSQL(
            TRIGGER.format(columns="'is_active', 'is_draft'"), TRIGGER.format(columns="'is_active'")
        ),
        migrations.AddIndex("recordrevision", models.Index(fields=["changed_at"], name="revision_changed")),
    ]
