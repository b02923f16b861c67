"""All sums of rollups have the same default, since one table declares them. The first migration has it too: the
database changes nothing, and sixty changed fields took a third of a new installation's migrations.
"""

from typing import ClassVar

from django.db import migrations


class Migration(migrations.Migration):
    dependencies: ClassVar = [("dashboard", "0001_squashed_0018_corrected_savings")]

    operations: ClassVar = []
