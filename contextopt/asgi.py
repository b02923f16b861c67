"""The types of ASGI: what a server gives to an application."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

type Scope = dict[str, Any]
type Receive = Callable[[], Awaitable[Mapping[str, Any]]]
type Send = Callable[[Mapping[str, Any]], Awaitable[None]]
