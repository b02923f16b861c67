"""When a process that serves looks for garbage."""

import gc

# Requests leave few cycles. Looking for them as often as by default takes 3 % of the time.
SELDOM = (20_000, 20, 20)


def keep_imported(*, pauses_briefly: bool = False) -> None:
    """Let the collector pass over all objects so far, which live as long as the process. It would stop all
    threads to visit them, and copy the pages that forked processes share.

    It looks for others seldom, or as often as by default if its pauses must be short.
    """
    gc.collect()
    gc.freeze()
    if not pauses_briefly:
        gc.set_threshold(*SELDOM)
    gc.enable()
