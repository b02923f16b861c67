"""Standing documents: attached to a repository once, and sent with every step of its tasks."""

from typing import ClassVar, NamedTuple, Self

from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Length
from django.utils import timezone

from contextopt.agents.inputs import StandingDocumentIn
from contextopt.agents.models import REPOSITORY_MAX, STANDING_CONTENT_MAX, STANDING_TITLE_MAX
from contextopt.engine.agents import steps
from contextopt.errors import Conflict
from contextopt.limits import ACTOR_MAX
from contextopt.people.audit import note_event
from contextopt.people.models import Team
from contextopt.sql import find_one

models.CharField.register_lookup(Length)
models.TextField.register_lookup(Length)

DOCUMENTS_MAX = 100
"""The most documents of one repository."""


class StandingDocumentQuerySet(models.QuerySet["StandingDocument"]):
    def of(self, team_id: int, repository: str) -> Self:
        """Return the repository's documents in the order in which they were attached."""
        return self.filter(team_id=team_id, repository=repository).order_by("id")


class StandingDocument(models.Model):
    """A text that every task of a repository is given, such as its conventions or an operating procedure.

    `repository` is a name as tasks have it, so documents can be attached before the files are indexed.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="standing_documents")
    repository = models.CharField(max_length=REPOSITORY_MAX, help_text="name of the repository")
    title = models.CharField(max_length=STANDING_TITLE_MAX)
    content = models.TextField(max_length=STANDING_CONTENT_MAX)
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    objects = StandingDocumentQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            # Also finds the documents of a repository.
            models.UniqueConstraint(fields=["team", "repository", "title"], name="standing_title_once"),
            models.CheckConstraint(
                condition=Q(repository__length__gte=1, title__length__gte=1), name="standing_named"
            ),
            models.CheckConstraint(
                condition=Q(content__length__gte=1, content__length__lte=STANDING_CONTENT_MAX),
                name="standing_content",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.title} ({self.repository})"

    def to_value(self) -> steps.StandingDocument:
        """Return the engine's value."""
        return steps.StandingDocument(self.title, self.content)


class Attached(NamedTuple):
    """A document and whether it is new."""

    document: StandingDocument
    is_new: bool


@transaction.atomic
def attach_document(*, team: Team, data: StandingDocumentIn, actor: str) -> Attached:
    """Attach a document to a repository, or replace the one with the same title. Attaching it again does
    nothing.

    Raises:
        Conflict: the repository has as many documents as it may.
    """
    team.lock()
    documents = StandingDocument.objects.of(team.pk, data.repository)
    document = documents.filter(title=data.title).first()
    if document is None and documents.count() >= DOCUMENTS_MAX:
        raise Conflict(f"The repository already has {DOCUMENTS_MAX} standing documents, the maximum.")
    before = document.content if document else None
    if document is not None and before == data.content:
        return Attached(document, is_new=False)
    is_new = document is None
    if document is None:
        document = StandingDocument(team=team, repository=data.repository, title=data.title)
        document.created_by = actor
    document.content = data.content
    document.save()
    note_event(
        team_id=team.pk,
        actor=actor,
        action="document.attached" if is_new else "document.changed",
        subject=str(document),
        before=None if before is None else {"content": before},
        after={"content": document.content},
    )
    return Attached(document, is_new)


def find_document(team_id: int, document_id: int) -> StandingDocument:
    """Return the team's standing document.

    Raises:
        NotFound: the team has no such document.
    """
    rows = StandingDocument.objects.filter(team_id=team_id, pk=document_id)
    return find_one(rows, f"standing document {document_id}")


@transaction.atomic
def detach_document(*, document: StandingDocument, actor: str) -> None:
    """Delete a document. Steps that were logged with it keep their texts."""
    note_event(
        team_id=document.team_id,
        actor=actor,
        action="document.detached",
        subject=str(document),
        before={"content": document.content},
    )
    document.delete()
