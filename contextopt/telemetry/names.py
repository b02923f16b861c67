"""The names of the GenAI semantic conventions, release 1.41.0, and our own.

It is the last release of OpenTelemetry's conventions that contains them. They are not stable yet, and
libraries mark them as incubating, so they are written out here. A test compares them with the package
`opentelemetry-semantic-conventions`, whose version the lock file pins.
"""

from typing import Final

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.0"

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
CONVERSATION: Final = "gen_ai.conversation.id"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
USAGE_TYPE: Final = "gen_ai.token.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"

USAGE_METRIC: Final = "gen_ai.client.token.usage"
DURATION_METRIC: Final = "gen_ai.client.operation.duration"
FIRST_CHUNK_METRIC: Final = "gen_ai.client.operation.time_to_first_chunk"

# The boundaries that the conventions give for the two metrics.
TOKEN_BOUNDARIES: Final = tuple(float(4**power) for power in range(14))
SECOND_BOUNDARIES: Final = tuple(0.01 * 2**power for power in range(14))

# Ours.
TEAM_ID: Final = "contextopt.team.id"
SPACE: Final = "contextopt.space"
ASSEMBLY_ID: Final = "contextopt.assembly.id"
STAGE: Final = "contextopt.stage"
CONTEXT_TOKENS: Final = "contextopt.context.tokens"
TOKENS_AVAILABLE: Final = "contextopt.context.tokens_available"
TOKENS_SAVED: Final = "contextopt.context.tokens_saved"
RECORDS_INCLUDED: Final = "contextopt.records.included"
RECORDS_FILTERED: Final = "contextopt.records.filtered"
TRUNCATED: Final = "contextopt.truncated"
WARNINGS: Final = "contextopt.warnings"
MODE: Final = "contextopt.gateway.mode"
STATUS: Final = "contextopt.gateway.status"
REASON: Final = "contextopt.gateway.reason"
OUTCOME: Final = "contextopt.gateway.outcome"
ADDED_SECONDS: Final = "contextopt.gateway.added"

ASSEMBLY_METRIC: Final = "contextopt.assembly.duration"
ADDED_METRIC: Final = "contextopt.gateway.added"
