"""Types of requests and responses. Written by generate.py from the API's description."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class AdvanceOptions(TypedDict, total=False):
    """`to` states the phase you expect to enter."""

    force: bool
    to: Literal["analysis", "design", "implementation"] | None


class AgentContextIn(TypedDict):
    """An agent's full context. Lists are ordered by relevance, the best first."""

    docs: NotRequired[list[str | dict[str, Any]] | None]
    files: NotRequired[list[ContextFileIn] | None]
    memories: NotRequired[list[str | dict[str, Any]] | None]
    package_manifest: NotRequired[str | None]
    task: NotRequired[str | None]
    tools: NotRequired[list[str | dict[str, Any]] | None]
    tree: NotRequired[str | None]
    tree_paths: NotRequired[list[str] | None]


class AgentContextOut(TypedDict):
    docs: list[str | dict[str, Any]]
    files: list[ContextFileOut]
    memories: list[str | dict[str, Any]]
    package_manifest: str
    task: str
    tools: list[str | dict[str, Any]]
    tree: str
    tree_paths: list[str]


class AgentStepOptions(TypedDict, total=False):
    """One step of a task: a stored task by its `task_id`, or the text of a new one in `task`."""

    as_of: str | None
    budget: int | None
    context: AgentContextIn | None
    encoding: str | None
    failure: StepFailureIn | None
    model: str
    phase: str
    receiver: str
    repository: str
    space: str | None
    task: str | None
    task_id: int | None


class AgentStepOut(TypedDict):
    """Everything that an agent is sent for one step."""

    attempt: StepAttemptOut | None
    budget_tokens: int
    certificate: CertificateOut
    full_tokens: int | None
    handoff: HandoffJson | None
    id: int | None
    phase: str
    profile: str
    profile_version: int | None
    records: list[StepRecordOut]
    repository: str
    saved_percent: float | None
    saved_tokens: int | None
    sections: list[SectionOut]
    space: str | None
    strategy: StepStrategyOut | None
    task: str
    task_id: int
    text: str
    warnings: list[WarningJson]


class AllocationOut(TypedDict):
    """The division of the total, in tokens."""

    context: int
    history: int
    response: int
    system: int
    total: int


class AssemblyDetail(TypedDict):
    """A logged assembly with its text, its ledger and the settings it used."""

    actor: str
    allocation: AllocationOut
    as_of: str
    assembly_ms: float
    cacheable_tokens: int | None
    cached_tokens: int | None
    carried_tokens: int
    compression_ratio: float | None
    config: dict[str, Any]
    config_version: int | None
    conversation: str
    counted_tokens: int | None
    created_at: str
    encoding: str
    factor: float | None
    factor_mean: float | None
    factor_prompts: int | None
    factor_source: str
    id: int
    is_sent: bool
    kind: str
    ledger: LedgerOut
    model: str
    not_counted: str
    not_delivered: bool
    phase: str
    placement: str
    prompt_tokens: int | None
    purged_at: str | None
    records_dropped: int
    records_filtered: int
    records_included: int
    request: dict[str, Any]
    searched: list[str]
    sha256: str
    shared_prefix_tokens: int | None
    space: str | None
    stage: int | None
    text: str
    tokenizer_version: str
    tokens_after: int
    tokens_at_most: int
    tokens_available: int
    tokens_before: int | None
    tokens_saved: int | None
    truncated: bool
    utilisation: float | None


class AssemblyOptions(TypedDict, total=False):
    """A request for the context of one prompt. Settings in the request override the space's settings.
    """

    adaptive_strictness: float | str | None
    as_of: str | None
    awaits_delivery: bool
    budget_mode: Literal["fixed", "adaptive"] | None
    carried_tokens: int | None
    context_tokens: int | None
    conversation: str
    date_weight: float | str | None
    encoding: str | None
    frequency_weight: float | str | None
    history: str | None
    history_tokens: int | None
    in_history: list[int]
    in_sight: list[int]
    lexical_weight: float | str | None
    max_records: int | Literal["all"] | None
    model: str
    neighbour_share: float | str | None
    notes_chars: int | Literal["all"] | None
    placement: Literal["system", "tail", "append", "auto"] | None
    query: str
    recency_weight: float | str | None
    record_budget: Literal["fixed", "adaptive"] | None
    record_order: Literal["score", "stable"] | None
    record_tokens: int | Literal["all"] | None
    response_tokens: int | None
    semantic_weight: float | str | None
    stage: Literal[2, 3, 4, 5] | None
    system: str | None
    system_tokens: int | None
    total_tokens: int | None
    who_weight: float | str | None
    window_days: int | Literal["all"] | None
    window_share: float | str | None


