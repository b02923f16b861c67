"""When the workers last showed that they live."""

from django.db import models


class Duty(models.IntegerChoices):
    """What a worker is there for: each has a queue of its own."""

    JOBS = 1
    CHAT = 2
    SCHEDULE = 3


class WorkerBeat(models.Model):
    """The last moment at which any worker did a scheduled job of a duty, whose number is the key."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    beaten_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{Duty(self.pk).label} worker at {self.beaten_at:%Y-%m-%d %H:%M:%S}"
