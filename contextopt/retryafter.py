"""Read how long an endpoint asks clients to wait."""

import math

# A longer wait is a maintenance window. The next try should find that out itself.
MAX_SECONDS = 3_600


def read_retry_after(header: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header. A date or an invalid value counts as none."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return min(max(seconds, 0.0), MAX_SECONDS) if math.isfinite(seconds) else None
