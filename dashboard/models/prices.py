"""What a model's input costs."""

from decimal import Decimal
from typing import ClassVar

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q


class ModelPrice(models.Model):
    """The price of a model's input tokens, so that pages can say what a saving is worth."""

    model = models.CharField(
        max_length=120, unique=True, blank=True,
        help_text="As requests name it. Empty: the price for requests that name no model.",
    )  # fmt: skip
    dollars_per_million = models.DecimalField(
        "US dollars per million input tokens",
        max_digits=10, decimal_places=4, validators=[MinValueValidator(Decimal(0))],
    )  # fmt: skip
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar = ["model"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(dollars_per_million__gte=0), name="model_price_positive"),
        ]

    def __str__(self) -> str:
        return self.model or "requests that name no model"
