"""Proof after the fact: every stored figure of an assembly, computed again from its payload."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from contextopt.engine import ContextConfig
from contextopt.engine.budget import allocate
from contextopt.engine.rendering import SPACE_LINES
from contextopt.engine.tokens import Tokenizer, get_tokenizer
from contextopt.models import Assembly, AssemblyPayload


@dataclass(frozen=True, slots=True)
class Difference:
    """A stored figure that is not what the payload says."""

    figure: str
    stored: object
    recomputed: object


def verify_assembly(payload: AssemblyPayload) -> list[Difference]:
    """Compute every figure of the assembly again; an empty list says that all of them hold.

    Where a record was purged the text is no longer the one that was sent: then what was counted on it
    cannot be computed again and is left out.

    Raises:
        UnknownEncoding: the tokenizer of that time is not at hand.
    """
    stored = payload.assembly
    return [
        Difference(figure, getattr(stored, figure, None), value)
        for figure, value in _recompute(payload, stored)
        if getattr(stored, figure, None) != value
    ]
