"""Reads uploaded files as commands read files on disk."""

from collections.abc import Callable
from tempfile import NamedTemporaryFile
from typing import BinaryIO

from django import forms

from contextopt.spaces.importing import UnusableSource, open_input

FIELD = "file"


def read_upload(form: forms.Form, read: Callable[[BinaryIO], object]) -> None:
    """Pass the form's file to `read`, decompressed if needed. If it is unusable, the form gets an error."""
    with NamedTemporaryFile() as file:
        for chunk in form.cleaned_data[FIELD].chunks():
            file.write(chunk)
        file.flush()
        try:
            with open_input(file.name) as stream:
                read(stream)
        except UnusableSource as error:
            form.add_error(FIELD, str(error).replace(file.name, "The file"))
