"""Builds addresses of admin pages."""

from typing import Any

from django.db.models import Model
from django.urls import reverse


def page(model: type[Model], kind: str, *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{kind}", args=args)
