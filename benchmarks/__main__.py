"""`python -m benchmarks`: run the benchmarks and print their figures; a full run writes RESULTS.md."""

import argparse
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType

import django

from benchmarks.database import BusyError, own_database, server_params
from benchmarks.material import Material
from config.embedded.place import SetupError

NAMES = (
    "assembly", "web", "import", "budget", "dashboard", "search", "recall", "languages", "pastes", "usage",
    "finding", "cost", "lean", "strategies", "tokenizers", "index", "files", "deltas", "logs", "briefs",
    "kills", "replay", "gateway", "hostile",
)  # fmt: skip
RESULTS = Path(__file__).parent / "RESULTS.md"
MISSED = 1
UNUSABLE = 2
INTERRUPTED = 130


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="small and short, to check that all works")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="records of the generated spaces")
    parser.add_argument("--data", type=Path, help="your own records (JSONL or CSV), to measure too")
    parser.add_argument("--listing", type=Path, nargs="*", default=[], help="commits of repositories (JSON)")
    parser.add_argument("--packages", type=Path, help="folder for the released source packages in --listing")
    parser.add_argument("--checkout", type=Path, nargs="*", default=[], help="git checkouts with a history")
    parser.add_argument("--releases", type=Path, help="folder of successive releases, for deltas")
    parser.add_argument("--logs", type=Path, help="folder of logs with the signals they should keep")
    parser.add_argument(
        "--commits",
        type=Path,
        nargs="*",
        default=[],
        help="records of commits (JSONL), for briefs, finding and lean",
    )
    parser.add_argument(
        "--dialogues",
        type=Path,
        nargs="*",
        default=[],
        help="conversations with questions (JSON as in LoCoMo), for recall to lean, and briefs",
    )
    parser.add_argument("--mem0", type=Path, help="python of an environment that has mem0ai")
    parser.add_argument("--aider", type=Path, help="python of an environment that has aider-chat")
    parser.add_argument("--keep", action="store_true", help="keep the database and reuse it next time")
    parser.add_argument("--output", type=Path, help="where to write the results (a full run: RESULTS.md)")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(NAMES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(NAMES)}")
    if arguments.data and not arguments.data.is_file():
        parser.error(f"--data: there is no file {arguments.data}")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    # A terminated run cleans up like an interrupted one.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with own_database(server_params(), keep=arguments.keep) as address:
            os.environ["DATABASE_URL"] = address
            os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
            django.setup()
            return _measure(arguments)
    except (BusyError, SetupError) as error:
        print(error, file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        print("Interrupted. All processes of the benchmarks have been stopped.", file=sys.stderr)
        return INTERRUPTED


def _measure(arguments: argparse.Namespace) -> int:
    # These import models, which is possible only after django.setup().
    from benchmarks import suite
    from benchmarks.report import summarise, write_results

    scale = suite.QUICK if arguments.quick else suite.FULL
    if arguments.sizes:
        sizes = tuple(sorted(arguments.sizes))
        scale = replace(scale, sizes=sizes, search_sizes=sizes)
    names = [name for name in NAMES if not arguments.names or name in arguments.names]
    try:
        sections, machine = suite.run_suite(names, scale, _material(arguments))
    finally:
        suite.close_connections()
    print(f"{summarise(sections)}\n{machine}")
    if output := arguments.output or (RESULTS if _is_full(arguments) else None):
        write_results(output, sections, machine)
    return MISSED if any(section.missed for section in sections) else 0


def _material(arguments: argparse.Namespace) -> Material:
    return Material(
        records=arguments.data,
        listings=tuple(arguments.listing),
        packages=arguments.packages,
        releases=arguments.releases,
        checkouts=tuple(arguments.checkout),
        logs=arguments.logs,
        commits=tuple(arguments.commits),
        aider=arguments.aider,
        dialogues=tuple(arguments.dialogues),
        mem0=arguments.mem0,
    )


def _is_full(arguments: argparse.Namespace) -> bool:
    return not (arguments.names or arguments.quick or arguments.sizes or arguments.data)


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
