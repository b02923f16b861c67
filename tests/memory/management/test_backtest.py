"""backtest as a shell sees it."""

import json

import pytest

from contextopt.assemblies.purge import purge_record
from contextopt.people.models import Team
from contextopt.spaces.models import Record, Space
from memory.backtests.models import Backtest
from tests import factories
from tests.commands import Run
from tests.memory.backtests.conftest import ask_all, make_draft
from tests.memory.questions.conftest import make_questions, make_talk


@pytest.fixture
def asked(db: None) -> Space:
    """The default team's space, with contexts, questions and a draft as version 2."""
    space = factories.make_space(Team.objects.ensure_default())
    make_talk(space)
    make_questions(space)
    ask_all(space)
    make_draft(space)
    return space


def test_reports_what_the_draft_would_change(run: Run, asked: Space) -> None:
    code, out, _ = run("backtest", asked.slug, "--config", "2", "--json")
    answer = json.loads(out)
    assert code == 0
    assert (answer["assemblies"], answer["empty_before"], answer["empty_after"]) == (4, 0, 0)
    assert answer["tokens_after"] < answer["tokens_before"]
    assert (answer["evidence"], answer["evidence_before"]) == (4, 4)
    assert 0 < answer["evidence_kept"] <= 4
    assert answer["not_replayable"] == []
    assert (answer["priced"], answer["dollars_after"]) == (0, None)
    code, out, _ = run("backtest", asked.slug, "--config", "2", "--last", "3")
    assert (code, "3 of 3 contexts" in out) == (0, True)


def test_names_what_cannot_be_replayed(run: Run, asked: Space) -> None:
    purge_record(record=Record.objects.filter(space=asked).first(), actor="test")
    code, out, _ = run("backtest", asked.slug, "--config", "2", "--last", "2", "--json")
    assert [each["reason"] for each in json.loads(out)["not_replayable"]] == ["purged", "purged"]
    assert code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--config"),
        (("--config", "9"), "no config version 9"),
        (("--config", "x"), "--config"),
        (("--config", "2", "--last", "0"), "--last"),
        (("--config", "2", "--last", "5001"), "5,000"),
    ],
)
def test_refuses_an_unusable_call(run: Run, asked: Space, options: tuple[str, ...], message: str) -> None:
    code, out, err = run("backtest", asked.slug, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert not Backtest.objects.exists()
