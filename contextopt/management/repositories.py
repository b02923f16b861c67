"""Finds the repository that a command is about."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.core.management.base import BaseCommand

from contextopt.errors import InvalidInput
from contextopt.management.base import list_names
from contextopt.people.models import Team
from contextopt.repositories.checkouts import Checkout, opened
from contextopt.repositories.models import Repository
from contextopt.spaces.importing.git import SHALLOW


@dataclass(frozen=True, slots=True)
class Target:
    """A repository as it was indexed and the folder to read it from; either may be missing."""

    repository: Repository | None
    checkout: Checkout | None
    is_named: bool


@contextmanager
def target(team: Team, text: str) -> Iterator[Target]:
    """Find the repository that REPO names: a folder on this machine, or the name of an indexed repository.

    Raises:
        InvalidInput: it is neither.
    """
    named = Repository.objects.of(team).filter(name=text).first()
    is_named = named is not None and not _is_folder(text)
    if named is not None and is_named:
        if not _is_folder(named.source):
            yield Target(named, None, is_named)
            return
        text = named.source
    elif not _is_folder(text):
        known = list_names(Repository.objects.of(team).values_list("name", flat=True))
        hint = f"; indexed are {known}" if known else ""
        raise InvalidInput.of("REPO", f"{text!r} is neither a folder here nor an indexed repository{hint}")
    with opened(text) as checkout:
        found = Repository.objects.filter(team=team, source=str(checkout.folder)).first()
        yield Target(found, checkout, is_named)


def warn_if_shallow(command: BaseCommand, checkout: Checkout | None) -> None:
    """Say that files are ranked without the older history, and how to get it."""
    if checkout is not None and checkout.is_shallow():
        command.stderr.write(f"note: {SHALLOW}")


def _is_folder(text: str) -> bool:
    return bool(text) and "\0" not in text and Path(text).is_dir()
