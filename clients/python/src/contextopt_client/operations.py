"""The operations, for both clients. Written by generate.py from the API's description."""

from abc import ABC, abstractmethod
from typing import Any, Literal, Unpack
from urllib.parse import quote

from contextopt_client.calls import Call
from contextopt_client.models import (
    AgentContextIn,
    AssemblyDetail,
    AssemblyOptions,
    AssemblyOut,
    BulkOut,
    CountedRetryOptions,
    DeltaOut,
    DiagnosisIn,
    FeedbackOptions,
    FilterOptions,
    FilterOut,
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
        """Finds the strategy in the same repository that is most similar to the task."""
        body = {"task": task, **options}
        call = Call("POST", "/api/v1/strategy-hints", body, is_write=True)
        answer: HintOut = self.call(call)
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
        """Finds the strategy in the same repository that is most similar to the task."""
        body = {"task": task, **options}
        call = Call("POST", "/api/v1/strategy-hints", body, is_write=True)
        answer: HintOut = await self.call(call)
        return answer
