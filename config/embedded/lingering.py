"""Stops the embedded PostgreSQL a minute after its last user: `python -m config.embedded.lingering CHECKOUT`.

The minute keeps a series of short commands quick. The process is detached, so it survives even a SIGKILL of
the process that started it.
"""

import fcntl
import os
import sys
import time
from pathlib import Path
from typing import IO

from config.embedded import postgres
from config.embedded.filelocks import open_lock, try_lock
from config.embedded.place import Location, location

LINGER_SECONDS = 60.0
LONGEST_NAP_SECONDS = 5.0


def linger(place: Location, seconds: float = LINGER_SECONDS) -> None:
    """Stop the server once nobody has used it for `seconds`. Return at once when another lingerer waits."""
    waiting = open_lock(place.var_dir, postgres.LINGER_LOCK)
    with open_lock(place.var_dir, postgres.USERS_LOCK) as users, waiting:
        if not try_lock(waiting, fcntl.LOCK_EX):
            return
        _wait_until_unused(users, place, seconds)
        if postgres.is_running(place):
            postgres.shut_down(place)
        # Released before the users' lock: the next user must not find a lingerer that is about to end.
        waiting.close()


def _wait_until_unused(users: IO[bytes], place: Location, seconds: float) -> None:
    """Wait for `seconds` without a user, or until the server has gone. Return with the users' lock held."""
    last_use = time.time()
    while True:
        if not try_lock(users, fcntl.LOCK_EX):
            fcntl.flock(users, fcntl.LOCK_EX)  # blocks while anybody holds it
            last_use = time.time()
        idle = time.time() - max(last_use, os.fstat(users.fileno()).st_mtime)
        if idle >= seconds or not postgres.is_running(place):
            return
        fcntl.flock(users, fcntl.LOCK_UN)
        time.sleep(min(seconds - idle, LONGEST_NAP_SECONDS))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m config.embedded.lingering CHECKOUT")
    linger(location(Path(sys.argv[1])))
