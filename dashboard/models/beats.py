"""When the worker last showed that it lives."""

from django.db import models


class WorkerBeat(models.Model):
    """The last moment at which any worker did a scheduled job. One row at most."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    beaten_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"worker at {self.beaten_at:%Y-%m-%d %H:%M:%S}"