class AssemblyOut(TypedDict):
    """One assembled context with its proof. `id` is null for a preview, which is not logged."""

    allocation: AllocationOut
    as_of: str
    baselines: list[BaselineOut]
    certificate: CertificateOut
    config_version: int
    counts: dict[str, int]
    dropped: list[DroppedOut]
    id: int | None
    included: list[IncludedOut]
    overrides: dict[str, Any]
    placement: PlacementOut
    searched: list[str]
    space: str
    stage: int
    stats: StatsOut
    text: str
    warnings: list[WarningJson]


class BaselineOut(TypedDict):
    """A context that would have been sent otherwise, by name. `saved` is signed. It is null if the
    saving does not count, because the context is empty or a warning says that the answer may be
    missing.
    """

    name: str
    saved: int | None
    tokens: int


class BulkOut(TypedDict):
    created: int
    rejected: int
    results: list[RowOut]
    unchanged: int
    updated: int


class CertificateOut(TypedDict):
    """Tokens counted on the exact text, its SHA-256, and the tokens of earlier blocks that stay in
    sight.
    """

    carried_tokens: int
    encoding: str
    factor: float | None
    factor_mean: float | None
    factor_prompts: int | None
    factor_source: Literal["learned", "shipped"] | None
    model: str
    sha256: str
    tokenizer_version: str
    tokens: int
    tokens_at_most: int
    total_tokens: int


class ChangedFileOut(TypedDict):
    """The change of one file, as it is sent to the receiver."""

    diff: str
    is_truncated: bool
    kind: Literal["changed", "new", "deleted", "renamed", "binary", "reverted"]
    path: str
    renamed_from: NotRequired[str]


class CompletionOptions(TypedDict, total=False):
    """The report of a finished task. Without a `task_id` a new task is recorded for it."""

    attempts: list[StepIn]
    decisions: list[LessonIn]
    description: str
    error_patterns: list[LessonIn]
    files_changed: list[str]
    model: str
    outcome: Literal["completed", "failed", "impossible"]
    plan: str | list[str | dict[str, Any]] | None
    quality_score: float | None
    repository: str
    task_id: int | None
    tokens_saved: int
    total_attempts: int


class CompletionOut(TypedDict):
    """A finished task. `stored` lists the memories created from it; `not_stored` says why others were
    not.
    """

    completed_at: str
    completion_id: int
    is_new: bool
    is_pending: bool
    not_stored: list[NotStored]
    pattern: str | None
    quality_score: float | None
    state: Literal["completed", "failed", "impossible"]
    stored: list[Stored]
    strategy_id: int | None
    task_id: int


class CompressOptions(TypedDict, total=False):
    """`force` compresses even if decisions are open, which is recorded. Without `phase`, the current
    one is compressed.
    """

    force: bool
    phase: Literal["analysis", "design", "implementation"] | None


class CompressionOut(TypedDict):
    """A phase's hand-off. `token_count` counts the brief only. `other_brief` belongs to a writer that
    is not active, and `brief_note` says why. `saved_tokens` is null if no phase received it, and
    until its brief is written. Leaving out a finding that matters saves nothing.
    """

    assembly_id: int | None
    brief: str
    brief_note: str
    brief_state: Literal["none", "pending", "in_force", "refused", "late"]
    consumed_at: str | None
    created_at: str
    created_by: str
    critical_findings: list[str]
    critical_tokens: int
    discarded: list[DiscardedOut]
    forced: bool
    open_decisions: list[str]
    other_brief: str
    saved_tokens: int | None
    settings: HandoffSettingsOut
    token_count: int
    tokens_after: int
    tokens_before: int
    version: int
    warnings: list[WarningJson]
    writer: Literal["extract", "model"]
    writer_version: str


