"""The part of a long conversation that a question is about."""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.queryanalysis import LONG_EPISODE, SHORT_EPISODE, Place, Topics
from contextopt.engine.ranking import Relevance, topic_weight, weighted_relevance
from contextopt.engine.settings import ContextConfig
from tests.contextopt.engine.factories import NOW

CONFIG = ContextConfig(stage=5)
MEETING = {position: Place("meeting", position, NOW, 20) for position in range(300)}
MATCHES = {100: 6.0, 104: 5.0, 108: 6.0, 290: 6.0, 5: 1.0, 200: 1.0}


def topic(own: Mapping[int, float], places: Mapping[int, Place] = MEETING) -> dict[int, float]:
    return Topics(own, places).parts(places)


def test_records_among_the_matches_count_most() -> None:
    parts = topic(MATCHES)
    assert max(parts.values()) == 10
    assert parts[105] > 9.9 > parts[120] > parts[150]
    assert parts[106] > 1.5 * parts[290]
    assert parts[220] < 1


def test_matches_in_a_short_conversation_are_the_answer_themselves() -> None:
    near = {position: 6.0 - position / 100 for position in range(0, SHORT_EPISODE + 1, 5)}
    assert topic(near | {0: 9.0}) == {}
    between = (SHORT_EPISODE + LONG_EPISODE) // 2
    assert max(topic({0: 6.0, 10: 6.0, between: 5.0, 30: 1.0}).values()) == pytest.approx(5.0)


def test_a_break_ends_an_episode() -> None:
    """Conversations of a channel are short, however long the channel is."""
    channel = {at: Place("general", at, NOW + timedelta(hours=2 * (at // 50)), 20) for at in range(300)}
    assert topic(MATCHES, channel) == {}
    after = Place("meeting", 105, NOW + timedelta(hours=2), 20)
    assert 999 not in Topics(MATCHES, MEETING).parts(MEETING | {999: after})


def test_records_of_other_threads_are_apart() -> None:
    other = Place("another", 105, NOW, 20)
    assert 999 not in Topics(MATCHES, MEETING).parts(MEETING | {999: other})
    split = {at: place._replace(thread=str(at)) for at, place in MEETING.items()}
    assert topic(MATCHES, split) == {}


def test_the_longer_the_records_the_fewer_belong_to_a_topic() -> None:
    long = {at: place._replace(tokens=200) for at, place in MEETING.items()}
    assert topic(MATCHES, long)[116] < 0.5 * topic(MATCHES)[116]


def test_without_matches_there_is_no_topic() -> None:
    assert topic({}) == {}
    assert topic({1: 0.0, 200: 0.0}) == {}
    assert topic(MATCHES, {}) == {}
    assert topic({1: 5.0}) == {}


def test_the_part_joins_the_others() -> None:
    relevant = {100: Relevance(semantic=6.0), 105: Relevance()}
    rated = Topics(MATCHES, MEETING).add(relevant, MEETING)
    assert rated[100]._replace(topic=0.0) == relevant[100]
    assert rated[105].topic > 9
    assert rated[106] == Relevance(topic=rated[106].topic)


def test_it_counts_as_neighbours_do() -> None:
    assert weighted_relevance(Relevance(topic=10.0), CONFIG) > weighted_relevance(Relevance(), CONFIG)
    assert topic_weight(CONFIG) == 26
    assert topic_weight(CONFIG.replace(neighbour_share=Decimal(0))) == 0


@given(st.dictionaries(st.integers(0, 299), st.floats(0, 10), max_size=60), st.randoms())
def test_parts_run_from_0_to_10_in_any_order(own: dict[int, float], rng: Random) -> None:
    parts = topic(own)
    assert all(0 <= part <= 10 for part in parts.values())
    shuffled = list(own.items())
    rng.shuffle(shuffled)
    assert topic(dict(shuffled)) == parts
