"""An invalid variable stops the start with an error that names it."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.variables import (
    env_broker,
    env_choice,
    env_hosts,
    env_int,
    env_listener,
    env_origins,
    env_port,
    env_secret,
    env_str,
    env_token,
    env_url,
)


@pytest.mark.parametrize(
    "value", ["", "http://127.0.0.1:11434/v1", "https://api.openai.com/v1", "http://[::1]:8/v1"]
)
def test_an_address_is_taken_as_it_is(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_BASE_URL", value)
    assert env_url("LLM_BASE_URL") == value


@pytest.mark.parametrize(
    "value",
    ["api.openai.com/v1", "ftp://host/v1", "http://", "https://a b/v1", "http://host:port/v1", "http://[::1"],
)
def test_what_is_no_address_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_BASE_URL", value)
    with pytest.raises(ImproperlyConfigured, match=r"LLM_BASE_URL is '.*'; use an address such as https://"):
        env_url("LLM_BASE_URL")


def test_a_secret_that_was_restored_is_closed_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SECRET_KEY", raising=False)
    path = tmp_path / "secret_key"
    path.write_text("from a backup")
    path.chmod(0o644)
    assert env_secret("SECRET_KEY", path) == "from a backup"
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_empty_file_is_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SECRET_KEY", raising=False)
    path = tmp_path / "secret_key"
    created = env_secret("SECRET_KEY", path)
    assert (env_secret("SECRET_KEY", path), len(created) > 50) == (created, True)
    path.write_text("\n")
    with pytest.raises(ImproperlyConfigured, match=r"secret_key is empty; delete it .* or set SECRET_KEY"):
        env_secret("SECRET_KEY", path)


@pytest.mark.parametrize("value", ["*", ".example.com, context_1.example.com", "127.0.0.1,[::1],localhost"])
def test_host_names(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOWED_HOSTS", value)
    assert env_hosts("ALLOWED_HOSTS", "") == [part.strip() for part in value.split(",")]


@pytest.mark.parametrize("value", ["http://example.com", "example.com/", "example.com:8000", "a b", "::1"])
def test_what_no_host_header_can_match_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOWED_HOSTS", f"localhost,{value}")
    with pytest.raises(ImproperlyConfigured, match=f"ALLOWED_HOSTS has '{value}'; use host names"):
        env_hosts("ALLOWED_HOSTS", "")


def test_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CSRF_TRUSTED_ORIGINS", "https://*.example.com, http://10.0.0.1:8080")
    assert env_origins("CSRF_TRUSTED_ORIGINS") == ["https://*.example.com", "http://10.0.0.1:8080"]


@pytest.mark.parametrize("value", ["context.example.com", "https://example.com/", "https://example.com/x"])
def test_what_no_origin_can_match_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CSRF_TRUSTED_ORIGINS", value)
    with pytest.raises(ImproperlyConfigured, match=f"CSRF_TRUSTED_ORIGINS has '{value}'; use origins"):
        env_origins("CSRF_TRUSTED_ORIGINS")


def test_a_broker_is_named_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://127.0.0.1:6379/0")
    assert env_broker("CELERY_BROKER_URL") == "redis://127.0.0.1:6379/0"


@pytest.mark.parametrize("value", ["redis", "http://127.0.0.1:6379", "sqla+sqlite:///jobs"])
def test_what_is_no_broker_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", value)
    with pytest.raises(ImproperlyConfigured, match=r"CELERY_BROKER_URL is '.*'; use redis://… or amqp://…"):
        env_broker("CELERY_BROKER_URL")


@pytest.mark.parametrize("value", ["127.0.0.1", "0.0.0.0", "::1", "::", "gateway-1.example.com"])
def test_an_address_to_listen_at(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_HOST", value)
    assert env_listener("GATEWAY_HOST", "127.0.0.1") == value


@pytest.mark.parametrize("value", ["bad host", "http://127.0.0.1", "127.0.0.1:8010", "localhost:8010"])
def test_an_address_to_listen_at_has_no_scheme_or_port(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_HOST", value)
    with pytest.raises(ImproperlyConfigured, match=f"GATEWAY_HOST is '{value}'; use an address such as"):
        env_listener("GATEWAY_HOST", "127.0.0.1")


@pytest.mark.parametrize("value", ["two\nlines", "nøkkel"])
def test_a_token_that_no_header_can_carry_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METRICS_TOKEN", value)
    with pytest.raises(ImproperlyConfigured, match="METRICS_TOKEN has characters that no header can carry"):
        env_token("METRICS_TOKEN")


def test_choices_and_numbers_name_what_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_LEVEL", "Loud")
    with pytest.raises(ImproperlyConfigured, match="LOG_LEVEL is 'loud'; use one of info, debug"):
        env_choice("LOG_LEVEL", ("info", "debug"))
    monkeypatch.setenv("DATABASE_POOL", "501")
    with pytest.raises(ImproperlyConfigured, match="DATABASE_POOL is 501; use a number from 1 to 500"):
        env_int("DATABASE_POOL", 16, low=1, high=500)
    monkeypatch.setenv("GATEWAY_PORT", "")
    assert env_port("GATEWAY_PORT", 8010) is None


def test_an_empty_variable_means_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_MODEL", "")
    monkeypatch.setenv("ALLOWED_HOSTS", " ")
    assert env_str("LLM_MODEL", "gpt-4o-mini") == "gpt-4o-mini"
    assert env_hosts("ALLOWED_HOSTS", "localhost") == ["localhost"]
