"""`manage.py search SPACE QUERY`"""

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from contextopt.errors import InvalidInput
from contextopt.management.base import DONE, Options, space_of, team_of
from contextopt.management.documents import AnsweringCommand
from contextopt.management.fields import add_fields, given_fields, parse_input
from contextopt.management.upkeep import make_searchable
from contextopt.people.models import Team
from memory.search.inputs import SearchIn
from memory.search.search import ResultOut, find, targets_of

ABOUT = {
    "limit": "maximum number of results",
    "method": "how to combine the two rankings",
    "hybrid_alpha": "weight of the vector score in a weighted sum",
    "min_similarity": "minimum similarity, as a cosine",
    "min_relevance": "mark results that match less",
    "date_from": "only results from this date or date-time on",
    "date_to": "only results up to this date or date-time",
    "as_of": "search as of this date or date-time",
    "types": "record or memory type",
    "sources": "record source",
    "tags": "of records or memories",
    "kinds": "what to search",
    "repositories": "of memories",
    "categories": "of memories",
    "trust_levels": "who wrote it; records count as user",
}
NAMES = {
    "types": "--type", "sources": "--source", "tags": "--tag", "kinds": "--kind",
    "repositories": "--repository", "categories": "--category", "trust_levels": "--trust",
}  # fmt: skip
EXCERPT = 200


class Command(AnsweringCommand):
    help = (
        "Search a space's records and the team's memories by words and meaning. Newly imported texts are "
        "embedded first."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("space", metavar="SPACE")
        parser.add_argument("query", metavar="QUERY", nargs="?")
        add_fields(parser, SearchIn, ABOUT, **NAMES)
        parser.add_argument(
            "--queries", metavar="FILE.jsonl",
            help='a file with one {"id": …, "query": …, other fields} per line; prints one JSON line each',
        )  # fmt: skip

    def run(self, options: Options) -> int:
        team = team_of(options)
        asked = given_fields(SearchIn, options)
        many = options["queries"] is not None
        if many == (options["query"] is not None):
            raise InvalidInput.of("QUERY", "give either QUERY or --queries")
        request = parse_input(SearchIn, {"query": "", **asked})
        space_of(team, options["space"])
        for target in targets_of(team, request):
            make_searchable(self.stderr, target.searchable, target.corpus_id)
        if many:
            return self.answer_lines(
                options["queries"],
                lambda own: _search(team, SearchIn.model_validate({**asked, **own})),
                space=request.space,
            )
        answer = _search(team, request)
        text = "\n".join(map(describe_result, answer["results"])) or "Nothing found."
        self.print_answer(options, answer, text)
        return DONE


def _search(team: Team, request: SearchIn) -> dict[str, Any]:
    found = find(team=team, request=request, now=timezone.now())
    return {"results": found.results, "degraded": found.degraded}


def describe_result(result: ResultOut) -> str:
    similarity = "–" if result["similarity"] is None else f"{result['similarity']:.2f}"
    excerpt = " ".join(result["content"].split())[:EXCERPT]
    mark = f"  (weak match: {result['match_score']:.2f})" if result["below_min_relevance"] else ""
    return (
        f"{result['decayed_score']:.3f}  {result['kind']} {result['id']}  {result['title']}{mark}\n"
        f"       words {result['lexical_score']:.2f}, similarity {similarity}  {excerpt}"
    )
