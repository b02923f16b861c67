"""Limits that all packages share. Limits of one package are beside its models."""

from datetime import UTC, datetime

NAME_MAX = 120
MODEL_MAX = 120
# Who did something: `user:` or `key:` with a name, which is never longer.
ACTOR_MAX = 160
METADATA_MAX_BYTES = 65_536
DATE_MIN = datetime(1900, 1, 1, tzinfo=UTC)
DATE_MAX = datetime(2999, 12, 31, tzinfo=UTC)