class ContextFileIn(TypedDict):
    content: str
    path: str


class ContextFileOut(TypedDict):
    content: str
    path: str


class CountedRetryOptions(TypedDict, total=False):
    """A retry and the counter of its tokens. `added` says that nothing would have been sent otherwise.
    """

    added: bool
    attempt: int
    context: AgentContextIn | None
    counter: Literal["tokenizer", "heuristic"]
    diff_characters: int | None
    diff_lines: int | None
    encoding: str | None
    error: str | None
    error_tokens: int | None
    model: str
    plan: str | list[str | dict[str, Any]] | None
    uncut: bool


class DeltaOut(TypedDict):
    """The next action and the text to send for it."""

    action: Literal["replan", "retry", "refetch", "stop", "wait"]
    assembly_id: int | None
    delta_tokens: int
    error: str | None
    full_context: AgentContextOut | None
    full_context_tokens: int
    retry_context: RetryContextOut
    saved_percent: float | None
    saved_tokens: int | None
    task: str
    text: str
    wait_seconds: int


class DiagnosisIn(TypedDict):
    """Why an attempt failed. Any root cause is accepted."""

    reason: NotRequired[str | None]
    root_cause: str
    suggested_action: NotRequired[str | None]


class DiagnosisOut(TypedDict):
    reason: str
    root_cause: str
    suggested_action: str


class DiscardedOut(TypedDict):
    id: str
    reason: str


class DroppedOut(TypedDict):
    """`duplicate_of` is the record that this one repeats, if that is the reason."""

    duplicate_of: int | None
    external_id: str
    id: int
    parts: dict[str, float]
    pinned: bool
    reason: str
    score: float
    source: str
    tokens: int


class FeedbackOptions(TypedDict, total=False):
    """One vote. `rater` is the person who votes; without it, the key is the rater."""

    answer: str
    assembly_id: int | None
    comment: str
    external_message_id: str | None
    message_id: int | None
    rater: str | None
    reason: str


class FieldError(TypedDict):
    field: str
    message: str


class FilterOptions(TypedDict, total=False):
    counter: Literal["tokenizer", "heuristic"]
    encoding: str | None
    model: str
    task_id: int | None


class FilterOut(TypedDict):
    """The context for the phase, with its proof. The task is kept in the context and not counted."""

    budget_tokens: int | None
    certificate: CertificateOut
    context: AgentContextOut
    filtered_tokens: int
    full_tokens: int
    id: int
    phase: str
    profile_version: int | None
    saved_percent: int
    saved_tokens: int
    text: str
    trimmed: list[TrimmedOut]
    warnings: list[WarningJson]


class FindingOptions(TypedDict, total=False):
    """A finding of the task's current phase, or of an earlier one named in `phase`."""

    confidence: float
    decision: Literal["open", "resolved"] | None
    depends_on: list[str]
    id: str | None
    implementation_ready: bool
    phase: Literal["analysis", "design", "implementation"] | None
    tags: list[str]


class FindingOut(TypedDict):
    """One finding. `tokens` counts the finding alone, in full."""

    answer: str
    category: str
    confidence: float
    content: dict[str, Any]
    created_at: str
    created_by: str
    decision: Literal["open", "resolved"] | None
    depends_on: list[str]
    id: str
    implementation_ready: bool
    phase: Literal["analysis", "design", "implementation"]
    relabelled_at: str | None
    relabelled_by: str
    resolved_at: str | None
    resolved_by: str
    tags: list[str]
    tokens: int


class FoundOut(TypedDict):
    """Results, best first. `degraded` means that the embedder was down and only words were searched."""

    degraded: bool
    results: list[ResultOut]


class HandoffJson(TypedDict):
    """The hand-off in the text. `parts` counts its critical findings and its brief."""

    parts: int
    phase: Literal["analysis", "design", "implementation"]
    version: int


class HandoffSettingsOut(TypedDict):
    """The settings used to compress a phase."""

    brief_tokens: int
    bundle_tokens: int
    critical_above: float
    critical_tokens: int
    findings_tokens: int
    key_categories: list[str]
    max_critical: int
    speculation_below: float


