"""The forms of team, members and keys."""

from collections.abc import Mapping
from typing import Any, cast

from django import forms
from django.contrib.auth import authenticate
from django.contrib.auth.forms import PasswordChangeForm
from django.http import QueryDict

from contextopt.limits import NAME_MAX
from contextopt.people.inputs import DAYS_MAX, REQUESTS_MAX, AccountIn, InvitationIn, KeyIn, RotationIn
from contextopt.people.logins import note_log_in
from contextopt.people.models import INVITED_MAX, ApiKey, DateOrder, Role, Scope, time_zones
from dashboard.kit.forms import InputForm, ListField
from dashboard.kit.permissions import TeamRequest

KEY_NAME_MAX = ApiKey._meta.get_field("name").max_length


class KeyForm(InputForm[KeyIn]):
    input_type = KeyIn
    # The page has other forms with a field called name.
    ids = "key_%s"
    name = forms.CharField(max_length=KEY_NAME_MAX)
    scope = forms.ChoiceField(choices=Scope.choices, initial=Scope.WRITE)


class LimitedKeyForm(KeyForm):
    """A new key with what limits it."""

    expires_at = forms.DateField(
        label="Expires on", required=False, widget=forms.DateInput(attrs={"type": "date"})
    )
    spaces = ListField(
        label="Only in spaces",
        required=False,
        widget=forms.TextInput(attrs={"placeholder": "such as docs, sales"}),
    )
    requests_per_minute = forms.IntegerField(
        label="Requests per minute",
        required=False,
        min_value=1,
        max_value=REQUESTS_MAX,
        widget=forms.NumberInput(attrs={"placeholder": "default"}),
    )

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        return {**cleaned, "spaces": cleaned["spaces"] or None}


class RotationForm(InputForm[RotationIn]):
    input_type = RotationIn
    overlap_hours = forms.TypedChoiceField(
        label="The old key stays valid for",
        coerce=int,
        initial=24,
        choices=[(0, "no time"), (1, "1 hour"), (24, "24 hours"), (168, "7 days"), (720, "30 days")],
    )


class InvitationForm(InputForm[InvitationIn]):
    input_type = InvitationIn
    ids = "invitation_%s"
    name = forms.CharField(max_length=INVITED_MAX, label="Name")
    role = forms.ChoiceField(choices=Role.choices, initial=Role.REVIEWER)
    days = forms.IntegerField(label="Expires after (days)", initial=7, min_value=1, max_value=DAYS_MAX)


class AccountForm(InputForm[AccountIn]):
    input_type = AccountIn
    username = forms.CharField(
        label="Username",
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none"}),
    )
    password = forms.CharField(
        strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )


class PasswordForm(PasswordChangeForm):
    """A new password of one's own. Guesses of the old one are limited like those at login."""

    def __init__(self, request: TeamRequest, data: QueryDict | None = None) -> None:
        super().__init__(request.user, data)
        self.request = request
        old, new, again = self.fields.values()
        old.label, again.label = "Current password", "Confirm new password"
        new.help_text = "At least 8 characters. It must not be a common password or only digits."
        again.help_text = "You will be logged out everywhere else."

    def clean_old_password(self) -> str:
        """Raises: TooManyAttempts."""
        old: str = self.cleaned_data["old_password"]
        if authenticate(self.request, username=self.user.get_username(), password=old) is None:
            raise forms.ValidationError(self.error_messages["password_incorrect"], code="password_incorrect")
        note_log_in(self.request, self.user)
        return old


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices)


class TeamForm(forms.Form):
    name = forms.CharField(max_length=NAME_MAX)
    time_zone = forms.CharField(max_length=64, widget=forms.TextInput(attrs={"list": "time-zones"}))
    date_order = forms.ChoiceField(
        required=False,
        label="Dates such as 03/04/2026",
        choices=DateOrder.choices,
        help_text="For imports of tables and notes in which no date shows the order.",
    )

    def clean_time_zone(self) -> str:
        name = cast(str, self.cleaned_data["time_zone"])
        if name not in time_zones():
            raise forms.ValidationError(f"{name!r} is not a time zone. Enter a name such as Europe/Oslo.")
        return name
