"""The decay of memories: their weight halves with each half-life of their type without access."""

from types import MappingProxyType

# In days. Memories that go stale with the code fade fast; decisions last long.
HALF_LIVES = MappingProxyType(
    {"general": 30.0, "error_pattern": 60.0, "code_pattern": 90.0, "strategy": 90.0, "decision": 180.0}
)
OTHER_HALF_LIFE = HALF_LIVES["general"]
SECONDS_A_DAY = 86_400.0
# PostgreSQL refuses a power that underflows. After this many half-lives nothing is left anyway.
HALVINGS_MAX = 1_000

_DEFAULTS = " ".join(f"WHEN '{name}' THEN {days}" for name, days in HALF_LIVES.items())
HALF_LIFE_SQL = f"""
coalesce((SELECT h.days FROM memory_halflife h
           WHERE h.team_id = t.team_id AND h.memory_type = t.memory_type),
         CASE t.memory_type {_DEFAULTS} ELSE {OTHER_HALF_LIFE} END)
"""
DECAY_SQL = f"""
power(0.5::float8, least({HALVINGS_MAX}, greatest(0,
    extract(epoch FROM %(now)s::timestamptz - coalesce(t.last_accessed_at, t.created_at))::float8
    / {SECONDS_A_DAY} / {HALF_LIFE_SQL})))
"""
