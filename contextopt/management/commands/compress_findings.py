"""`manage.py compress_findings FILE.json`"""

from django.core.management.base import CommandParser

from contextopt.agents.handoffs.inputs import PhaseFindings
from contextopt.agents.inputs import naming
from contextopt.assemblies.models import ALL_FINDINGS
from contextopt.engine.briefs.compressor import Compression, compress
from contextopt.engine.briefs.findings import parse_findings, render_finding
from contextopt.engine.briefs.settings import BriefSettings
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.engine.validation import InvalidValue
from contextopt.errors import InvalidInput
from contextopt.management.base import DONE, Options, ReportingCommand
from contextopt.management.documents import read_document


class Command(ReportingCommand):
    help = (
        "Compress findings without a task: critical ones in full and a brief of the rest. FILE.json is an "
        "object with phase (analysis, design or implementation) and findings, a list of objects with "
        "category, content (an object or text) and any of id, tags, confidence, depends_on, "
        "implementation_ready, decision. Nothing is stored."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE.json", help="- is standard input")
        parser.add_argument(
            "--budget", type=int, metavar="TOKENS", help="tokens of the brief (default: the phase's)"
        )
        parser.add_argument("--encoding", metavar="NAME", default="cl100k_base", help="default: cl100k_base")

    def run(self, options: Options) -> int:
        document = read_document(PhaseFindings, options["file"])
        settings, tokenizer = BriefSettings(), get_tokenizer(options["encoding"])
        if options["budget"] is not None:
            try:
                settings = settings.with_budget(document.phase, options["budget"])
            except InvalidValue as error:
                raise InvalidInput.of("--budget", error.message) from error
        with naming():
            findings = parse_findings(document.findings, phase=document.phase)
        compression = compress(findings, phase=document.phase, settings=settings, tokenizer=tokenizer)
        whole = [render_finding(each) for each in findings if each.id in compression.critical]
        self.print_answer(options, compression.to_json(), describe_compression(compression, whole))
        return DONE


def describe_compression(compression: Compression, critical: list[str]) -> str:
    """Return the text handed on, then its cost, and what was left out and why."""
    size = f"{compression.tokens_after:,} of {compression.tokens_before:,} tokens, against {ALL_FINDINGS}"
    parts = f"brief {compression.brief_tokens:,}, critical {compression.critical_tokens:,}"
    lines = [f"Left out: {each.id} ({each.reason})" for each in compression.discarded]
    lines += [f"Warning: {warning}" for warning in compression.warnings]
    text = "\n\n".join(part.rstrip("\n") for part in (compression.brief, *critical) if part)
    return "\n".join([text, "", f"{size} ({parts})", *lines]).lstrip("\n")
