"""Walks over all addresses: one test for each rule, which names every address that breaks it."""

from collections.abc import Callable, Iterable
from traceback import format_exception_only

from django.db import transaction
from django.test import Client


def walk[Case](cases: Iterable[Case], check: Callable[[Case], object]) -> None:
    """Check each case in a transaction that is rolled back, and fail with all faults at the end."""
    cases, faults = list(cases), []
    for case in cases:
        try:
            with transaction.atomic():
                check(case)
                transaction.set_rollback(True)
        except Exception as error:  # The walk goes on, whatever a case raises.
            faults.append(f"{case}: {''.join(format_exception_only(error))}")
    assert cases
    assert not faults, f"{len(faults)} of {len(cases)} failed:\n" + "\n".join(faults)


def same(client: Client) -> Client:
    """Return a client with the same log-in. Changes of its cookies are rolled back with the rest."""
    other = Client()
    other.cookies = client.cookies.copy()
    return other
