"""`manage.py backtest SPACE`"""

from django.core.management.base import CommandParser

from contextopt.engine.wording import plural
from contextopt.errors import Conflict
from contextopt.management.base import (
    ACTOR,
    DONE,
    REJECTED,
    Options,
    Progress,
    ReportingCommand,
    more_in_json,
    space_of,
    team_of,
)
from contextopt.management.fields import add_fields, read_fields
from memory.backtests.backtests import BACKTESTS, REFUSED, UNAVAILABLE, start_backtest
from memory.backtests.figures import FIGURES, costs_of, figures_of
from memory.backtests.inputs import BacktestIn
from memory.backtests.models import Backtest, BacktestState

REASONS_SHOWN = 20


class Command(ReportingCommand):
    help = (
        "Compute the last contexts of a space again under another version of its settings, such as a draft, "
        "and report what would change: tokens, their cost, empty contexts, and the records known to matter. "
        "A worker goes on with an interrupted backtest. Exits 1 if a request is refused under those settings."
    )

    backtest: Backtest | None = None

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("space", metavar="SPACE")
        about = {"config": "version of the space's settings, required", "last": "how many contexts"}
        add_fields(parser, BacktestIn, about, config="--config VERSION")

    def run(self, options: Options) -> int:
        data = read_fields(BacktestIn, options)
        space = space_of(team_of(options), options["space"])
        backtest = self.backtest = start_backtest(space=space, data=data, actor=ACTOR)
        progress = Progress(self.stderr)
        BACKTESTS.complete(backtest, lambda so_far: _show(so_far, progress))
        if backtest.state != BacktestState.DONE:
            raise Conflict(f"Backtest {backtest.pk} was cancelled.")
        self._answer(backtest, options)
        refused = backtest.rows.filter(reason__in=[REFUSED, UNAVAILABLE])
        return REJECTED if refused.exists() else DONE

    def how_far(self) -> str:
        done = figures_of(self.backtest).done if self.backtest else 0
        return f"Interrupted after {plural(done, 'context')}. A worker computes the rest."

    def _answer(self, backtest: Backtest, options: Options) -> None:
        found, costs = figures_of(backtest), costs_of(backtest)
        failed = list(backtest.rows.not_replayable().order_by("-pk"))
        answer = {
            "id": backtest.pk,
            **{name: getattr(found, name) for name in FIGURES},
            **costs.to_json(),
            "not_replayable": [
                {"id": row.assembly_id, "reason": row.reason, "message": row.message} for row in failed
            ],
        }
        text = (
            f"{backtest.space.name}, config v{backtest.config.version}: {found.replayed:,} of "
            f"{plural(found.assemblies, 'context')}, {found.tokens_before:,} → {found.tokens_after:,} "
            f"tokens, {found.empty_before:,} → {found.empty_after:,} empty, {found.evidence_kept:,} of "
            f"{plural(found.evidence, 'record')} known to matter ({found.evidence_before:,} before)"
        )
        if costs.priced:
            text += (
                f"\nInput cost after the cache: ${costs.before:,.4f} → ${costs.after:,.4f}, "
                f"for {plural(costs.priced, 'context')} with a price"
            )
        reasons = [
            f"assembly {row.assembly_id}: not replayable ({row.reason}). {row.message}"
            for row in failed[:REASONS_SHOWN]
        ]
        more = more_in_json(len(failed) - REASONS_SHOWN)
        self.print_answer(options, answer, "\n".join([text, *reasons, *more]))


def _show(backtest: Backtest, progress: Progress) -> None:
    found = figures_of(backtest)
    progress.show(f"{found.done:,} of {found.assemblies:,} computed")
