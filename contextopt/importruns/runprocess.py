"""The process of one step of an import: `python -m contextopt.importruns.runprocess ID`."""

import os
import resource
import signal
import sys

# A damaged or malicious upload must not take all memory. The limit also holds for each git that runs for it.
MEMORY_BYTES_MAX = 4 * 2**30


def main() -> None:
    """Work on the import. A token for its git address comes by standard input."""
    import django

    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    django.setup()
    from contextopt.importruns.runs import work_on

    work_on(int(sys.argv[1]), sys.stdin.read(), end_process=end_group)


def end_group() -> None:
    """End this process and all that it has started. It leads a group of its own."""
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    main()
