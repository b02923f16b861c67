"""`manage.py embed`"""

import time

from django.core.management.base import CommandParser

from contextopt.errors import Conflict
from contextopt.locks import Lock, only_here
from contextopt.management.base import DONE, Options, Progress, ReportingCommand
from contextopt.search.embedders.current import configured_embedder
from contextopt.search.embedders.values import EmbeddingUnavailable
from contextopt.search.vectors.fill import Work, work_through
from contextopt.search.vectors.storage import embedding_status

# The length of a round. A change of the model in the settings is noticed between rounds.
ROUND_SECONDS = 60.0
WAIT_SECONDS = 0.5


class Command(ReportingCommand):
    help = (
        "Create missing vectors now, with progress, and build the index over them. After a change of the "
        "embedding model, embed everything with the new model and switch to it. Without this command the "
        "worker does it in the background. It always works for all teams."
    )
    team_help = ""

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--wait", action="store_true", help="wait for a worker that is embedding instead of giving up"
        )

    def run(self, options: Options) -> int:
        started = time.monotonic()
        work = Work()
        progress = Progress(self.stderr)
        while not self._round(work, progress, waits=options["wait"]):
            time.sleep(WAIT_SECONDS)
        status = embedding_status()
        if status.model != configured_embedder():
            raise EmbeddingUnavailable(f"{configured_embedder()} cannot be loaded or reached; see the log")
        seconds = time.monotonic() - started
        answer = {
            "embedded": work.embedded,
            "skipped": work.unchanged,
            "model": status.model,
            "seconds": round(seconds, 3),
        }
        self.print_answer(options, answer, describe_work(work, status.model, seconds))
        return DONE

    def _round(self, work: Work, progress: Progress, *, waits: bool) -> bool:
        """Work for a while; return whether everything is done."""
        with only_here(Lock.EMBED) as is_ours:
            if is_ours:
                return work_through(
                    seconds=ROUND_SECONDS,
                    index_seconds=None,
                    work=work,
                    on_progress=lambda so_far: progress.show(f"{so_far.embedded:,} embedded"),
                )
        if not waits:
            raise Conflict("A worker is already embedding. Use --wait to wait for it.")
        progress.show("waiting for a worker that is embedding")
        return False

    def how_far(self) -> str:
        return "Interrupted; the vectors made so far are kept. Run the same command again to continue."


def describe_work(work: Work, model: str, seconds: float) -> str:
    if not work.embedded and not work.unchanged:
        return f"All texts are already embedded with {model}."
    rate = work.embedded / seconds if seconds else 0
    return (
        f"{work.embedded:,} embedded with {model}, {work.unchanged:,} already up to date, "
        f"in {seconds:.1f} s ({rate:,.0f} a second)"
    )
