"""When a process that serves looks for garbage."""

import gc

# Requests leave few cycles. Looking for them as often as by default takes 3 % of the time.
THRESHOLDS = (20_000, 20, 20)


def keep_imported() -> None:
    """Let the collector pass over all objects so far, which live as long as the process. It would stop all
    threads to visit them, and copy the pages that forked processes share.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
