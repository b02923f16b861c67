"""Signs of life: each process that `up` runs touches its own file every second, and `up` watches the files.

A process that is stopped, or whose interpreter is held, falls silent without ending. `up` ends it, busy or
idle, and starts it again as after any other death.
"""

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

# Environment variable that names the folder of a program's pulses.
FOLDER = "CONTEXTOPT_PULSES"
BEAT_SECONDS = 1.0
# Far longer than a thread waits on a busy machine. An ended worker is back after about 5 s.
SILENT_SECONDS = 6.0
# A worker asks its queue every two seconds. It takes longer when the database cannot be reached.
STUCK_SECONDS = 60.0


@dataclass
class MainLoop:
    """Tracks the main loop of a worker, of the schedule or of the gateway."""

    stuck_seconds: float = STUCK_SECONDS
    turned_at: float = field(default_factory=time.monotonic)
    is_in_job: bool = False

    def turn(self) -> None:
        self.turned_at = time.monotonic()

    def is_well(self) -> bool:
        """Tell whether the loop turns or runs a job, which has its own time limit."""
        return self.is_in_job or time.monotonic() - self.turned_at < self.stuck_seconds


main_loop = MainLoop()


def repeat(action: Callable[[], object], *, seconds: float) -> None:
    """Run an action every `seconds`, in a thread that ends with the process."""

    def go_on() -> None:
        while True:
            action()
            time.sleep(seconds)

    threading.Thread(target=go_on, daemon=True).start()


def start_pulse(is_well: Callable[[], bool] = lambda: True) -> None:
    """Give a sign of life every second while all is well, in a process that `up` runs."""
    if (beat := _beat(is_well)) is not None:
        repeat(beat, seconds=BEAT_SECONDS)


def start_pulse_without_thread() -> None:
    """Give a sign of life every second from the main thread, in a process that `up` runs and that forks."""
    if (beat := _beat(lambda: True)) is not None:
        signal.signal(signal.SIGALRM, lambda *_: beat())
        # The processes that it forks inherit no timer.
        signal.setitimer(signal.ITIMER_REAL, BEAT_SECONDS, BEAT_SECONDS)


def _beat(is_well: Callable[[], bool]) -> Callable[[], None] | None:
    folder = os.environ.get(FOLDER)
    if folder is None:
        return None
    path = Path(folder, str(os.getpid()))

    def beat() -> None:
        # A full disk is no reason to fall silent: an existing file can still be touched.
        with contextlib.suppress(OSError):
            if is_well():
                path.touch()

    return beat


@dataclass
class Pulses:
    """The pulses of one program's processes, as `up` sees them."""

    folder: Path
    # The last beat of each process and the monotonic time when it was first seen. Wall clocks jump, and a
    # machine that slept was not silent.
    _seen: dict[int, tuple[int, float]] = field(default_factory=dict)
    _had_one: bool = False

    def reset(self) -> None:
        """Forget all processes before the program is started again."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self._seen, self._had_one = {}, False

    @property
    def were_seen(self) -> bool:
        """Tell whether the program got as far as serving since it was started."""
        return self._had_one or any(self._files())

    def have_beaten_since(self, moment: float) -> bool:
        """Tell whether a beat was seen after a monotonic time."""
        return any(since > moment for _, since in self._seen.values())

    def _files(self) -> Iterator[Path]:
        return self.folder.glob("[0-9]*")

    def find_silent(self) -> list[int]:
        """Return the processes that were silent for too long. Each is reported once."""
        now = time.monotonic()
        beats = {int(path.name): path.stat().st_mtime_ns for path in self._files()}
        known, self._had_one = self._seen, self.were_seen
        self._seen = {
            pid: known[pid] if known.get(pid, (0,))[0] == beat else (beat, now) for pid, beat in beats.items()
        }
        silent = [pid for pid, (_, since) in self._seen.items() if now - since > SILENT_SECONDS]
        for pid in silent:
            (self.folder / str(pid)).unlink()
        return silent
