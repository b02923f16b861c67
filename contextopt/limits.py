"""Limits that all packages share. Limits of one package stand beside its models."""

from datetime import UTC, datetime

NAME_MAX = 120
METADATA_MAX_BYTES = 65_536
DATE_MIN = datetime(1900, 1, 1, tzinfo=UTC)
DATE_MAX = datetime(2999, 12, 31, tzinfo=UTC)
