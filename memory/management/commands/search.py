"""`manage.py search SPACE QUERY`"""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from contextopt.errors import InvalidInput
from contextopt.management.base import DONE, parse_input, space_of, team_of
from contextopt.management.documents import AnsweringCommand
from contextopt.management.upkeep import make_searchable
from contextopt.models import Team
from memory.search.inputs import SearchIn
from memory.search.search import Found, ResultOut, find, targets_of

OPTIONS = (
    ("--limit", "N", "maximum number of results (default: 10)"),
    ("--method", "rrf|weighted", "how to combine the two rankings (default: rrf)"),
    ("--hybrid-alpha", "SHARE", "weight of the vector score in a weighted sum, 0 to 1"),
    ("--min-similarity", "COSINE", "minimum similarity, 0 to 1"),
    ("--min-relevance", "SHARE", "mark results that match less, 0 to 1"),
    ("--date-from", "MOMENT", "only results from this date or date-time on"),
    ("--date-to", "MOMENT", "only results up to this date or date-time"),
    ("--as-of", "MOMENT", "search as of this date or date-time"),
)
LISTS = (
    ("--type", "types", "record or memory type; repeatable"),
    ("--source", "sources", "record source; repeatable"),
    ("--tag", "tags", "repeatable"),
    ("--kind", "kinds", "record or memory; repeatable"),
    ("--repository", "repositories", "of memories; repeatable"),
    ("--category", "categories", "of memories; repeatable"),
    ("--trust", "trust_levels", "user, agent or external; records count as user; repeatable"),
)
NAMES = {"space": "SPACE", "query": "QUERY"} | {field: name for name, field, _ in LISTS}
EXCERPT = 200


class Command(AnsweringCommand):
    help = (
        "Search a space's records and the team's memories by words and meaning. Newly imported texts are "
        "embedded first."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("space", metavar="SPACE")
        parser.add_argument("query", metavar="QUERY", nargs="?")
        for name, metavar, text in OPTIONS:
            parser.add_argument(name, metavar=metavar, help=text)
        for name, _, text in LISTS:
            parser.add_argument(name, metavar="NAME", action="append", help=text)
        parser.add_argument(
            "--queries", metavar="FILE.jsonl",
            help='a file with one {"id": …, "query": …, other fields} per line; prints one JSON line each',
        )  # fmt: skip

    def run(self, options: Mapping[str, Any]) -> int:
        team = team_of(options)
        asked = {"space": options["space"], **_given(options)}
        many = options["queries"] is not None
        if many == (options["query"] is not None):
            raise InvalidInput.of("QUERY", "give either QUERY or --queries")
        request = parse_input(SearchIn, {"query": "", **asked}, NAMES)
        space_of(team, options["space"])
        for target in targets_of(team, request):
            make_searchable(self.stderr, target.searchable, target.corpus_id)
        if many:
            return self.answer_lines(
                options["queries"], lambda own: _answer(team, {**asked, **own}), space=request.space
            )
        found = find(team=team, request=request, now=timezone.now())
        text = "\n".join(map(describe_result, found.results)) or "Nothing found."
        self.print_answer(options, _to_json(found), text)
        return DONE


def _answer(team: Team, asked: Mapping[str, object]) -> dict[str, Any]:
    return _to_json(find(team=team, request=SearchIn.model_validate(asked), now=timezone.now()))


def describe_result(result: ResultOut) -> str:
    similarity = "–" if result["similarity"] is None else f"{result['similarity']:.2f}"
    excerpt = " ".join(result["content"].split())[:EXCERPT]
    mark = f"  (weak match: {result['match_score']:.2f})" if result["below_min_relevance"] else ""
    return (
        f"{result['decayed_score']:.3f}  {result['kind']} {result['id']}  {result['title']}{mark}\n"
        f"       words {result['lexical_score']:.2f}, similarity {similarity}  {excerpt}"
    )


def _given(options: Mapping[str, Any]) -> dict[str, object]:
    fields = {name.removeprefix("--").replace("-", "_") for name, _, _ in OPTIONS} | {"query"}
    single = {field: options[field] for field in fields if options[field] is not None}
    lists = {field: options[name.removeprefix("--")] for name, field, _ in LISTS}
    return single | {field: values for field, values in lists.items() if values is not None}


def _to_json(found: Found) -> dict[str, Any]:
    return {"results": found.results, "degraded": found.degraded}
