"""The demo's proof and its repository: a consistent story, of which removal leaves nothing."""

from contextopt.agents.inputs import StandingDocumentIn
from contextopt.agents.standingdocuments import StandingDocument, attach_document
from contextopt.assemblies.models import Assembly, Kind
from contextopt.people.models import Team
from contextopt.repositories.indexing import create_posted
from contextopt.repositories.models import CodeBlob, Repository
from dashboard.demo import load_demo, remove_demo, summarise_demo
from memory.backtests.figures import figures_of
from memory.backtests.models import Backtest
from memory.questions.evaluations import reaches
from memory.questions.models import Evaluation, QuestionSet
from memory.review.models import ReviewItem
from tests.factories import NOW


def load(team: Team) -> None:
    load_demo(team, now=NOW, actor="test", days=3, assemblies_a_day=10)


def test_pages_of_proof_tell_one_story(team: Team) -> None:
    load(team)
    check_recall(team)
    check_backtest(team)
    check_steps(team)


def check_recall(team: Team) -> None:
    """The draft reaches the recall that the active settings miss, with fewer tokens than the first ones."""
    known = QuestionSet.objects.of(team).get(min_recall__isnull=False)
    assert known.questions.count() == 12
    by_version = {each.config_version: each for each in Evaluation.objects.filter(question_set=known)}
    assert sorted(filter(None, by_version)) == [1, 2, 3]
    assert not reaches(by_version[2].recall, known.min_recall or 0)
    assert reaches(by_version[3].recall, known.min_recall or 0)
    assert (by_version[3].tokens_mean or 0) < (by_version[1].tokens_mean or 0) / 2
    grown = QuestionSet.objects.of(team).get(min_recall=None)
    done = ReviewItem.objects.of(team).filter(state="done").count()
    assert 1 <= grown.questions.count() <= 1 + done


def check_backtest(team: Team) -> None:
    backtest = Backtest.objects.of(team).get()
    assert backtest.config.is_draft
    assert backtest.config.version == 3
    figures = figures_of(backtest)
    assert figures.done == figures.replayed == figures.assemblies > 0


def check_steps(team: Team) -> None:
    repository = Repository.objects.get(team=team)
    assert repository.imports > 5
    assert not repository.unresolved
    steps = Assembly.objects.filter(team=team, kind=Kind.AGENT, is_demo=True).order_by("pk")
    assert [step.phase for step in steps] == ["planning", "building"]
    for step in steps.select_related("payload"):
        sections = {section["name"] for section in step.payload.ledger["sections"]}
        assert sections >= {"standing_documents", "package_manifest", "files"}


def test_removal_leaves_repositories_and_documents_of_others(team: Team) -> None:
    theirs = StandingDocumentIn(repository="demo-invoicing", title="Ours", content="Stays.")
    attach_document(team=team, data=theirs, actor="user:a")
    load(team)
    assert summarise_demo(team).more["repositories"] == 1
    remove_demo(team)
    assert [each.title for each in StandingDocument.objects.filter(team=team)] == ["Ours"]
    assert not Repository.objects.filter(team=team).exists()
    assert not CodeBlob.objects.filter(team=team).exists()
    assert not QuestionSet.objects.of(team).exists()
    assert not Backtest.objects.of(team).exists()


def test_a_repository_of_that_name_is_not_touched(team: Team) -> None:
    own = create_posted(
        team=team, name="demo-invoicing", files={"a.py": "x = 1\n"}, actor="user:a"
    ).repository
    load(team)
    remove_demo(team)
    assert list(Repository.objects.filter(team=team)) == [own]
