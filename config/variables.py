"""Reads environment variables. A wrong value stops the start with an error that names the variable."""

import contextlib
import os
import re
import secrets
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from django.core.exceptions import ImproperlyConfigured

from config.embedded.filelocks import restrict

# A host name, one with all its subdomains (.example.com), an address, or all of them (*).
HOST = re.compile(r"\*|\.?[\w-]+(\.[\w-]+)*\.?|\[[0-9a-fA-F:.]+\]")
# An address to listen at: a name, or one of IPv4 or IPv6.
LISTENER = re.compile(r"[\w.-]+|[0-9a-fA-F:]*:[0-9a-fA-F.]*")
BROKER = re.compile(r"(redis|rediss|sentinel|amqp|amqps|pyamqp)://")


def env_str(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def env_bool(name: str) -> bool:
    text = env_str(name).lower()
    if text in {"1", "true", "yes", "on"}:
        return True
    if text in {"", "0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} is {text!r}; use true or false")


def env_int(name: str, default: int, *, low: int = 0, high: int) -> int:
    text = env_str(name)
    try:
        value = int(text) if text else default
    except ValueError:
        raise ImproperlyConfigured(f"{name} is {text!r}; use a whole number") from None
    if not low <= value <= high:
        raise ImproperlyConfigured(f"{name} is {value}; use a number from {low} to {high}")
    return value


def env_port(name: str, default: int) -> int | None:
    """Return a port, or None if the variable is set but empty."""
    if name in os.environ and not env_str(name):
        return None
    return env_int(name, default, low=1, high=65_535)


def env_choice(name: str, choices: tuple[str, ...]) -> str:
    """Return one of the choices, the first when the variable is not set."""
    text = env_str(name).lower() or choices[0]
    if text not in choices:
        raise ImproperlyConfigured(f"{name} is {text!r}; use one of {', '.join(choices)}")
    return text


def env_list(name: str, default: str) -> list[str]:
    return [part.strip() for part in env_str(name, default).split(",") if part.strip()]


def env_hosts(name: str, default: str) -> list[str]:
    """Return host names. Django compares them without scheme, port and path, so those would never match."""
    hosts = env_list(name, default)
    for host in hosts:
        if not HOST.fullmatch(host):
            raise ImproperlyConfigured(f"{name} has {host!r}; use host names such as context.example.com")
    return hosts


def env_origins(name: str) -> list[str]:
    """Return origins. Django compares them as text, so a path or a final slash would never match."""
    origins = env_list(name, "")
    for origin in origins:
        parts = split_url(origin)
        if not parts or f"{parts.scheme}://{parts.netloc}" != origin:
            raise ImproperlyConfigured(
                f"{name} has {origin!r}; use origins such as https://context.example.com"
            )
    return origins


def env_listener(name: str, default: str) -> str:
    """Return the address that a server listens at, without scheme and port."""
    address = env_str(name, default)
    if not LISTENER.fullmatch(address):
        raise ImproperlyConfigured(f"{name} is {address!r}; use an address such as 127.0.0.1 or ::1")
    return address


def env_token(name: str) -> str:
    """Return a token that is sent in a header, which carries nothing but ASCII."""
    token = env_str(name)
    if not (token.isascii() and token.isprintable()):
        raise ImproperlyConfigured(f"{name} has characters that no header can carry; use printable ASCII")
    return token


def env_url(name: str) -> str:
    """Return the address of an HTTP API, or nothing if the variable is not set."""
    url = env_str(name)
    if url and not split_url(url):
        raise ImproperlyConfigured(f"{name} is {url!r}; use an address such as https://host.example.com/v1")
    return url


def env_broker(name: str) -> str:
    url = env_str(name)
    if url and not BROKER.match(url):
        raise ImproperlyConfigured(f"{name} is {url!r}; use redis://… or amqp://…")
    return url


def split_url(text: str) -> SplitResult | None:
    """Return the parts of an HTTP address, or None if it is none."""
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or True)
    except ValueError:
        return None
    return parts if is_address and not re.search(r"\s", text) else None


def env_secret(name: str, path: Path) -> str:
    """Return the secret from the environment, or from a file that only this user may read."""
    if value := env_str(name):
        return value
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_once(path, secrets.token_urlsafe(50))
        except OSError as error:
            raise ImproperlyConfigured(f"{path} cannot be written ({error}); set {name}") from None
    # A copy that was restored from a backup may be open to others.
    restrict(path, group=0)
    if not (secret := path.read_text().strip()):
        raise ImproperlyConfigured(f"{path} is empty; delete it to create a new one, or set {name}")
    return secret


def _write_once(path: Path, text: str) -> None:
    """Write a private file atomically, unless another process was first."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
        file.flush()
        # After a power cut, the file must not be there without its text.
        os.fsync(file.fileno())
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()
