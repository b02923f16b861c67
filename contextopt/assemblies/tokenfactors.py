"""The tokenizer of a request: that of its model, of its encoding, or of its space.

A model without a tokenizer of its own has factors. The gateway learns those of a team from what providers
report; until then, shipped ones apply.
"""

from typing import Annotated, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from pydantic import Field

from contextopt.engine.text.encodings import CL100K, HEURISTIC
from contextopt.engine.text.modeltokens import Factor, Factors, ModelTokenizer, find_rule, find_shipped
from contextopt.engine.text.textkinds import TextKind
from contextopt.engine.text.tokens import (
    DEFAULT_ENCODING,
    FACTOR_SCALE,
    Counter,
    CounterName,
    HeuristicCounter,
    RenderedCounter,
    Tokenizer,
    get_counter,
    get_tokenizer,
)
from contextopt.engine.values import UNKNOWN_MODEL, ContextWarning
from contextopt.errors import FieldProblem, InvalidInput
from contextopt.inputs import Input, Text
from contextopt.limits import MODEL_MAX
from contextopt.people.models import Team
from contextopt.sql import fetch_all

LEAST_PROMPTS = 200
"""A factor is used once it was learned from this many prompts."""

Encoding = Annotated[Text, Field(min_length=1, max_length=64)]
ModelName = Annotated[Text, Field(max_length=MODEL_MAX)]


class CountedIn(Input):
    """Says in which tokens the budgets of a request are: of its model, or of an encoding."""

    encoding: Encoding | None = Field(
        default=None,
        description=f"Tokenizer of the budgets, by default that of `model`, or else `{DEFAULT_ENCODING}`.",
    )
    model: ModelName = ""

    def tokenizer(self, team_id: int) -> Tokenizer:
        """Return the tokenizer of the request.

        Raises:
            InvalidInput: it names both a model and an encoding.
            UnknownEncoding: the tokenizer is not available.
        """
        return choose_tokenizer(team_id, model=self.model, encoding=self.encoding)

    def count_by(self, counter: CounterName, team_id: int) -> Counter:
        """Return the counter of that name, with the request's tokenizer if it needs one.

        Raises:
            InvalidInput, UnknownEncoding: see `tokenizer`.
        """
        return HeuristicCounter() if counter == HEURISTIC else get_counter(counter, self.tokenizer(team_id))


def choose_tokenizer(
    team_id: int, *, model: str, encoding: str | None, usual: str = DEFAULT_ENCODING
) -> Tokenizer:
    """Return the tokenizer of the model, or else of the encoding, or else of the usual encoding.

    Raises:
        InvalidInput: both a model and an encoding are named.
        UnknownEncoding: the tokenizer is not available.
    """
    if model and encoding is not None:
        rule = "give model or encoding, not both: a model's tokens are counted in its own encoding"
        raise InvalidInput([FieldProblem("model", rule), FieldProblem("encoding", rule)])
    return tokenizer_of_model(team_id, model) if model else get_tokenizer(encoding or usual)


def tokenizer_of_model(team_id: int, model: str) -> Tokenizer:
    """Return a tokenizer that counts what the model is billed for.

    Raises:
        UnknownEncoding: the tokenizer is not available.
    """
    rule = find_rule(model)
    if rule and rule.encoding and rule.is_installed:
        return ModelTokenizer(get_tokenizer(rule.encoding), model)
    factors = _known_factors(team_id, model)
    return ModelTokenizer(get_tokenizer(CL100K), model, factors, is_unknown=factors is None)


def model_warnings(counts: Tokenizer | Counter) -> tuple[ContextWarning, ...]:
    """Warn if nobody knows how the model counts."""
    tokenizer = counts.tokenizer if isinstance(counts, RenderedCounter) else counts
    if not isinstance(tokenizer, ModelTokenizer) or not tokenizer.is_unknown:
        return ()
    message = (
        f"The model {tokenizer.model[:60]!r} is unknown, so its tokens are counted with {tokenizer.name}. "
        "The provider may bill more."
    )
    return (ContextWarning(UNKNOWN_MODEL, message),)


class TokenFactor(models.Model):
    """The tokens that providers reported for a team's prompts of one kind, against those counted here.

    `mean` and `limit` are the factor in ten-thousandths, as of the last prompt. The histogram adds up counted
    tokens by ratio. The latest prompts are kept apart until they are enough to tell whether the ratio has
    jumped; then the factor starts anew with them, and `mean_before` is what it was.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="token_factors", db_index=False)
    model = models.CharField(max_length=MODEL_MAX)
    kind = models.CharField(max_length=5, choices=[(str(kind), str(kind)) for kind in TextKind])
    prompts = models.PositiveIntegerField(default=0)
    counted_tokens = models.PositiveBigIntegerField(default=0)
    reported_tokens = models.PositiveBigIntegerField(default=0)
    histogram = ArrayField(models.BigIntegerField(), default=list)
    mean = models.PositiveIntegerField(default=0)
    limit = models.PositiveIntegerField(default=0)
    latest_counted = ArrayField(models.PositiveIntegerField(), default=list)
    latest_reported = ArrayField(models.PositiveIntegerField(), default=list)
    mean_before = models.PositiveIntegerField(null=True)
    since = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "model", "kind"], name="token_factor_unique"),
            models.CheckConstraint(condition=Q(mean__lte=F("limit")), name="token_factor_limit"),
        ]

    def __str__(self) -> str:
        return f"{self.model}, {self.kind}"

    @property
    def seen(self) -> int:
        """The prompts since it began, those not added up yet included."""
        return self.prompts + len(self.latest_counted)

    @property
    def times(self) -> tuple[float, float, float | None]:
        """The mean, the limit, and the mean before the last jump, as factors."""
        before = None if self.mean_before is None else self.mean_before / FACTOR_SCALE
        return self.mean / FACTOR_SCALE, self.limit / FACTOR_SCALE, before

    @property
    def is_used(self) -> bool:
        """Whether enough prompts were seen since it began."""
        return self.prompts >= LEAST_PROMPTS


def _known_factors(team_id: int, model: str) -> Factors | None:
    """Return the factors of a model: learned ones where there are enough prompts, else shipped ones.

    Numbers and markup, which are both data, differ more than any other text. So the limit for data is never
    below a shipped one. A kind that has neither takes the largest learned factor.
    """
    rows = fetch_all(
        'SELECT kind, mean, "limit", prompts FROM contextopt_tokenfactor'
        " WHERE team_id = %s AND model = %s AND prompts >= %s",
        [team_id, model, LEAST_PROMPTS],
    )
    learned = {TextKind(kind): Factor(*factor) for kind, *factor in rows}
    shipped = find_shipped(model)
    if shipped and (data := learned.get(TextKind.DATA)):
        limit = max(data.limit, shipped.factors[TextKind.DATA].limit)
        learned[TextKind.DATA] = data._replace(limit=limit)
    known = {**(shipped.factors if shipped else {}), **learned}
    if not known:
        return None
    largest = max(known.values(), key=lambda factor: factor.limit)
    return {kind: known.get(kind, largest) for kind in TextKind}
