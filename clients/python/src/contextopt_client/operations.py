"""The operations, for both clients. Written by generate.py from the API's description."""

from abc import ABC, abstractmethod
from typing import Any, Literal, Unpack
from urllib.parse import quote

from contextopt_client.calls import Call
from contextopt_client.models import (
    AdvanceOptions,
    AgentContextIn,
    AgentStepOptions,
    AgentStepOut,
    AssemblyDetail,
    AssemblyOptions,
    AssemblyOut,
    BulkOut,
    CompletionOptions,
    CompletionOut,
    CompressOptions,
    CountedRetryOptions,
    DeltaOut,
    DiagnosisIn,
    FeedbackOptions,
    FilterOptions,
    FilterOut,
    FindingOptions,
    FindingOut,
    FoundOut,
    HintOptions,
    HintOut,
    MemoryOptions,
    MemoryOut,
    MeOut,
    RecordIn,
    RecordOptions,
    RecordOut,
    SearchOptions,
    SpaceDetail,
    SpaceOptions,
    StatusOut,
    VoteOut,
)


class Operations(ABC):
    @abstractmethod
    def call(self, call: Call) -> Any:
        """Make a call and return the answer."""

    def read_key(self) -> MeOut:
        """Returns the key of this request: its team, name and scope."""
        call = Call("GET", "/api/v1/me")
        answer: MeOut = self.call(call)
        return answer

    def assemble(self, space: str, **options: Unpack[AssemblyOptions]) -> AssemblyOut:
        """Chooses the records of a space for one prompt, and logs the decision with its reasons."""
        body = {"space": space, **options}
        call = Call("POST", "/api/v1/assemblies", body, is_write=True)
        answer: AssemblyOut = self.call(call)
        return answer

    def preview(self, space: str, **options: Unpack[AssemblyOptions]) -> AssemblyOut:
        """Builds the same context without logging it."""
        body = {"space": space, **options}
        call = Call("POST", "/api/v1/assemblies/preview", body)
        answer: AssemblyOut = self.call(call)
        return answer

    def read_assembly(self, assembly_id: int) -> AssemblyDetail:
        """Returns the text, the ledger of kept and dropped records, and the settings used."""
        call = Call("GET", f"/api/v1/assemblies/{assembly_id}")
        answer: AssemblyDetail = self.call(call)
        return answer

    def search(self, query: str, **options: Unpack[SearchOptions]) -> FoundOut:
        """Searches by words (BM25) and meaning (cosine), combined. Results don't count as views."""
        body = {"query": query, **options}
        call = Call("POST", "/api/v1/search", body)
        answer: FoundOut = self.call(call)
        return answer

    def remember(self, content: str, **options: Unpack[MemoryOptions]) -> MemoryOut:
        """Creates a memory. With trust level `external`, models get it as data only."""
        body = {"content": content, **options}
        call = Call("POST", "/api/v1/memories", body, is_write=True)
        answer: MemoryOut = self.call(call)
        return answer

    def give_feedback(
        self,
        rating: Literal["up", "down"],
        **options: Unpack[FeedbackOptions],
    ) -> VoteOut:
        """Records a vote. Each person has one vote per answer; a new one replaces the old one."""
        body = {"rating": rating, **options}
        call = Call("POST", "/api/v1/feedback", body, is_write=True)
        answer: VoteOut = self.call(call)
        return answer

    def create_space(self, slug: str, **options: Unpack[SpaceOptions]) -> SpaceDetail:
        """Creates a space with the default settings as config 1. A slug that is taken is a conflict."""
        body = {"slug": slug, **options}
        call = Call("POST", "/api/v1/spaces", body, is_write=True)
        answer: SpaceDetail = self.call(call)
        return answer

    def create_record(self, slug: str, title: str, **options: Unpack[RecordOptions]) -> RecordOut:
        """Creates a record. If one with the same source and external ID exists, the request is a
        conflict that names it.
        """
        body = {"title": title, **options}
        call = Call("POST", f"/api/v1/spaces/{quote(slug, safe='')}/records", body, is_write=True)
        answer: RecordOut = self.call(call)
        return answer

    def write_records(self, slug: str, records: list[RecordIn]) -> BulkOut:
        """Creates or updates rows, matched by source and external ID, or leaves them unchanged. A row
        without external ID creates a record.
        """
        body = {"records": records}
        call = Call("POST", f"/api/v1/spaces/{quote(slug, safe='')}/records/bulk", body, is_write=True)
        answer: BulkOut = self.call(call)
        return answer

    def filter_phase(
        self,
        phase: str,
        context: AgentContextIn,
        **options: Unpack[FilterOptions],
    ) -> FilterOut:
        """Keeps the fields of an agent's context that the phase needs, within its budget, and logs the
        saving.
        """
        body = {"context": context, **options}
        call = Call("POST", f"/api/v1/phases/{quote(phase, safe='')}/filter", body, is_write=True)
        answer: FilterOut = self.call(call)
        return answer

    def plan_retry(
        self,
        diagnosis: DiagnosisIn,
        task: str,
        before: dict[str, str | None],
        after: dict[str, str | None],
        **options: Unpack[CountedRetryOptions],
    ) -> DeltaOut:
        """Computes a retry from the files before and after a failed attempt, without a stored task, and
        logs the saving.
        """
        body = {"diagnosis": diagnosis, "task": task, "before": before, "after": after, **options}
        call = Call("POST", "/api/v1/retry-delta", body, is_write=True)
        answer: DeltaOut = self.call(call)
        return answer

    def ask_hint(self, task: str, **options: Unpack[HintOptions]) -> HintOut:
        """Finds the strategy of the same repository that best matches the task by words, meaning and
        pattern.
        """
        body = {"task": task, **options}
        call = Call("POST", "/api/v1/strategy-hints", body, is_write=True)
        answer: HintOut = self.call(call)
        return answer

    def build_step(self, **options: Unpack[AgentStepOptions]) -> AgentStepOut:
        """Returns everything that an agent needs for one step of a task as one text, and logs it."""
        body = {**options}
        call = Call("POST", "/api/v1/agent-context", body, is_write=True)
        answer: AgentStepOut = self.call(call)
        return answer

    def add_finding(
        self,
        task_id: int,
        category: str,
        content: dict[str, Any],
        **options: Unpack[FindingOptions],
    ) -> FindingOut:
        """Adds a finding to the task's current phase, or to the earlier one named in `phase`. It gets
        the next ID, such as `F-001`.
        """
        body = {"category": category, "content": content, **options}
        call = Call("POST", f"/api/v1/tasks/{task_id}/findings", body, is_write=True)
        answer: FindingOut = self.call(call)
        return answer

    def resolve_finding(self, task_id: int, finding_id: str, answer: str) -> FindingOut:
        """Answers a finding's decision, or corrects its answer."""
        body = {"answer": answer}
        path = f"/api/v1/tasks/{task_id}/findings/{quote(finding_id, safe='')}/resolutions"
        call = Call("POST", path, body, is_write=True)
        result: FindingOut = self.call(call)
        return result

    def compress_phase(self, task_id: int, **options: Unpack[CompressOptions]) -> StatusOut:
        """Keeps the critical findings of a phase in full and writes a brief of the rest."""
        body = {**options}
        call = Call("POST", f"/api/v1/tasks/{task_id}/compress", body, is_write=True)
        answer: StatusOut = self.call(call)
        return answer

    def advance_phase(self, task_id: int, **options: Unpack[AdvanceOptions]) -> StatusOut:
        """Compresses the current phase and advances to the next: analysis, design, implementation."""
        body = {**options}
        call = Call("POST", f"/api/v1/tasks/{task_id}/advance", body, is_write=True)
        answer: StatusOut = self.call(call)
        return answer

    def read_task_status(self, task_id: int) -> StatusOut:
        """Returns the task with its findings, its hand-offs and their tokens."""
        call = Call("GET", f"/api/v1/tasks/{task_id}/status")
        answer: StatusOut = self.call(call)
        return answer

    def complete_task(self, **options: Unpack[CompletionOptions]) -> CompletionOut:
        """Ends a task and learns from it. Its decisions and error patterns become memories, and its
        plan becomes a strategy if it succeeded at the first attempt with a quality of 7 or more.
        """
        body = {**options}
        call = Call("POST", "/api/v1/completions", body, is_write=True)
        answer: CompletionOut = self.call(call)
        return answer


