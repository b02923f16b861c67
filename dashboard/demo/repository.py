"""The demo's repository: a small invoicing product, with the documents that its tasks are always sent."""

from contextopt.agents.inputs import StandingDocumentIn
from contextopt.agents.standing import attach_document
from contextopt.assemblies.models import DEMO_ACTOR
from contextopt.models import Repository, StandingDocument, Team
from contextopt.repositories.indexing import create_posted, delete_repository
from dashboard.demo.chapters import Chapter, Stage
from dashboard.demo.stories import read_texts

_TEXTS = read_texts("repository")
_TASK = read_texts("timeline")
NAME: str = _TASK["repository"]


def billing_file(noun: str) -> str:
    """Return the module of one kind of row."""
    text: str = _TASK["file"]
    return text.replace("{noun}", noun).replace("{Noun}", noun.capitalize()).lstrip()


def billing_files() -> dict[str, str]:
    """Return the modules that the demo's tasks are about, by path."""
    return {f"billing/{noun}.py": billing_file(noun) for noun in _TASK["nouns"]}


def load_repository(stage: Stage) -> None:
    """Index the files and attach the documents, unless the team has a repository of this name."""
    if Repository.objects.filter(team=stage.team, name=NAME).exists():
        return
    others = {path: text.lstrip() for path, text in _TEXTS["files"].items()}
    files = {**billing_files(), **others, "pyproject.toml": _TASK["manifest"].lstrip()}
    create_posted(team=stage.team, name=NAME, files=files, actor=DEMO_ACTOR)
    for given in _TEXTS["documents"]:
        data = StandingDocumentIn(
            repository=NAME, title=given["title"], content=given["content"].strip() + "\n"
        )
        if not StandingDocument.objects.of(stage.team.pk, NAME).filter(title=data.title).exists():
            attach_document(team=stage.team, data=data, actor=DEMO_ACTOR)


def remove_repository(team: Team) -> None:
    StandingDocument.objects.of(team.pk, NAME).filter(created_by=DEMO_ACTOR).delete()
    for repository in Repository.objects.filter(team=team, name=NAME, created_by=DEMO_ACTOR):
        delete_repository(repository=repository)


def count_repositories(team: Team) -> dict[str, int]:
    return {"repositories": Repository.objects.filter(team=team, created_by=DEMO_ACTOR).count()}


REPOSITORY = Chapter(load_repository, remove_repository, count_repositories)
