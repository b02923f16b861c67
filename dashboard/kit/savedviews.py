"""Saved views: filters of a page, stored under a name."""

from typing import ClassVar, Self

from django.db import models, transaction
from django.db.models import Q

from contextopt.errors import Conflict
from contextopt.limits import ACTOR_MAX
from contextopt.people.models import Team, User

NAME_MAX = 80
QUERY_MAX = 2_000


class ViewPage(models.TextChoices):
    OVERVIEW = "overview", "Overview"
    ASSEMBLIES = "assemblies", "Assemblies"


class SavedViewQuerySet(models.QuerySet["SavedView"]):
    def visible_to(self, user: User, team: Team) -> Self:
        """The team's shared views and the user's own."""
        return self.filter(team=team).filter(Q(owner=user) | Q(owner=None)).order_by("name", "id")


class SavedView(models.Model):
    """A page's query string, saved by one person or, without an owner, for the team."""

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="saved_views")
    owner = models.ForeignKey(User, models.DB_CASCADE, null=True, blank=True, related_name="saved_views")
    page = models.CharField(max_length=16, choices=ViewPage)
    name = models.CharField(max_length=NAME_MAX)
    query = models.CharField(max_length=QUERY_MAX, blank=True)
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = SavedViewQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["team", "owner", "page", "name"], name="saved_view_once", nulls_distinct=False
            ),
            models.CheckConstraint(condition=Q(page__in=ViewPage.values), name="saved_view_page"),
        ]

    def __str__(self) -> str:
        return self.name


# Enough for a menu.
VIEWS_MAX = 50


@transaction.atomic
def save_view(
    *, team: Team, owner: User | None, page: str, name: str, query: str, created_by: str
) -> SavedView:
    """Save a query string, replacing one of the same name. Without an owner it belongs to the team.

    Raises:
        Conflict: the person, or the team, has the maximum number of views.
    """
    team.lock()
    mine = SavedView.objects.filter(team=team, owner=owner, page=page)
    if not mine.filter(name=name).exists() and mine.count() >= VIEWS_MAX:
        raise Conflict(f"You already have {VIEWS_MAX} saved views. Delete one first.")
    view, _ = SavedView.objects.update_or_create(
        team=team, owner=owner, page=page, name=name, defaults={"query": query, "created_by": created_by}
    )
    return view
