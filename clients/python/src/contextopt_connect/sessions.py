"""A coding agent's session as its hooks remember it, in a small file of the person's own.

The file names the contexts that the session holds, so that the next prompt leaves their records out, and the
tasks that the agent works on. Hooks import this with every prompt, so it imports only the standard library.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from binascii import crc32
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

FOLDER = "sessions"
SESSIONS_MAX = 200
DAYS_MAX = 30
# The API takes no more.
KEPT_MAX = 200
TASKS_MAX = 20
LOCK_SECONDS = 0.5
OPEN = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class Session:
    """A session. `blocks` are its contexts, `shown` the digests of other texts, `is_told` whether the person
    was told that Contextopt does not answer. `tasks` says of each task whose end is not reported whether the
    person was asked about it, and `plan` is what the agent means to do.
    """

    def __init__(self, folder: str, *names: str) -> None:
        digest = crc32("\0".join(names).encode("utf-8", "surrogatepass"))
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", names[-1])[:64]
        self.folder = folder
        self.file = os.path.join(folder, f"{plain or 'session'}-{digest:08x}.json")
        self.blocks: list[int] = []
        self.shown: list[int] = []
        self.is_told = False
        self.tasks: dict[int, bool] = {}
        self.plan = ""
        self.read()

    def read(self) -> None:
        """Read the file. One that is missing or damaged is a new session's."""
        try:
            with open(self.file, encoding="utf-8") as opened:
                kept: dict[str, Any] = json.load(opened)
            self.blocks, self.shown = list(map(int, kept["blocks"])), list(map(int, kept["shown"]))
            self.is_told = bool(kept["is_told"])
            # Files of earlier versions name no tasks.
            self.tasks = {int(task_id): bool(was_asked) for task_id, was_asked in kept.get("tasks", ())}
            self.plan = str(kept.get("plan", ""))
        except (OSError, ValueError, LookupError, TypeError):
            self.blocks, self.shown, self.is_told, self.tasks, self.plan = [], [], False, {}, ""

    def add(self, blocks: list[int], shown: list[int]) -> None:
        """Note what a prompt has brought into the session."""
        with self.changed():
            self.blocks = [*self.blocks, *blocks][-KEPT_MAX:]
            self.shown = [*self.shown, *shown][-KEPT_MAX:]

    def forget(self) -> None:
        """Forget the texts that the session held, so that they are sent again."""
        if not (self.blocks or self.shown):
            return
        with self.changed():
            self.blocks, self.shown = [], []

    def tell_once(self) -> bool:
        """Return whether the person must be told now: only once, so not if that cannot be noted."""
        try:
            with self.changed():
                was_told, self.is_told = self.is_told, True
        except OSError:
            return False
        return not was_told

    def begin_task(self, task_id: int) -> None:
        """Note a task that the agent works on."""
        if task_id not in self.tasks:
            with self.changed():
                self.tasks.setdefault(task_id, False)
                self.tasks = dict(list(self.tasks.items())[-TASKS_MAX:])

    def end_task(self, task_id: int) -> None:
        """Note that the end of a task is reported. The next task has another plan."""
        if task_id in self.tasks or self.plan:
            with self.changed():
                self.tasks.pop(task_id, None)
                self.plan = ""

    def note_plan(self, plan: str, *, is_more: bool) -> None:
        """Note the plan, or one more step of it."""
        with self.changed():
            self.plan = f"{self.plan}\n{plan}".strip() if is_more else plan

    def ask_once(self) -> list[int]:
        """Return the tasks that the person must be asked about now: each only once."""
        if all(self.tasks.values()):
            return []
        with self.changed():
            waiting = [task_id for task_id, was_asked in self.tasks.items() if not was_asked]
            self.tasks = dict.fromkeys(self.tasks, True)
        return waiting

    @contextmanager
    def changed(self) -> Iterator[None]:
        """Change the file alone: read it again, then replace it in one step."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        with locked(self.folder):
            self.read()
            yield
            if not os.path.exists(self.file):
                remove_old(self.folder)
            draft = f"{self.file}.{os.getpid()}"
            kept = {
                "blocks": self.blocks,
                "shown": self.shown,
                "is_told": self.is_told,
                "tasks": list(self.tasks.items()),
                "plan": self.plan,
            }
            try:
                with open(os.open(draft, OPEN, 0o600), "w", encoding="utf-8") as opened:
                    json.dump(kept, opened)
                os.replace(draft, self.file)
            except OSError:
                if os.path.exists(draft):
                    os.unlink(draft)
                raise


@contextmanager
def locked(folder: str) -> Iterator[None]:
    """Hold the folder alone. Raises: BlockingIOError: another hook held it for too long."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    end = time.monotonic() + LOCK_SECONDS
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
        yield
    finally:
        os.close(handle)


def remove_old(folder: str) -> None:
    """Make room for a new session: remove those that are old, and the oldest if there are too many."""
    with os.scandir(folder) as found:
        ages = sorted((entry.stat(follow_symlinks=False).st_mtime, entry.path) for entry in found)
    limit = time.time() - DAYS_MAX * 86_400
    for number, (changed_at, path) in enumerate(ages):
        if changed_at < limit or number <= len(ages) - SESSIONS_MAX:
            os.unlink(path)
