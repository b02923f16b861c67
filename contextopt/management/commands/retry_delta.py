"""`manage.py retry_delta FILE.json`"""

from django.core.management.base import CommandParser

from contextopt.agents.inputs import RetryIn, RetryLimitsIn
from contextopt.agents.retries import Retry, log_delta, plan_delta
from contextopt.agents.retrysettings import resolve_limits
from contextopt.engine.text.tokens import get_counter, get_tokenizer
from contextopt.management.base import ACTOR, DONE, Options, team_of
from contextopt.management.documents import DocumentCommand, read_document
from contextopt.management.fields import add_fields, read_fields


class Command(DocumentCommand):
    help = (
        "Compute what to send an agent after a failed attempt. FILE.json is an object with task, plan, "
        "error, before and after (objects of file contents by path), diagnosis {root_cause, reason, "
        "suggested_action}, attempt (a number) and optionally context, the full context the agent would "
        "otherwise get."
    )

    def add_options(self, parser: CommandParser) -> None:
        super().add_options(parser)
        about = {
            "error_tokens": "maximum tokens of the error (default: the team's, or 450)",
            "diff_lines": "maximum changed lines of each file (default: the team's, or 20)",
            "diff_characters": "maximum characters of each file's change (default: the team's, or 500)",
            "uncut": "show whole changes, which can be applied",
        }
        add_fields(parser, RetryLimitsIn, about)

    def run(self, options: Options) -> int:
        asked = read_fields(RetryLimitsIn, options)
        data = read_document(RetryIn, options["file"])
        counter = get_counter(options["counter"], get_tokenizer(options["encoding"]))
        team = team_of(options)
        retry = plan_delta(data=data, limits=resolve_limits(team.pk, asked), counter=counter)
        if not options["no_log"]:
            log_delta(team_id=team.pk, retry=retry, actor=ACTOR)
        answer = retry.to_json()
        self.print_answer(options, {**answer.pop("retry_context"), **answer}, describe_retry(retry))
        return DONE


def describe_retry(retry: Retry) -> str:
    """Return the text to send, then the action and its saving."""
    plan = retry.plan
    action = f"wait {plan.wait_seconds} seconds" if plan.wait_seconds else plan.action
    text = retry.sent.render().rstrip("\n") + "\n\n" if retry.sent else ""
    lines = [f"Action: {action}", _describe_saving(retry)]
    if retry.error:
        lines.append(retry.error)
    return text + "\n".join(lines)


def _describe_saving(retry: Retry) -> str:
    plan = retry.plan
    if plan.saved_tokens is None:
        return "Nothing is sent, so nothing is saved."
    size = f"{plan.delta_tokens:,} of {plan.full_context_tokens:,} tokens ({retry.counter.name})"
    saved = f"{plan.saved_tokens:,} saved ({plan.saved_percent} %)"
    return f"{size}, {saved} against {retry.baseline_name}"
