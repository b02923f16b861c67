"""Opens uploaded files as commands open files on disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile
from typing import BinaryIO

from django import forms

from contextopt.spaces.importing import UnusableSource, open_input

FIELD = "file"


@contextmanager
def open_upload(form: forms.Form) -> Iterator[BinaryIO]:
    """Open the form's file, decompressed if needed. If it cannot be read at all, the form gets an error."""
    with NamedTemporaryFile() as file:
        for chunk in form.cleaned_data[FIELD].chunks():
            file.write(chunk)
        file.flush()
        try:
            with open_input(file.name) as stream:
                yield stream
        except UnusableSource as error:
            form.add_error(FIELD, str(error).replace(file.name, "The file"))
