"""Counts tokens in cl100k. Counts are remembered, since each prompt repeats its conversation's texts."""

import threading
from collections import OrderedDict
from hashlib import blake2b

from contextopt.engine.text.tokens import DEFAULT_ENCODING, get_tokenizer

REMEMBERED_MAX = 10_000
# Counting a shorter text is as fast as looking it up.
LEAST_CHARS = 200

_counts: OrderedDict[bytes, int] = OrderedDict()
_lock = threading.Lock()


def count_tokens(text: str) -> int:
    """Return the tokens of a text from a request. Characters that UTF-8 cannot encode are replaced."""
    text = text.encode(errors="replace").decode() if not text.isascii() else text
    tokenizer = get_tokenizer(DEFAULT_ENCODING)
    if len(text) < LEAST_CHARS:
        return tokenizer.count(text)
    key = blake2b(text.encode(), digest_size=16).digest()
    with _lock:
        known = _counts.get(key)
        if known is not None:
            _counts.move_to_end(key)
            return known
    count = tokenizer.count(text)
    with _lock:
        _counts[key] = count
        while len(_counts) > REMEMBERED_MAX:
            _counts.popitem(last=False)
    return count
