"""Lets values in the log of changes be erased together with what they are about."""

from typing import ClassVar

from django.db import migrations

FORWARDS = """
CREATE OR REPLACE TRIGGER contextopt_audit_immutable
    BEFORE UPDATE ON contextopt_auditevent
    FOR EACH ROW
    WHEN (current_setting('contextopt.erasing', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION contextopt_refuse_change();
CREATE OR REPLACE TRIGGER contextopt_audit_erased
    BEFORE UPDATE ON contextopt_auditevent
    FOR EACH ROW
    WHEN (current_setting('contextopt.erasing', true) = 'on')
    EXECUTE FUNCTION contextopt_refuse_change('before', 'after');
"""
BACKWARDS = """
DROP TRIGGER contextopt_audit_erased ON contextopt_auditevent;
CREATE OR REPLACE TRIGGER contextopt_audit_immutable
    BEFORE UPDATE ON contextopt_auditevent
    FOR EACH ROW
    EXECUTE FUNCTION contextopt_refuse_change();
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0061_true_savings")]

    operations: ClassVar = [migrations.RunSQL(FORWARDS, BACKWARDS)]
