"""When a process that serves looks for garbage."""

import gc

# Rows that were read with the row they belong to are cycles, and hold large texts. So the young are looked
# through often; the others, which are few, seldom.
THRESHOLDS = (2_000, 20, 20)


def keep_imported() -> None:
    """Let the collector pass over all objects so far, which live as long as the process. It would stop all
    threads to visit them, and copy the pages that forked processes share.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
