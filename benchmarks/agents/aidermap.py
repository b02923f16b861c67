"""Aider's repository map, called as by its chat. Runs in an environment that has `aider-chat`.

Reads {"root", "budgets", "queries"} from standard input. Writes for each query the files in
ranked order and, for each budget, the files of which the map shows any lines.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import tiktoken
from aider.repomap import RepoMap


class _Model:
    def __init__(self) -> None:
        self._encoding = tiktoken.get_encoding(os.environ.get("AIDER_ENCODING", "cl100k_base"))

    def token_count(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text))


class _Silent:
    def __getattr__(self, _name: str) -> Any:
        return lambda *_arguments, **_options: None

    def read_text(self, path: str, **_options: Any) -> str:
        return Path(path).read_text(errors="replace")


def main() -> None:
    request = json.load(sys.stdin)
    root = Path(request["root"])
    paths = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    paths = [path for path in paths if not path.startswith(".aider")]
    maps = {budget: RepoMap(budget, str(root), _Model(), _Silent()) for budget in request["budgets"]}
    answers = [_answer(query, root, paths, maps) for query in request["queries"]]
    json.dump(answers, sys.stdout)


def _answer(query: str, root: Path, paths: list[str], maps: dict[int, RepoMap]) -> dict[str, Any]:
    words = set(re.split(r"\W+", query))
    files = _mentioned(query, words, paths)
    absolute = [str(root / path) for path in paths]
    ranked: list[str] = []
    shown = {}
    for budget, repo_map in maps.items():
        if not ranked:
            tags = repo_map.get_ranked_tags([], absolute, files, words)
            ranked = list(dict.fromkeys(tag[0] for tag in tags))
        text = repo_map.get_repo_map([], absolute, files, words) or ""
        heads = set(text.split("\n"))
        shown[str(budget)] = [path for path in paths if f"{path}:" in heads]
    return {"ranked": ranked, "shown": shown}


def _mentioned(query: str, words: set[str], paths: list[str]) -> set[str]:
    """Return the files whose path, name or stem is in the text, as Aider's chat finds them."""
    said = {word.rstrip(",.!;:?").strip("\"'`*_") for word in query.split()}
    stems = {word.lower() for word in words if len(word) >= 5}
    return {
        path
        for path in paths
        if path in said
        or Path(path).name in said
        or (len(Path(path).stem) >= 5 and Path(path).stem.lower() in stems)
    }


if __name__ == "__main__":
    main()
