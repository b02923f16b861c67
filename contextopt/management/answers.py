"""Commands that answer many questions: one JSON object a line, rejected lines on standard error."""

from collections.abc import Iterable
from typing import Any

from contextopt.management.base import DONE, REJECTED, Progress, ReportingCommand
from contextopt.spaces.importing import Rejection


class AnsweringCommand(ReportingCommand):
    """A command that may be given a file of questions."""

    answered = 0

    def how_far(self) -> str:
        return f"Interrupted after {self.answered:,} answers."

    def print_answers(self, answers: Iterable[dict[str, Any] | Rejection]) -> int:
        """Print each answer as it comes and return the exit code."""
        rejected = 0
        progress = Progress(self.stderr)
        for answer in answers:
            if isinstance(answer, Rejection):
                rejected += 1
                self.stderr.write(f"rejected {answer}")
            else:
                self.answered += 1
                self.print_json(answer)
            progress.show(f"{self.answered:,} answered, {rejected:,} rejected")
        return REJECTED if rejected else DONE
