"""The HTTP API whole: what each app adds to it."""

from contextopt.api import api
from memory.api import feedback

api.add_router("/v1", feedback.router)

__all__ = ["api"]
