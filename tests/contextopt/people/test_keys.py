import pytest
from django.http.request import HttpHeaders

from contextopt.people.keys import read_secret


@pytest.mark.parametrize(
    ("sent", "secret"),
    [
        ({"AUTHORIZATION": "Bearer ctx_a"}, "ctx_a"),
        ({"AUTHORIZATION": "bearer ctx_a"}, "ctx_a"),
        ({"AUTHORIZATION": "  BEARER   ctx_a  "}, "ctx_a"),
        ({"X_API_KEY": "ctx_b"}, "ctx_b"),
        ({"X_API_KEY": " ctx_b "}, "ctx_b"),
        ({"AUTHORIZATION": "Bearer ctx_a", "X_API_KEY": "ctx_b"}, "ctx_a"),
        ({"AUTHORIZATION": "Basic ctx_a", "X_API_KEY": "ctx_b"}, "ctx_b"),
        ({"AUTHORIZATION": "Bearer", "X_API_KEY": "ctx_b"}, "ctx_b"),
        ({"AUTHORIZATION": "Bearer  ", "X_API_KEY": "ctx_b"}, "ctx_b"),
        ({"AUTHORIZATION": "Bearerctx_a"}, ""),
        ({"AUTHORIZATION": "ctx_a"}, ""),
        ({"AUTHORIZATION": "Basic ctx_a"}, ""),
        ({"AUTHORIZATION": "Bearer "}, ""),
        ({"AUTHORIZATION": "", "X_API_KEY": ""}, ""),
        ({}, ""),
    ],
)
def test_read_secret(sent: dict[str, str], secret: str) -> None:
    headers = HttpHeaders({f"HTTP_{name}": value for name, value in sent.items()})
    assert read_secret(headers) == secret
