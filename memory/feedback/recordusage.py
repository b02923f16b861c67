"""Which records of a context its answer used, by the words that only the two share: an estimate."""

from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.chat.models import Author
from contextopt.engine.evidence import Use, estimate_use
from contextopt.engine.rendering import record_lines
from memory.feedback.models import ExternalMessage
from memory.feedback.votes import find_kept


def answer_text(assembly: Assembly) -> str:
    """Return the answer that was made with the assembly, wherever that was; "" if unknown or not kept."""
    answer = assembly.messages.filter(author=Author.ASSISTANT).first()
    if answer is not None:
        return answer.text
    known = ExternalMessage.objects.filter(assembly=assembly).exclude(answer="").order_by("-pk").first()
    if known is not None:
        return known.answer
    kept = find_kept(assembly)
    return kept.answer if kept else ""


def read_use(payload: AssemblyPayload, answer: str) -> dict[int, Use]:
    """Estimate each record's use by the answer. Empty without an answer, or if the context was not sent."""
    if not answer or not payload.assembly.is_sent:
        return {}
    question = str(payload.request.get("query") or "")
    return estimate_use(answer, question, record_lines(payload.text, payload.ledger["order"]))
