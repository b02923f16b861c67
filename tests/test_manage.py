"""The command line before a command runs."""

import os
import subprocess
import sys
from pathlib import Path

INTERRUPTED = "raise KeyboardInterrupt\n"


def test_ctrl_c_during_the_start_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "interrupted", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "manage.py", "search", "a", "b"], env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
