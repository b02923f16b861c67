"""The queue's schema: Celery's jobs travel over the product's own PostgreSQL unless a broker is named."""

from typing import ClassVar

import pgmq
from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def install(_apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Install pgmq's tables and functions, unless the server has them, as an extension or from before."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('pgmq.meta') IS NOT NULL")
        if not cursor.fetchone()[0]:
            cursor.execute(pgmq.get_embedded_install_sql())


def uninstall(_apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS pgmq CASCADE")


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0002_triggers")]

    operations: ClassVar = [migrations.RunPython(install, uninstall)]
