"""Forms. They parse the browser's text; the product's own input types make the final check."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from django import forms
from pydantic import ValidationError

from contextopt.errors import Conflict, FieldProblem, InvalidInput
from contextopt.inputs import Input, field_problems, read_digits
from contextopt.strictjson import DuplicateKey, NotFinite, read_json


class ListField(forms.CharField):
    """Words separated by commas, as a list without blanks and duplicates."""

    mark = ", "

    def to_python(self, value: Any) -> Any:
        if isinstance(value, list):
            # A disabled field gives its initial value.
            return value
        text = super().to_python(value) or ""
        return list(dict.fromkeys(part.strip() for part in text.split(self.mark.strip(" ")) if part.strip()))

    def prepare_value(self, value: Any) -> Any:
        return self.mark.join(value) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(self.to_python(data) != (initial or []))


class LinesField(ListField):
    """A list with one entry per line."""

    widget = forms.Textarea(attrs={"rows": 4})
    mark = "\n"


class NotesField(forms.CharField):
    """Multi-line text, without the carriage returns that browsers add."""

    widget = forms.Textarea(attrs={"rows": 10})

    def to_python(self, value: Any) -> Any:
        return (super().to_python(value) or "").replace("\r\n", "\n")

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(self.to_python(data) != (initial or ""))


class PickedMomentField(forms.DateTimeField):
    """A date and time in the team's time zone, picked in the browser."""

    widget = forms.DateTimeInput(attrs={"type": "datetime-local", "step": 1}, format="%Y-%m-%dT%H:%M:%S")


class ObjectField(forms.CharField):
    """A JSON object."""

    widget = forms.Textarea(attrs={"rows": 4, "spellcheck": "false"})

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return {}
        try:
            parsed = read_json(text)
        except DuplicateKey as error:
            raise forms.ValidationError(f"The object {error}.") from None
        except NotFinite as error:
            raise forms.ValidationError(f"{error}.") from None
        except (ValueError, RecursionError):
            raise forms.ValidationError('Enter a JSON object such as {"author": "Ann"}.') from None
        if not isinstance(parsed, dict):
            raise forms.ValidationError('Enter a JSON object such as {"author": "Ann"}.')
        return parsed

    def prepare_value(self, value: Any) -> Any:
        return json.dumps(value, indent=2, ensure_ascii=False) if isinstance(value, dict) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool(self.to_python(data) != (initial or {}))
        except forms.ValidationError:
            return True


def read_ticks(values: Iterable[str]) -> list[int]:
    """Return the ids among the values of ticked boxes."""
    return [number for value in values if (number := read_digits(value)) is not None]


class InputForm[Given: Input](forms.Form):
    """A form whose cleaned data must also pass an input type; `value` is then the input.

    A form that changes something takes its current values as `initial` and sends their hash back as `seen`.
    """

    input_type: type[Given]
    value: Given

    @property
    def seen(self) -> str:
        """A hash of the initial values, for the page."""
        initial = json.dumps(self.initial, sort_keys=True, default=str)
        return blake2b(initial.encode(), digest_size=8).hexdigest()

    @property
    def is_overtaken(self) -> bool:
        """Whether the values have changed since the form was opened.

        Check this before the form's errors: a page with errors has the present hash, so the change would go
        unnoticed.
        """
        return bool(self.data.get("seen", self.seen) != self.seen)

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values for the input type."""
        return dict(cleaned)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        try:
            self.value = self.input_type.model_validate(self.values(cleaned))
        except ValidationError as error:
            self.add_problems(field_problems(error))
        return cleaned

    @contextmanager
    def refusals(self, conflicting: str | None = None) -> Iterator[None]:
        """Put a refusal by the wrapped call into the form's errors, a conflict at the field `conflicting`."""
        try:
            yield
        except InvalidInput as error:
            self.add_problems(error.problems)
        except Conflict as error:
            self.add_error(conflicting, str(error))

    def add_problems(self, problems: Iterable[FieldProblem]) -> None:
        """Add each problem to its field, or to the top of the form if it has no such field."""
        for problem in problems:
            name = problem.field.partition(".")[0]
            if name in self.fields:
                self.add_error(name, problem.message)
            else:
                self.add_error(None, f"{problem.field}: {problem.message}")