class HintOptions(TypedDict, total=False):
    """A task that is about to be planned."""

    as_of: str | None
    assembly_id: int | None
    repository: str
    task_id: int | None


class HintOut(TypedDict):
    """A text to append to a task before planning, or null if no strategy matches."""

    assembly_id: int | None
    hint: str | None
    match_score: float | None
    memory_id: int | None
    same_pattern: bool | None
    similarity: float | None
    use_id: int | None
    word_share: float | None


class IncludedOut(TypedDict):
    external_id: str
    id: int
    parts: dict[str, float]
    pinned: bool
    score: float
    source: str
    tokens: int


class KeyOut(TypedDict):
    created_at: str
    created_by: str
    expires_at: str | None
    id: int
    last_used_at: str | None
    name: str
    prefix: str
    requests_per_minute: int | None
    revoked_at: str | None
    scope: Literal["gateway", "read", "write", "admin"]
    spaces: list[str] | None


class KnowledgePoolOut(TypedDict):
    phase_compressions: PhaseCompressionsOut


class LedgerEntryOut(TypedDict):
    duplicate_of: int | None
    external_id: str
    id: int
    kept: bool
    parts: dict[str, float]
    pinned: bool
    reason: str
    score: float
    source: str
    tokens: int


class LedgerOut(TypedDict):
    """All kept candidates, the best hundred dropped ones, and counts of the rest."""

    baseline: NotRequired[str]
    baseline_order: list[int]
    carried: NotRequired[list[int]]
    changed_files: NotRequired[list[dict[str, Any]]]
    chars: NotRequired[dict[str, Any]]
    counts: dict[str, int]
    entries: list[LedgerEntryOut]
    order: list[int]
    trimmed: NotRequired[list[dict[str, Any]]]
    warnings: NotRequired[list[WarningJson]]


class LessonIn(TypedDict):
    """A decision, or something that went wrong."""

    category: NotRequired[str]
    content: str
    tags: NotRequired[list[str]]


class MeOut(TypedDict):
    key: KeyOut
    team: TeamOut


class MemoryOptions(TypedDict, total=False):
    """A memory. `trust_level` says who it comes from."""

    category: str
    memory_type: str
    payload: dict[str, Any]
    repository: str
    space: str | None
    tags: list[str]
    task_id: int | None
    title: str
    trust_level: Literal["user", "agent", "external"]


class MemoryOut(TypedDict):
    """A memory. `trust` changes with ratings; `trust_level` says who wrote it."""

    access_count: int
    category: str
    content: str
    created_at: str
    created_by: str
    deleted_at: str | None
    evidence_count: int
    id: int
    last_accessed_at: str | None
    memory_type: str
    payload: dict[str, Any]
    purged_at: str | None
    repository: str
    retired_at: str | None
    retired_reason: str
    space: str | None
    tags: list[str]
    task_id: int | None
    title: str
    tokens_saved: int | None
    trust: float
    trust_level: Literal["user", "agent", "external"]
    updated_at: str
    use_count: int


class NotStored(TypedDict):
    """A type of memory that was not created, and why."""

    memory_type: str
    reason: str


class PartsOut(TypedDict):
    """How a score came about. Ranks count from 1; null where that ranking does not have the row."""

    decay: float
    fused: float
    lexical: float
    lexical_rank: int | None
    method: Literal["rrf", "weighted"]
    relevance: float
    similarity: float | None
    vector_rank: int | None


class PhaseCompressionsOut(TypedDict):
    """Hand-offs by phase. A phase that was not compressed is absent."""

    analysis: NotRequired[CompressionOut]
    design: NotRequired[CompressionOut]
    implementation: NotRequired[CompressionOut]


class PhaseTokensOut(TypedDict):
    """A phase's limits and its hand-off. Hand-off figures are null until it is compressed."""

    findings: int
    findings_tokens: int
    input_budget: int
    open_decisions: list[str]
    output_budget: int
    saved_tokens: int | None
    tokens_after: int | None
    tokens_before: int | None


