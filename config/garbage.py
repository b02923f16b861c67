"""Garbage collection in processes that serve requests."""

import gc

# A row loaded together with the row it belongs to is a reference cycle, and may hold large texts. So young
# objects are checked often, and the older ones, which are few, rarely.
THRESHOLDS = (2_000, 20, 20)


def keep_imported() -> None:
    """Exempt all existing objects from collection, because they live as long as the process.

    Visiting them would stop all threads, and copy the memory pages that forked processes share.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
