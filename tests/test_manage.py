"""The command line before a command runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from config.embedded import schema
from config.embedded.place import SetupError
from tests.commands import manage, shell_environment

INTERRUPTED = "raise KeyboardInterrupt\n"


def test_ctrl_c_during_the_start_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "interrupted", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "manage.py", "search", "a", "b"], env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_a_server_that_cannot_be_reached_is_named_with_its_reason() -> None:
    done = manage("showmigrations", DATABASE_URL="postgresql://nobody@127.0.0.1:1/nothing")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"The database of DATABASE_URL cannot be reached: ")
    assert b"Connection refused" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_server_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    schema.check_server()
    monkeypatch.setattr(schema, "OLDEST_SERVER", 990_000)
    with pytest.raises(SetupError, match=r"^DATABASE_URL names a PostgreSQL \d\d; use 99 or newer$"):
        schema.check_server()


def test_checks_run_under_a_locale_that_is_not_utf8() -> None:
    done = manage("check", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", LC_ALL="C")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.django_db
def test_others_may_not_write_what_a_command_makes(tmp_path: Path) -> None:
    makes = f"from pathlib import Path; Path({str(tmp_path / 'made')!r}).touch()"
    command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", makes]
    subprocess.run(command, env=shell_environment(), umask=0, check=True)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o664
