#!/usr/bin/env python
"""The command line: `manage.py up` serves everything, `manage.py help` lists the other commands."""

import gc
import io
import os
import sys


def main() -> None:
    if sys.argv[1:2] == ["mcp"]:
        # An agent waits for this start. Nothing imported is ever freed, and most of the SDK's types are never
        # used: each builds its validator when it is. The command enables the collector again.
        gc.disable()
        from pydantic import BaseModel

        BaseModel.model_config["defer_build"] = True
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    from config.embedded.place import SetupError
    from config.embedded.schema import prepare_for

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    # Under umask 000, others could change logs, and the scripts that pages load.
    os.umask(os.umask(0o077) | 0o002)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that is not UTF-8 gets escapes for what it lacks, as on standard error.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        prepare_for(sys.argv[1:])
    except (SetupError, ImproperlyConfigured) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        # Imports take most of a start, and Ctrl-C may come during them.
        sys.exit(130)
