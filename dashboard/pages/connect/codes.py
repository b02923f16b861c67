"""Connect codes and keys: their forms, and the address where a tool exchanges a code for a key."""

from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from pydantic import ValidationError

from contextopt.api.protocol import problems
from contextopt.api.protocol.problems import BodyTooLarge, MalformedBody
from contextopt.api.protocol.transport import read_value
from contextopt.errors import InvalidInput, NotFound, TooManyAttempts
from contextopt.inputs import field_problems
from contextopt.people.addresses import client_address
from contextopt.people.connectcodes import GATEWAY_DAYS, redeem_code
from contextopt.people.inputs import CodeIn, GatewayKeyIn, RedemptionIn
from contextopt.people.logins import count_wrong_code
from contextopt.people.models import Role, Scope
from contextopt.spaces.models import Space
from dashboard.kit.forms import InputForm
from dashboard.kit.permissions import TeamRequest
from dashboard.pages.connect.codesamples import describe_gateway
from dashboard.pages.people.forms import KEY_NAME_MAX, KeyForm

BODY_MAX_BYTES = 4_096
FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host")
IN_CLEAR = "Connect codes work only over HTTPS, or on the machine that the server runs on."


class CodeForm(InputForm[CodeIn]):
    """The space of the contexts, and the spaces that the key is limited to, if any."""

    input_type = CodeIn
    ids = "code_%s"
    space = forms.ChoiceField(label="Contexts from")
    spaces = forms.MultipleChoiceField(
        label="Limit the key to", required=False, widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, spaces: list[Space], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        choices = [(space.slug, space.name) for space in spaces]
        self.fields["space"].choices = self.fields["spaces"].choices = choices  # type: ignore[attr-defined]

    def values(self, cleaned: Any) -> dict[str, Any]:
        return {**cleaned, "spaces": cleaned["spaces"] or None}


class ConnectKeyForm(KeyForm):
    """A key for the snippets. One for the gateway's address is limited to a space, and ends."""

    space = forms.ChoiceField(
        required=False,
        label="Space of a gateway key",
        help_text=(
            f"A key with scope gateway opens only the gateway, for this space and {GATEWAY_DAYS} days. "
            "It can stand in the address, for clients that cannot send headers."
        ),
    )

    def __init__(self, spaces: list[Space], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.fields["space"].choices = [  # type: ignore[attr-defined]
            (space.slug, space.name) for space in spaces
        ]

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        space, rest = cleaned["space"], {name: cleaned[name] for name in ("name", "scope")}
        if rest["scope"] != Scope.GATEWAY:
            return rest
        expires_at = timezone.now() + timedelta(days=GATEWAY_DAYS)
        return {**rest, "spaces": [space] if space else None, "expires_at": expires_at}


class GatewayKeyForm(InputForm[GatewayKeyIn]):
    """A key of one's own for the gateway, which needs no admin."""

    input_type = GatewayKeyIn
    ids = KeyForm.ids
    name = forms.CharField(max_length=KEY_NAME_MAX)
    space = forms.ChoiceField(label="Contexts from")

    def __init__(self, spaces: list[Space], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.fields["space"].choices = [  # type: ignore[attr-defined]
            (space.slug, space.name) for space in spaces
        ]


def key_form(
    request: TeamRequest, spaces: list[Space], *arguments: Any, **options: Any
) -> ConnectKeyForm | GatewayKeyForm:
    """Return the form for the keys that the visitor may create."""
    kind = ConnectKeyForm if request.membership.allows(Role.ADMIN) else GatewayKeyForm
    return kind(spaces, *arguments, auto_id=KeyForm.ids, **options)


def is_private(request: HttpRequest) -> bool:
    """Return whether nobody on the way can read the request: it came over HTTPS, or to a loopback address.

    A proxy in front may have received it in clear and from anywhere.
    """
    if request.is_secure():
        return True
    host = request.get_host()
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return _is_loopback(name) and not any(header in request.headers for header in FORWARDED)


def _is_loopback(name: str) -> bool:
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


@csrf_exempt
@require_POST
def connect_redeem(request: HttpRequest) -> HttpResponse:
    """Exchange a connect code for a key. The secret is in this response and nowhere else."""
    if not is_private(request):
        return problems.problem(request, 403, "forbidden", "Forbidden", IN_CLEAR)
    try:
        data = read_redemption(request)
        with count_wrong_code(client_address(request)):
            code, key, secret = redeem_code(data)
    except BodyTooLarge as error:
        return problems.refuse(request, error)
    except MalformedBody as error:
        return problems.on_malformed_body(request, error)
    except InvalidInput as error:
        return problems.on_invalid_input(request, error)
    except TooManyAttempts as error:
        return problems.on_too_many_attempts(request, error)
    except NotFound as error:
        return problems.refuse(request, error)
    answer = {
        "key": secret,
        "key_id": key.pk,
        "name": key.name,
        "team": code.team.name,
        "space": code.space.slug,
    }
    return JsonResponse({**answer, "gateway": gateway_json(request)}, status=HTTPStatus.CREATED)


def read_redemption(request: HttpRequest) -> RedemptionIn:
    """Raises: BodyTooLarge, MalformedBody, InvalidInput."""
    if len(request.body) > BODY_MAX_BYTES:
        raise BodyTooLarge(f"The body is larger than {BODY_MAX_BYTES:,} bytes.")
    value = read_value(request.body)
    try:
        return RedemptionIn.model_validate(value)
    except ValidationError as error:
        raise InvalidInput(field_problems(error)) from error


def gateway_json(request: HttpRequest) -> dict[str, Any]:
    found = describe_gateway(request)
    return {"url": found["gateway"], "openai": found["has_openai"], "anthropic": found["has_anthropic"]}
