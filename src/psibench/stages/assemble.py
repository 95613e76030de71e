"""Stage ``assemble``: documents and candidates become a benchmark's tables."""

from pathlib import Path

from psibench.models.counting import token_counter
from psibench.recipes.generated import assemble
from psibench.stages.tables import derived
from psibench.tables import read_table, write_table
from psibench.tables.build_schemas import CANDIDATES
from psibench.tables.schemas import CORPUS, DOCUMENTS, QRELS, QUERIES


def run_assemble(
    *,
    documents: str | Path,
    candidates: str | Path,
    length_tokenizer: str,
    corpus: str | Path,
    queries: str | Path,
    qrels: str | Path,
) -> None:
    """Write corpus, queries and qrels.

    Raises
    ------
    InputError
        If no candidate is left.
    """
    built = assemble(
        read_table(documents, DOCUMENTS),
        read_table(candidates, CANDIDATES),
        count_tokens=token_counter(length_tokenizer),
    )
    source = derived(
        "assemble", [documents, candidates], params={"length_tokenizer": length_tokenizer}
    )
    write_table(built.corpus, corpus, CORPUS, provenance=source)
    write_table(built.queries, queries, QUERIES, provenance=source)
    write_table(built.qrels, qrels, QRELS, provenance=source)
