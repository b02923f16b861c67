"""Ten briefs that a person has read, with a judgement of each, kept in `readings.json` and in the results.

The engine writes the briefs. The judgements are written by hand, so each run counts how many briefs are still
the same.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.agents.briefmaterial import BUDGET_TOKENS, Window, compress_window, read_windows, talk_windows
from benchmarks.figures import Figure

KEPT = Path(__file__).parent / "readings.json"
INTRODUCTION = f"""\
## Ten briefs, read

Five windows of commits and five of meetings, each as the engine shortens it to {BUDGET_TOKENS} tokens. The
judgement below each was written by a person who had read the source.
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """A brief, where its findings come from, and what a person thinks of it."""

    source: str
    window: int
    brief: str
    judgement: str


def load_readings() -> list[Reading]:
    return [Reading(**item) for item in json.loads(KEPT.read_text())]


def render_readings() -> str:
    """Return the section of the results with the briefs and the judgements."""
    parts = [INTRODUCTION]
    for reading in load_readings():
        quoted = "\n".join(f"> {line}  " for line in reading.brief.split("\n"))
        title = f"### {reading.source}, window {reading.window}"
        parts.append(f"{title}\n\n{quoted}\n\n{reading.judgement}\n")
    return "\n".join(parts)


def count_unchanged(files: Sequence[Path], dialogues: Sequence[Path]) -> Figure:
    """Return how many of the briefs, of those whose source is given, are the same today."""
    pairs = list(_found(files, dialogues))
    same = sum(compress_window(window).brief == reading.brief for reading, window in pairs)
    return Figure("briefs read by a person that are still the same", "", len(pairs), same)


def _found(files: Sequence[Path], dialogues: Sequence[Path]) -> Iterator[tuple[Reading, Window]]:
    readings = load_readings()
    for path in (*files, *dialogues):
        if not any(reading.source == path.stem for reading in readings):
            continue
        windows = list(talk_windows(path) if path in dialogues else read_windows(path, with_paths=False))
        for reading in readings:
            if reading.source == path.stem and reading.window < len(windows):
                yield reading, windows[reading.window]


def main() -> None:
    """Write the briefs again, so that a person can read and judge them again."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--commits", type=Path, nargs="*", default=[])
    parser.add_argument("--dialogues", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    found = {
        (reading.source, reading.window): window for reading, window in _found(given.commits, given.dialogues)
    }
    readings = [
        replace(reading, brief=compress_window(window).brief)
        if (window := found.get((reading.source, reading.window)))
        else reading
        for reading in load_readings()
    ]
    KEPT.write_text(
        json.dumps([asdict(reading) for reading in readings], ensure_ascii=False, indent=2) + "\n"
    )


if __name__ == "__main__":
    main()
