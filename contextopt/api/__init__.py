"""The HTTP API, version 1."""

from contextopt.api.schema import api

__all__ = ["api"]
