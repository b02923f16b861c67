"""The HTTP API, version 1."""

from contextopt.api.build import api

__all__ = ["api"]
