"""`manage.py create_api_key` with limits."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from contextopt.people.keys import find_key
from contextopt.people.models import ApiKey, Team
from tests import factories

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("create_api_key", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


@pytest.fixture
def default_team(db: None) -> Team:
    team = Team.objects.ensure_default()
    for slug in ("docs", "sales"):
        factories.make_space(team, slug)
    return team


def test_limits(default_team: Team) -> None:
    answer = run("app", "--space", "sales", "--space", "docs", "--requests-per-minute", "60", "--json")
    key = find_key(json.loads(answer)["key"])
    assert key is not None
    assert (key.space_slugs, key.requests_per_minute) == (["docs", "sales"], 60)


def test_without_limits(default_team: Team) -> None:
    key = find_key(run("app").strip())
    assert key is not None
    assert (key.is_limited, key.requests_per_minute) == (False, None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--space", "nowhere"], "^--space: there is no space 'nowhere'"),
        (["--space", "docs", "--scope", "admin"], "^--space: cannot limit a key with scope admin"),
        (["--requests-per-minute", "0"], "--requests-per-minute: must be at least 1"),
        (["--requests-per-minute", "many"], "--requests-per-minute: must be a whole number"),
    ],
)
def test_bad_limits_name_the_option(default_team: Team, options: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run("app", *options)
    assert not ApiKey.objects.exists()
