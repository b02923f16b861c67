from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("contextopt", "0019_title_vectors")]

    operations = [
        migrations.AlterField("storedresponse", "location", models.TextField(blank=True)),
    ]
