"""`manage.py replay ASSEMBLY…`"""

from django.core.management.base import CommandParser
from pydantic import ValidationError

from contextopt.assemblies.inputs import ReplayIn
from contextopt.assemblies.models import Assembly
from contextopt.assemblies.replay.material import last_contexts, read_contexts
from contextopt.assemblies.replay.replay import Replay, replay_assembly
from contextopt.engine.wording import plural
from contextopt.errors import PRODUCT_ERRORS, FieldProblem, InvalidInput, NotFound
from contextopt.inputs import BIGINT_MAX, field_problems
from contextopt.management.base import DONE, REJECTED, Options, Progress, ReportingCommand, team_of
from contextopt.management.fields import parse_input
from contextopt.people.models import Team
from contextopt.spaces.inputs import SettingsIn

LAST_MAX = 100_000


class Command(ReportingCommand):
    help = (
        "Compute logged contexts again as they were then, from the records as they were, and compare them "
        "with the log. With other settings, show what they would have changed. Nothing is changed. Exits 1 "
        "if a context comes out differently under its own settings, was refused, or does not exist; 2 if "
        "none of them exists."
    )
    replayed = 0

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("assemblies", metavar="ASSEMBLY", nargs="*", type=int, help="IDs of assemblies")
        parser.add_argument(
            "--last", metavar="N", type=int, help="the last N contexts of spaces, instead of IDs"
        )
        parser.add_argument(
            "--config", metavar="VERSION", type=int, help="use this version of the space's settings"
        )
        parser.add_argument(
            "--set", metavar="NAME=VALUE", action="append", default=[], dest="changes",
            help="override a setting of the space, such as context_tokens=1000; may be repeated",
        )  # fmt: skip

    def run(self, options: Options) -> int:
        data = _read_settings(options)
        team = team_of(options)
        ids, unknown = _choose(team, options)
        for one in unknown:
            self.stderr.write(_no_assembly(one))
        progress = Progress(self.stderr)
        failed = len(unknown)
        for assembly in read_contexts(team.pk, ids):
            try:
                again = replay_assembly(assembly, data)
            except PRODUCT_ERRORS as error:
                if len(ids) + len(unknown) == 1:
                    raise
                failed += 1
                self.stderr.write(f"assembly {assembly.pk}: {error}")
                continue
            self.replayed += 1
            failed += bool(again.result) and not again.is_changed and not again.is_same
            self.print_answer(options, again.to_json(), describe(again))
            progress.show(f"{self.replayed:,} of {len(ids):,} replayed")
        return REJECTED if failed else DONE

    def how_far(self) -> str:
        return f"Interrupted after {plural(self.replayed, 'replay')}. Nothing was changed."


def _read_settings(options: Options) -> ReplayIn:
    """Return the settings that were asked for.

    Raises:
        InvalidInput: one is unknown, or outside its range.
    """
    given: dict[str, object] = {}
    for setting in options["changes"]:
        name, equals, value = setting.partition("=")
        if not (name and equals):
            raise InvalidInput.of("--set", f"give NAME=VALUE, not {setting[:80]!r}")
        if name in given:
            raise InvalidInput.of(f"--set {name[:80]}", "is given twice")
        given[name] = int(value) if value.isdecimal() and len(value) < 10 else value or None
    try:
        settings = SettingsIn.model_validate(given)
    except ValidationError as error:
        problems = field_problems(error)
        raise InvalidInput([FieldProblem(f"--set {one.field}", one.message) for one in problems]) from error
    data = parse_input(ReplayIn, {"config": options["config"]})
    return data.model_copy(update={"settings": settings})


def _choose(team: Team, options: Options) -> tuple[list[int], list[int]]:
    """Return the ids of the assemblies in the order in which they are replayed, and the unknown ones.

    Raises:
        InvalidInput: neither ids nor a number are given, or both.
        NotFound: the team has none of the assemblies.
    """
    ids: list[int] = options["assemblies"]
    last: int | None = options["last"]
    if bool(ids) == (last is not None):
        raise InvalidInput.of("ASSEMBLY", "give IDs of assemblies or --last N")
    if last is not None:
        if not 1 <= last <= LAST_MAX:
            raise InvalidInput.of("--last", f"must be from 1 to {LAST_MAX:,}")
        return last_contexts(team.pk, last), []
    storable = [one for one in ids if one <= BIGINT_MAX]
    known = set(Assembly.objects.of(team).filter(pk__in=storable).values_list("pk", flat=True))
    unknown = [one for one in ids if one not in known]
    if not known:
        raise NotFound("\n".join(_no_assembly(one) for one in unknown))
    return [one for one in ids if one in known], unknown


def _no_assembly(number: int) -> str:
    return f"There is no assembly {number}."


def describe(again: Replay) -> str:
    """Return the outcome in one line."""
    name = f"assembly {again.assembly.pk}"
    if again.result is None:
        return f"{name}: not replayable ({again.reason}). {again.message}"
    tokens, before = again.result.certificate.total_tokens, again.assembly.tokens_after
    figures = f"{tokens:,} tokens" if tokens == before else f"{before:,} → {tokens:,} tokens"
    moved = (
        f", {plural(len(again.added), 'record')} in, {len(again.removed):,} out" if not again.is_same else ""
    )
    looked_up = f", {plural(again.looked_up, 'candidate')} looked up" if again.is_reconstructed else ""
    outcome = "same" if again.is_same else "differs" if not again.is_changed else "other text"
    others = f" ({', '.join(again.differences)})" if again.differences and not again.is_changed else ""
    return f"{name}: {outcome}{others}, {figures}{moved}{looked_up}"