class PlacementOut(TypedDict):
    """Where the context goes, which blocks to hold for the next prompt, and what the prompt shares with
    the conversation's last one.
    """

    cacheable_tokens: int
    cached_tokens: int
    in_sight: list[int]
    name: str
    prompt_tokens: int
    rewritten: bool
    shared_prefix_tokens: int


class RecordCounts(TypedDict):
    deleted: int
    live: int
    pinned: int


class RecordIn(TypedDict):
    """A record. Views and deletion are set when it is created; a later import of the same record does
    not change them, nor the pin if the row omits `pinned`. The language is detected from the texts
    unless given.
    """

    date: NotRequired[str | None]
    deleted_at: NotRequired[str | None]
    external_id: NotRequired[str]
    language: NotRequired[Literal["en", "no"] | None]
    last_viewed_at: NotRequired[str | None]
    metadata: NotRequired[dict[str, Any]]
    notes: NotRequired[str]
    pinned: NotRequired[bool]
    position: NotRequired[int | None]
    source: NotRequired[str]
    tags: NotRequired[list[str]]
    thread: NotRequired[str]
    title: str
    type: NotRequired[str]
    view_count: NotRequired[int]


class RecordOptions(TypedDict, total=False):
    """A record. Views and deletion are set when it is created; a later import of the same record does
    not change them, nor the pin if the row omits `pinned`. The language is detected from the texts
    unless given.
    """

    date: str | None
    deleted_at: str | None
    external_id: str
    language: Literal["en", "no"] | None
    last_viewed_at: str | None
    metadata: dict[str, Any]
    notes: str
    pinned: bool
    position: int | None
    source: str
    tags: list[str]
    thread: str
    type: str
    view_count: int


class RecordOut(TypedDict):
    """A record in full."""

    created_at: str
    created_by: str
    date: str
    deleted_at: str | None
    external_id: str
    id: int
    last_viewed_at: str | None
    metadata: dict[str, Any]
    notes: str
    pinned: bool
    position: int | None
    purged_at: str | None
    source: str
    summary: str
    summary_tokens: int
    tags: list[str]
    thread: str
    title: str
    type: str
    updated_at: str
    view_count: int


class Recount(TypedDict):
    """How many of a space's records are counted in its new encoding."""

    done: int
    total: int


class RemedyJson(TypedDict):
    """A setting to change, its new value, and the label of the button that changes it."""

    label: str
    setting: str
    value: str | int


class ResultOut(TypedDict):
    """A hit; what its kind does not have is null. Without a vector `similarity` is null, not 0."""

    access_count: int
    below_min_relevance: bool
    category: str | None
    content: str
    content_cut: bool
    created_at: str
    date: str | None
    decayed_score: float
    external_id: str | None
    fused_score: float
    id: int
    kind: Literal["record", "memory"]
    lexical_score: float
    match_score: float
    memory_type: str | None
    parts: PartsOut
    relevance_score: float
    repository: str | None
    similarity: float | None
    source: str | None
    tags: list[str]
    thread: str | None
    title: str
    trust_level: str
    type: str | None


class RetryContextOut(TypedDict):
    attempt_number: int
    changed_files: list[ChangedFileOut]
    diagnosis: DiagnosisOut
    estimated_tokens: int
    latest_error: str
    plan_summary: str
    task_summary: str


class RowOut(TypedDict):
    """The outcome of one row of a bulk write. `index` counts from 0."""

    errors: NotRequired[list[FieldError]]
    id: NotRequired[int]
    index: int
    status: Literal["created", "updated", "unchanged", "rejected"]


class SearchOptions(TypedDict, total=False):
    """One search. A hit must match every given filter, with at least one of its values."""

    as_of: str | None
    categories: list[str] | None
    date_from: str | None
    date_to: str | None
    hybrid_alpha: float
    kinds: list[Literal["record", "memory"]] | None
    limit: int
    method: Literal["rrf", "weighted"]
    min_relevance: float | None
    min_similarity: float | None
    repositories: list[str] | None
    sources: list[str] | None
    space: str | None
    tags: list[str] | None
    trust_levels: list[Literal["user", "agent", "external"]] | None
    types: list[str] | None


class SectionItemOut(TypedDict):
    """One thing of a section. `tokens` counts a kept one alone; a cut or partial one has a reason, too.
    """

    id: str
    kept: bool
    reason: str
    tokens: int | None


