"""Attempts to get in, so far as they count against a limit."""

from typing import ClassVar

from django.db import models


class Throttle(models.Model):
    """How busy one limit is for one address or account, in one moment of time.

    Each attempt moves `free_at` further off; past it the row says nothing and is swept. Its key is a keyed
    hash, so that the table tells no names and no addresses.
    """

    key = models.CharField(max_length=64, primary_key=True)
    free_at = models.DateTimeField()

    class Meta:
        # The sweep looks for what is over.
        indexes: ClassVar = [models.Index(fields=["free_at"], name="throttle_free_at")]

    def __str__(self) -> str:
        return self.key
