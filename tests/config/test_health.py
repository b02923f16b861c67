"""Probes reach a server directly, without the TLS of the proxy in front."""

from typing import Any

import pytest
from django.test import Client


@pytest.mark.django_db
def test_probes_are_not_redirected_to_https(client: Client, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert client.get("/healthz").status_code == 200
    assert client.get("/accounts/login/").status_code == 301
