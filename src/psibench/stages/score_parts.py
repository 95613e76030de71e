"""Stage ``score_parts``: one reranker's scores of the parts of the candidates' documents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from psibench.build.rules.frames import as_table
from psibench.build.verification import find_verification, part_text, wanted_scorings
from psibench.config.reranker_registry import reranker_params
from psibench.config.rerankers import RerankerModel
from psibench.rerankers.protocols import Pair
from psibench.stages.scoring import (
    PAIRS_PER_BLOCK,
    Load,
    load_when_needed,
    reranker_revision,
    score_texts,
)
from psibench.stages.tables import derived, read_all
from psibench.tables import read_table, write_table
from psibench.tables.build_schemas import CANDIDATES
from psibench.tables.schemas import DOCUMENTS
from psibench.tables.verify_schemas import SEGMENT_SCORES


@dataclass(frozen=True)
class Scoring:
    """Who scores for what.

    Attributes
    ----------
    rule
        What the scores are for, as in the config.
    panel
        Rerankers up to the one that scores now, which is the last.
    entry
        That one's registry entry.
    complete, floor
        As in `wanted_scorings`.
    """

    rule: str
    panel: Sequence[str]
    entry: RerankerModel
    complete: bool = False
    floor: float | None = None

    @property
    def name(self) -> str:
        """Id of the reranker that scores now."""
        return self.panel[-1]

    @property
    def params(self) -> dict[str, Any]:
        """What decides the scores, and which of them are made."""
        return reranker_params(self.entry) | {"complete": self.complete, "floor": self.floor}


def run_score_parts(
    scoring: Scoring,
    *,
    documents: str | Path,
    candidates: str | Path,
    earlier: Sequence[str | Path],
    store: str | Path,
    device: str,
    tokens_per_batch: int,
    output: str | Path,
    load: Load = load_when_needed,
) -> None:
    """Score what the rule needs of this reranker and write SEGMENT_SCORES.

    A part without text gets null; it is not shown to the reranker. Scores are looked up in the
    pair store first, and kept there.

    Parameters
    ----------
    earlier
        Score tables of the rerankers before this one, in order.
    load
        (id, entry, device=...) -> reranker; not called if there is nothing to score.

    Raises
    ------
    InputError
        If a score is no number in [0, 1], or the reranker cannot be loaded.
    """
    asked = read_table(candidates, CANDIDATES)
    wanted = wanted_scorings(
        find_verification(scoring.rule),
        asked,
        read_all(earlier, SEGMENT_SCORES),
        rerankers=scoring.panel,
        complete=scoring.complete,
        floor=scoring.floor,
    )
    done = score_texts(
        scoring.name,
        scoring.entry,
        _pairs(wanted, asked, read_table(documents, DOCUMENTS)),
        load=load,
        store=store,
        device=device,
        tokens_per_batch=tokens_per_batch,
    )
    columns = {
        "query_id": [query for query, _ in wanted],
        "reranker": [scoring.name] * len(wanted),
        "part": [part for _, part in wanted],
        "score": done.score,
        "raw": done.raw,
    }
    source = derived(
        "score_parts",
        [candidates, documents, *earlier],
        params=scoring.params | {"fingerprint": done.fingerprint},
        revisions=reranker_revision(scoring.name, scoring.entry, done.fingerprint),
    )
    write_table(as_table(SEGMENT_SCORES, columns), output, SEGMENT_SCORES, provenance=source)


def _pairs(
    wanted: Sequence[tuple[str, str]], candidates: pl.DataFrame, documents: pl.DataFrame
) -> Iterator[list[Pair]]:
    """Yield the (query, text) pairs of all scorings, block by block."""
    texts = dict(documents.select("_id", "text").iter_rows())
    columns = ("_id", "text", "pos_corpus_id", "pos_char_span")
    asked = {row[0]: row[1:] for row in candidates.select(columns).iter_rows()}
    for start in range(0, len(wanted), PAIRS_PER_BLOCK):
        pairs = []
        for query_id, part in wanted[start : start + PAIRS_PER_BLOCK]:
            query, doc_id, span = asked[query_id]
            pairs.append((query, part_text(texts[doc_id], span, part)))
        yield pairs
