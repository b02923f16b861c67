"""Shares of a token budget for sections that want different amounts."""

from collections.abc import Mapping

SECTION_WEIGHTS: Mapping[str, int] = {
    "files": 50, "memories": 15, "docs": 15, "tree": 8, "package_manifest": 5, "tools": 5, "tree_paths": 2,
}  # fmt: skip
"""How a phase's fields share its budget if all of them want more than their share."""


def share_out(budget_tokens: int, wants: Mapping[str, int]) -> dict[str, int]:
    """Return each section's tokens: at most what it wants, and together at most the budget.

    A section that wants less than its weight's share gets all it wants. The others divide the rest by weight.
    """
    left = {name: tokens for name, tokens in wants.items() if tokens > 0}
    shares = dict.fromkeys(wants, 0)
    room = max(budget_tokens, 0)
    while left:
        total = sum(SECTION_WEIGHTS[name] for name in left)
        modest = [name for name, tokens in left.items() if tokens * total <= room * SECTION_WEIGHTS[name]]
        if not modest:
            return shares | {name: room * SECTION_WEIGHTS[name] // total for name in left}
        for name in modest:
            shares[name] = left.pop(name)
        room = budget_tokens - sum(shares.values())
    return shares
