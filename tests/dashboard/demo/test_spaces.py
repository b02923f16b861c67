import json
import random
from datetime import timedelta
from functools import partial

import pytest
from django.core.management import call_command

from contextopt.agents.models import Task
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.verify import verify_assembly
from contextopt.errors import Conflict
from contextopt.people.models import AuditEvent, Team
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.inputs import RecordIn
from contextopt.spaces.models import Record, Space
from dashboard.demo import STORIES, load_demo, remove_demo
from dashboard.demo.stories import GAP, tell
from dashboard.management.commands import demo as demo_command
from tests.factories import NOW, make_assembly, make_record, make_space, make_team

pytestmark = pytest.mark.django_db

SLUGS = ("demo-engineering", "demo-research", "demo-support")
load_some = partial(load_demo, days=3, assemblies_a_day=8)


def load(team: Team) -> None:
    load_some(team, now=NOW, actor="test")


@pytest.fixture(scope="module")
def demo(shared: None) -> Team:
    """A team with the demo."""
    team = make_team("demo")
    load(team)
    return team


def figures(team: Team) -> list[tuple[object, ...]]:
    """Return the values that must be the same every time."""
    rows = Assembly.objects.filter(team=team, space__isnull=False, messages=None).order_by("id")
    return list(rows.values_list("space__slug", "stage", "created_at", "tokens_after", "records_filtered"))


def test_spaces_are_plainly_marked(demo: Team) -> None:
    spaces = Space.objects.filter(team=demo)
    assert sorted(space.slug for space in spaces) == list(SLUGS)
    assert all(space.is_demo and space.name.startswith("Demo: ") for space in spaces)
    assert not Assembly.objects.filter(is_demo=False).exists()
    assert not Record.objects.exclude(metadata={"demo": True}).exists()


def test_records_differ_in_words_dates_views_and_pins(demo: Team) -> None:
    for space in Space.objects.filter(team=demo):
        records = Record.objects.filter(space=space)
        assert records.filter(pinned=True).count() >= 1
        assert records.filter(view_count=0).exists()
        assert records.filter(view_count__gte=5).exists()
        assert not records.filter(date__gt=NOW).exists()
        assert records.filter(date__gte=NOW - timedelta(days=14)).count() >= 10
        assert records.values("title").distinct().count() > records.count() * 0.7


def test_assemblies_were_really_made_and_hold(demo: Team) -> None:
    assemblies = Assembly.objects.filter(team=demo, space__isnull=False, messages=None)
    assert assemblies.count() == 3 * 8
    assert {4, 5} <= set(assemblies.values_list("stage", flat=True)) <= {2, 3, 4, 5}
    assert all(item.created_at == item.as_of for item in assemblies)
    assert not assemblies.filter(created_at__gt=NOW).exists()
    assert not assemblies.filter(created_at__lt=NOW - timedelta(days=4)).exists()
    assert set(assemblies.values_list("config__version", flat=True)) == {1, 2}
    for payload in AssemblyPayload.objects.select_related("assembly"):
        assert verify_assembly(payload) == []


def test_settings_are_as_old_as_their_use(demo: Team) -> None:
    for space in Space.objects.filter(team=demo):
        first, second = space.configs.filter(is_draft=False).order_by("version")
        published = AuditEvent.objects.get(action="config.published", subject=f"{space.slug} v2")
        assert second.created_at == published.at
        used = Assembly.objects.filter(config=first).earliest("created_at")
        assert first.created_at < used.created_at < second.created_at


def test_loading_twice_changes_nothing(demo: Team) -> None:
    before = figures(demo)
    summary = load_demo(demo, now=NOW + timedelta(days=9), actor="test")
    assert figures(demo) == before
    assert summary.spaces == SLUGS
    assert summary.assemblies == Assembly.objects.filter(team=demo).count()


def test_the_same_moment_gives_the_same_demo(demo: Team, team: Team) -> None:
    load(team)
    assert figures(team) == figures(demo)


def test_removal_takes_the_demo_and_nothing_else(demo: Team, team: Team) -> None:
    own = make_space(demo)
    make_record(own)
    make_assembly(own)
    load(team)
    theirs = figures(team)
    assert remove_demo(demo).spaces == SLUGS
    assert Space.objects.get(team=demo) == own
    assert (Record.objects.filter(space=own).count(), Assembly.objects.filter(space=own).count()) == (1, 1)
    assert Assembly.objects.filter(team=demo).count() == 1
    assert figures(team) == theirs
    assert not Task.objects.filter(team=demo).exists()
    assert remove_demo(demo).spaces == ()
    load(demo)
    assert Space.objects.filter(team=demo, is_demo=True).count() == 3


def test_a_space_of_that_name_is_not_touched(team: Team) -> None:
    own = make_space(team, "demo-research")
    with pytest.raises(Conflict, match="demo-research"):
        load(team)
    assert list(Space.objects.filter(team=team)) == [own]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.slug)
def test_every_gap_is_filled_and_every_word_is_used(story: object) -> None:
    from dashboard.demo.stories import Story

    assert isinstance(story, Story)
    rng = random.Random(0)
    for number in range(1, 400):
        told = tell(story, number, rng)
        assert not GAP.search(told.title + told.notes + "".join(told.tags))
        RecordIn(title=told.title, type=told.type, tags=list(told.tags), notes=told.notes)
    text = "".join(scene.title + scene.notes + "".join(scene.tags) for scene in story.scenes)
    assert set(GAP.findall(text)) - {"n", "number"} == set(story.words)
    assert {tell(story, number, rng).type for number in range(50)} == {scene.type for scene in story.scenes}


def test_second_settings_are_settings(demo: Team) -> None:
    for story in STORIES:
        active = ContextConfig.objects.active().get(space__team=demo, space__slug=story.slug)
        assert active.version == 2
        assert all(getattr(active.settings, name) == value for name, value in story.second_settings.items())


def test_the_command_loads_and_removes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_command, "load_demo", load_some)
    call_command("demo", "load")
    assert capsys.readouterr().out.startswith(
        "Loaded demo-engineering, demo-research, demo-support. Records: "
    )
    call_command("demo", "load", "--json")
    loaded = json.loads(capsys.readouterr().out)
    assert list(loaded) == ["spaces", "records", "assemblies", "more"]
    assert loaded["assemblies"] >= 3 * 8
    assert all(loaded["more"][name] for name in ("conversations", "tasks", "memories", "votes"))
    call_command("demo", "remove", "--json")
    assert json.loads(capsys.readouterr().out) == loaded
    call_command("demo", "remove")
    assert capsys.readouterr().out == "Nothing was removed.\n"
