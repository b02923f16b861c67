"""Measures how far judges agree beyond chance. Pure: no ORM, no settings."""

from collections import Counter
from collections.abc import Mapping


def krippendorff_alpha(units: Mapping[tuple[str, ...], int]) -> float | None:
    """Return Krippendorff's alpha for nominal values.

    `units` maps each combination of values to the number of units that were given it; judges may be missing.
    1 is perfect agreement, 0 is what chance would give, below 0 is systematic disagreement. None if
    undefined: no unit has two values, or all values are the same.

    Source: K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C, nominal data: α =
    1 − (n − 1) · Σ_u (m_u − 1)⁻¹-weighted disagreeing pairs / (n² − Σ_c n_c²), over units of m_u ≥ 2 values.
    """
    totals: Counter[str] = Counter()
    disagreeing = 0.0
    for values, count in units.items():
        if len(values) < 2:
            continue
        within = Counter(values)
        size = len(values)
        totals.update({value: times * count for value, times in within.items()})
        differing_pairs = size * size - sum(times * times for times in within.values())
        disagreeing += count * differing_pairs / (size - 1)
    n = totals.total()
    expected = n * n - sum(times * times for times in totals.values())
    if not expected:
        return None
    return 1 - (n - 1) * disagreeing / expected