class AsyncOperations(ABC):
    @abstractmethod
    async def call(self, call: Call) -> Any:
        """Make a call and return the answer."""

    async def read_key(self) -> MeOut:
        """Returns the key of this request: its team, name and scope."""
        call = Call("GET", "/api/v1/me")
        answer: MeOut = await self.call(call)
        return answer

    async def assemble(self, space: str, **options: Unpack[AssemblyOptions]) -> AssemblyOut:
        """Chooses the records of a space for one prompt, and logs the decision with its reasons."""
        body = {"space": space, **options}
        call = Call("POST", "/api/v1/assemblies", body, is_write=True)
        answer: AssemblyOut = await self.call(call)
        return answer

    async def preview(self, space: str, **options: Unpack[AssemblyOptions]) -> AssemblyOut:
        """Builds the same context without logging it."""
        body = {"space": space, **options}
        call = Call("POST", "/api/v1/assemblies/preview", body)
        answer: AssemblyOut = await self.call(call)
        return answer

    async def read_assembly(self, assembly_id: int) -> AssemblyDetail:
        """Returns the text, the ledger of kept and dropped records, and the settings used."""
        call = Call("GET", f"/api/v1/assemblies/{assembly_id}")
        answer: AssemblyDetail = await self.call(call)
        return answer

    async def search(self, query: str, **options: Unpack[SearchOptions]) -> FoundOut:
        """Searches by words (BM25) and meaning (cosine), combined. Results don't count as views."""
        body = {"query": query, **options}
        call = Call("POST", "/api/v1/search", body)
        answer: FoundOut = await self.call(call)
        return answer

    async def remember(self, content: str, **options: Unpack[MemoryOptions]) -> MemoryOut:
        """Creates a memory. With trust level `external`, models get it as data only."""
        body = {"content": content, **options}
        call = Call("POST", "/api/v1/memories", body, is_write=True)
        answer: MemoryOut = await self.call(call)
        return answer

    async def give_feedback(
        self,
        rating: Literal["up", "down"],
        **options: Unpack[FeedbackOptions],
    ) -> VoteOut:
        """Records a vote. Each person has one vote per answer; a new one replaces the old one."""
        body = {"rating": rating, **options}
        call = Call("POST", "/api/v1/feedback", body, is_write=True)
        answer: VoteOut = await self.call(call)
        return answer

    async def create_space(self, slug: str, **options: Unpack[SpaceOptions]) -> SpaceDetail:
        """Creates a space with the default settings as config 1. A slug that is taken is a conflict."""
        body = {"slug": slug, **options}
        call = Call("POST", "/api/v1/spaces", body, is_write=True)
        answer: SpaceDetail = await self.call(call)
        return answer

    async def create_record(self, slug: str, title: str, **options: Unpack[RecordOptions]) -> RecordOut:
        """Creates a record. If one with the same source and external ID exists, the request is a
        conflict that names it.
        """
        body = {"title": title, **options}
        call = Call("POST", f"/api/v1/spaces/{quote(slug, safe='')}/records", body, is_write=True)
        answer: RecordOut = await self.call(call)
        return answer

    async def write_records(self, slug: str, records: list[RecordIn]) -> BulkOut:
        """Creates or updates rows, matched by source and external ID, or leaves them unchanged. A row
        without external ID creates a record.
        """
        body = {"records": records}
        call = Call("POST", f"/api/v1/spaces/{quote(slug, safe='')}/records/bulk", body, is_write=True)
        answer: BulkOut = await self.call(call)
        return answer

    async def filter_phase(
        self,
        phase: str,
        context: AgentContextIn,
        **options: Unpack[FilterOptions],
    ) -> FilterOut:
        """Keeps the fields of an agent's context that the phase needs, within its budget, and logs the
        saving.
        """
        body = {"context": context, **options}
        call = Call("POST", f"/api/v1/phases/{quote(phase, safe='')}/filter", body, is_write=True)
        answer: FilterOut = await self.call(call)
        return answer

    async def plan_retry(
        self,
        diagnosis: DiagnosisIn,
        task: str,
        before: dict[str, str | None],
        after: dict[str, str | None],
        **options: Unpack[CountedRetryOptions],
    ) -> DeltaOut:
        """Computes a retry from the files before and after a failed attempt, without a stored task, and
        logs the saving.
        """
        body = {"diagnosis": diagnosis, "task": task, "before": before, "after": after, **options}
        call = Call("POST", "/api/v1/retry-delta", body, is_write=True)
        answer: DeltaOut = await self.call(call)
        return answer

    async def ask_hint(self, task: str, **options: Unpack[HintOptions]) -> HintOut:
        """Finds the strategy of the same repository that best matches the task by words, meaning and
        pattern.
        """
        body = {"task": task, **options}
        call = Call("POST", "/api/v1/strategy-hints", body, is_write=True)
        answer: HintOut = await self.call(call)
        return answer

    async def build_step(self, **options: Unpack[AgentStepOptions]) -> AgentStepOut:
        """Returns everything that an agent needs for one step of a task as one text, and logs it."""
        body = {**options}
        call = Call("POST", "/api/v1/agent-context", body, is_write=True)
        answer: AgentStepOut = await self.call(call)
        return answer

    async def add_finding(
        self,
        task_id: int,
        category: str,
        content: dict[str, Any],
        **options: Unpack[FindingOptions],
    ) -> FindingOut:
        """Adds a finding to the task's current phase, or to the earlier one named in `phase`. It gets
        the next ID, such as `F-001`.
        """
        body = {"category": category, "content": content, **options}
        call = Call("POST", f"/api/v1/tasks/{task_id}/findings", body, is_write=True)
        answer: FindingOut = await self.call(call)
        return answer

    async def resolve_finding(self, task_id: int, finding_id: str, answer: str) -> FindingOut:
        """Answers a finding's decision, or corrects its answer."""
        body = {"answer": answer}
        path = f"/api/v1/tasks/{task_id}/findings/{quote(finding_id, safe='')}/resolutions"
        call = Call("POST", path, body, is_write=True)
        result: FindingOut = await self.call(call)
        return result

    async def compress_phase(self, task_id: int, **options: Unpack[CompressOptions]) -> StatusOut:
        """Keeps the critical findings of a phase in full and writes a brief of the rest."""
        body = {**options}
        call = Call("POST", f"/api/v1/tasks/{task_id}/compress", body, is_write=True)
        answer: StatusOut = await self.call(call)
        return answer

    async def advance_phase(self, task_id: int, **options: Unpack[AdvanceOptions]) -> StatusOut:
        """Compresses the current phase and advances to the next: analysis, design, implementation."""
        body = {**options}
        call = Call("POST", f"/api/v1/tasks/{task_id}/advance", body, is_write=True)
        answer: StatusOut = await self.call(call)
        return answer

    async def read_task_status(self, task_id: int) -> StatusOut:
        """Returns the task with its findings, its hand-offs and their tokens."""
        call = Call("GET", f"/api/v1/tasks/{task_id}/status")
        answer: StatusOut = await self.call(call)
        return answer

    async def complete_task(self, **options: Unpack[CompletionOptions]) -> CompletionOut:
        """Ends a task and learns from it. Its decisions and error patterns become memories, and its
        plan becomes a strategy if it succeeded at the first attempt with a quality of 7 or more.
        """
        body = {**options}
        call = Call("POST", "/api/v1/completions", body, is_write=True)
        answer: CompletionOut = await self.call(call)
        return answer
