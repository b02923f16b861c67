"""Keeping a page's filters under a name, for oneself or for the team."""

from django.db import transaction

from contextopt.errors import Conflict
from contextopt.models import Team, User
from dashboard.models import SavedView

# A list to choose from, in a menu.
VIEWS_MAX = 50


@transaction.atomic
def save_view(
    *, team: Team, owner: User | None, page: str, name: str, query: str, created_by: str
) -> SavedView:
    """Keep a query string; one of the same name is replaced. Without an owner it is the team's.

    Raises:
        Conflict: the person, or the team, has as many as there may be.
    """
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    mine = SavedView.objects.filter(team=team, owner=owner, page=page)
    if not mine.filter(name=name).exists() and mine.count() >= VIEWS_MAX:
        raise Conflict(f"There are {VIEWS_MAX} saved views already; delete one first.")
    view, _ = SavedView.objects.update_or_create(
        team=team, owner=owner, page=page, name=name, defaults={"query": query, "created_by": created_by}
    )
    return view


def delete_view(*, view: SavedView) -> None:
    SavedView.objects.filter(pk=view.pk).delete()