class SectionOut(TypedDict):
    """One section of the text. The tokens of all sections add up to the certificate's."""

    counts: dict[str, int]
    dropped: int
    items: list[SectionItemOut]
    kept: int
    name: str
    tokens: int


class SpaceDetail(TypedDict):
    """A space, and how far its records are counted anew after a change of its encoding."""

    categories: list[str]
    created_at: str
    description: str
    name: str
    records: RecordCounts
    recount: Recount | None
    slug: str


class SpaceOptions(TypedDict, total=False):
    categories: list[str]
    description: str
    name: str | None


class StatsOut(TypedDict):
    """Figures of one assembly. `tokens_saved` is null if the saving does not count."""

    assembly_ms: float | None
    compression_ratio: float | None
    deleted: int
    outside_window: int
    records_dropped: int
    records_filtered: int
    records_included: int
    stage3_tokens: int | None
    tokens_available: int
    tokens_saved: int | None
    tokens_used: int
    truncated: bool
    utilisation: float | None


class StatusOut(TypedDict):
    """A task with the findings and hand-offs of its phases."""

    created_at: str
    created_by: str
    description: str
    external_id: str
    findings: list[FindingOut]
    id: int
    knowledge_pool: KnowledgePoolOut
    phase: Literal["analysis", "design", "implementation"]
    repository: str
    saved_tokens: int
    state: Literal["open", "completed", "failed", "impossible"]
    tokens: TokensOut
    updated_at: str
    warnings: list[WarningJson]


class StepAttemptOut(TypedDict):
    """The failed attempt that the request recorded, and what follows from it."""

    action: Literal["replan", "retry", "refetch", "stop", "wait"]
    error: str | None
    id: int
    number: int
    wait_seconds: int


class StepFailureIn(TypedDict):
    """A failed attempt of the task, and the files that may have changed."""

    attempt: NotRequired[int | None]
    before: NotRequired[dict[str, str | None]]
    diagnosis: DiagnosisIn
    diff_characters: NotRequired[int | None]
    diff_lines: NotRequired[int | None]
    error: NotRequired[str | None]
    error_tokens: NotRequired[int | None]
    files: NotRequired[dict[str, str | None]]
    plan: NotRequired[str | list[str | dict[str, Any]] | None]
    uncut: NotRequired[bool]


class StepIn(TypedDict):
    """The outcome of one step of the plan. `step_index` counts the plan's non-empty lines from 0."""

    action: NotRequired[str]
    error: NotRequired[str | None]
    result: NotRequired[str]
    step_index: int


class StepRecordOut(TypedDict):
    """A record of the space that was a candidate."""

    external_id: str
    id: int
    kept: bool
    reason: str
    score: float
    source: str
    tokens: int


class StepStrategyOut(TypedDict):
    """The strategy in the text, and how it matches the task. Rate it by its `use_id`."""

    match_score: float
    memory_id: int
    same_pattern: bool
    similarity: float | None
    use_id: int
    word_share: float


class Stored(TypedDict):
    """A memory created from a report."""

    content: str
    id: int
    memory_type: str


class TeamOut(TypedDict):
    date_order: Literal["", "day", "month"]
    name: str
    slug: str
    time_zone: str


class TokensOut(TypedDict):
    analysis: PhaseTokensOut
    design: PhaseTokensOut
    implementation: PhaseTokensOut


class TrimmedOut(TypedDict):
    """The part of one field that was trimmed for the budget."""

    cut_lines: int
    dropped_items: int
    field: Literal["tree", "tree_paths", "package_manifest", "files", "memories", "docs", "tools"]


class VoteOut(TypedDict):
    """One person's vote on one answer, with the stage and config that the answer was made with."""

    assembly_id: int
    comment: str
    config_version: int | None
    created_at: str
    external_message_id: str | None
    id: int
    message_id: int | None
    phase: str
    rater: str
    rating: Literal["up", "down"]
    reason: str
    space: str | None
    stage: int | None
    updated_at: str


class WarningJson(TypedDict):
    """A warning in the API, in commands and in stored ledgers."""

    code: str
    message: str
    remedy: RemedyJson | None
