"""Queries that are copies, or in another language than their document: replies of weak models."""

from psibench.llm.tasks import Replied
from psibench.text.copies import has_most_of, is_copied
from psibench.text.detection import CERTAINLY_FOREIGN_BELOW, is_foreign

COPIES_PROMPT, COPIES_PERSONA, COPIES_DOCUMENT = (
    "copies_prompt",
    "copies_persona",
    "copies_document",
)
OTHER_LANGUAGE = "other_language"


def query_fault(
    reply: Replied, query: str, document: str, *, persona: str = ""
) -> tuple[str, str] | None:
    """Return why a query is no query for its document, and the offending text; None if it is one.

    - ``copies_prompt``: it has a tag or five words in a row of the template, and the document has
      not.
    - ``copies_persona``: it has most of the persona's description.
    - ``copies_document``: it is a part of the document (`is_copied`).
    - ``other_language``: it is certainly not in the documents' language, although its document may
      be.
    """
    if (copied := reply.prompt.copied(query, document)) is not None:
        return COPIES_PROMPT, copied
    if persona and has_most_of(query, persona):
        return COPIES_PERSONA, persona
    if is_copied(query, document):
        return COPIES_DOCUMENT, "a part of the document"
    language = reply.language
    if (
        language is not None
        and is_foreign(query, language, below=CERTAINLY_FOREIGN_BELOW)
        and not is_foreign(document, language)  # the config may name another language
    ):
        return OTHER_LANGUAGE, f"not {language}"
    return None
