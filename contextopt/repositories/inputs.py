"""Input types for repositories: their files, and tasks to find files for."""

from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from contextopt.assemblies.tokenfactors import CountedIn
from contextopt.inputs import NUMBER, Input, Text, Tokens, has_surrogate
from contextopt.repositories.models import REPOSITORY_NAME_MAX, REPOSITORY_PATH_MAX

POSTED_FILES_MAX = 2_000
"""The most files in one request."""
POSTED_CHARS_MAX = 16_000_000
REPOSITORY_FILES_MAX = 20_000
TASK_MAX = 100_000
SEEDS_MAX = 1_000
LIMIT_MAX = 200
BUDGET_DEFAULT = 8_000
LIMIT_DEFAULT = 50


def check_repository_path(path: str) -> str:
    if path.startswith("/") or any(part in {"", ".", ".."} for part in path.split("/")):
        raise ValueError(f"{path[:80]!r} is not a path from the top of the repository")
    return path


def check_posted(files: dict[str, str]) -> dict[str, str]:
    """Check posted files, naming the path in the error, since it is not a field name.

    A binary file may be posted as text; it is skipped later.
    """
    if len(files) > POSTED_FILES_MAX:
        raise ValueError(f"must have at most {POSTED_FILES_MAX:,} files per request, not {len(files):,}")
    for path, content in files.items():
        if "\x00" in path or has_surrogate(path):
            raise ValueError(f"{path[:80]!r} is a path that cannot be stored")
        if not 1 <= len(path) <= REPOSITORY_PATH_MAX:
            raise ValueError(f"{path[:80]!r} must have 1 to {REPOSITORY_PATH_MAX} characters")
        check_repository_path(path)
        if has_surrogate(content):
            raise ValueError(f"{path[:80]!r} contains a lone surrogate, which is not a character")
    if (size := sum(map(len, files.values()))) > POSTED_CHARS_MAX:
        raise ValueError(f"must have at most {POSTED_CHARS_MAX:,} characters in total, not {size:,}")
    return files


RepositoryPath = Annotated[
    Text, Field(min_length=1, max_length=REPOSITORY_PATH_MAX), AfterValidator(check_repository_path)
]
RepositoryName = Annotated[
    str, Field(min_length=1, max_length=REPOSITORY_NAME_MAX, pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")
]
PostedFiles = Annotated[
    dict[str, str],
    AfterValidator(check_posted),
    Field(description="File contents by path from the repository root."),
]


class RepositoryIn(Input):
    name: RepositoryName
    files: PostedFiles = Field(default_factory=dict)


class RepositoryFilesIn(Input):
    """New or changed files with their whole contents, and the paths of deleted files."""

    files: PostedFiles = Field(default_factory=dict)
    deleted: Annotated[list[RepositoryPath], Field(max_length=REPOSITORY_FILES_MAX)] = Field(
        default_factory=list
    )

    @field_validator("deleted")
    @classmethod
    def _not_both(cls, deleted: list[str], info: ValidationInfo) -> list[str]:
        for path in deleted:
            if path in info.data.get("files", {}):
                raise ValueError(f"{path[:80]!r} is also among the files")
        return deleted


class RelevantIn(CountedIn):
    """A task: its description, files it is known to be about, or both."""

    seeds: Annotated[list[RepositoryPath], Field(max_length=SEEDS_MAX)] = Field(default_factory=list)
    task: Annotated[Text, Field(max_length=TASK_MAX, validate_default=True)] = ""
    budget: Tokens = BUDGET_DEFAULT
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX, description="Number of files to list."), NUMBER] = (
        LIMIT_DEFAULT
    )

    @field_validator("task")
    @classmethod
    def _is_asked(cls, task: str, info: ValidationInfo) -> str:
        if not task.strip() and not info.data.get("seeds"):
            raise ValueError("give a task or seeds")
        return task
