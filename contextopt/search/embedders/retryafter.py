"""How long an endpoint asks to be left alone."""

import math

# Beyond this it is a maintenance window, and the next try should find that out itself.
MAX_SECONDS = 3_600


def read_retry_after(header: str | None) -> float | None:
    """Return the seconds that a `Retry-After` header asks for; a date or nonsense counts as none."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return min(max(seconds, 0.0), MAX_SECONDS) if math.isfinite(seconds) else None
