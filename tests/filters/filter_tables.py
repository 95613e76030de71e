"""Small score tables for the tests of the filters' rules."""

import math

import polars as pl
from hypothesis import settings
from hypothesis import strategies as st

from psibench.all_tables import ALL_TABLES
from psibench.tables import Provenance, read_table, write_table
from psibench.text.segments import POSITIONS

SPAN = ("document", "removed")

examples = settings(deadline=None, max_examples=60)  # frames take milliseconds each

few_scores = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])  # exact in binary, many ties
any_score = st.one_of(few_scores, st.none())
some_targets = st.sampled_from(
    [
        [],
        ["beginning"],
        ["middle"],
        ["end"],
        ["beginning", "middle"],
        ["middle", "end"],
        [*POSITIONS],
    ]
)


def segment_scores(scores, *, parts=POSITIONS, column="score") -> pl.DataFrame:
    """Make SEGMENT_SCORES of {(query, reranker): scores of the parts}."""
    rows = [
        (query, reranker, part, value)
        for (query, reranker), values in scores.items()
        for part, value in zip(parts, values, strict=True)
    ]
    schema = {"query_id": str, "reranker": str, "part": str, column: float}
    other = "raw" if column == "score" else "score"
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.lit(0.5).alias(other))


def pair_scores(scores) -> pl.DataFrame:
    """Make PAIR_SCORES of {(query, document, reranker): score}."""
    rows = [(*key, value, value) for key, value in scores.items()]
    schema = {"query_id": str, "doc_id": str, "reranker": str, "score": float, "raw": float}
    return pl.DataFrame(rows, schema=schema, orient="row")


def candidates_frame(targets) -> pl.DataFrame:
    """Make the columns of CANDIDATES that the rules read, from {query: positions}."""
    schema = {"_id": pl.String, "positions": pl.List(pl.String)}
    return pl.DataFrame([list(targets), list(targets.values())], schema=schema, orient="col")


def targets_frame(targets) -> pl.DataFrame:
    """Make ``query_id`` and ``targets`` of {query: positions}."""
    return candidates_frame(targets).rename({"_id": "query_id", "positions": "targets"})


def decision_rows(decisions) -> dict:
    """Give {item: (kept, reason, score, decided_by)}."""
    columns = ("item_id", "kept", "reason", "score", "decided_by")
    return {row[0]: row[1:] for row in decisions.select(columns).iter_rows()}


def is_number(value) -> bool:
    return value is not None and not math.isnan(value)


class Folder:
    """Tables of one benchmark in a folder."""

    source = Provenance("gather", 1, queries_by="llm:the-author", llm_backend="stand-in")

    def __init__(self, folder) -> None:
        self.folder = folder

    def path(self, name):
        return self.folder / f"{name}.parquet"

    def write(self, name, rows, spec=None):
        """Write a frame, or rows by column name; ``spec`` where the table's is not ``name``."""
        if not isinstance(rows, pl.DataFrame):
            rows = pl.DataFrame(rows, infer_schema_length=None, strict=False)
        write_table(rows, self.path(name), ALL_TABLES[spec or name], provenance=self.source)
        return self.path(name)

    def read(self, name, spec=None) -> pl.DataFrame:
        """Read a table of one domain, without the labels."""
        spec = ALL_TABLES[spec or name]
        labels = {"language", "domain"} - set(spec.column_names)
        return read_table(self.path(name), spec).drop(labels, strict=False)

    def judge(self, name, judged, column="grade", spec="grades") -> list[str]:
        """Write a judge's values for the pairs ``{name}_pairs``, by their ids; return the paths."""
        pairs = self.read(f"{name}_pairs", "pairs")
        ids = pairs["_id"].to_list()
        kind = ALL_TABLES[spec].empty().schema[column]
        said = pl.Series(column, [judged[one] for one in ids], dtype=kind)
        self.write(name, pairs.drop("query", "text").with_columns(said), spec)
        return ids


def candidate(name, targets, span, **more) -> dict:
    """Make a row of CANDIDATES; the target is null where there are several."""
    return {
        "_id": name,
        "text": name,
        "pos_corpus_id": "d",
        "pos_char_span": list(span),
        "target_position": targets[0] if len(targets) == 1 else None,
        "answer": "x",
        **more,
    }


def sampling_of(*bins) -> list[dict]:
    """Make SAMPLING rows of length bins, in order, and of what lies outside."""
    counts = dict.fromkeys(("n_seen", "n_wanted", "n_sampled", "n_duplicates"), 9)
    rows = [{"bin": name, "unit": "chars", "low": 0, "high": 9, **counts} for name in bins]
    return [*rows, {"bin": "outside", "unit": "chars", "low": None, "high": None, **counts}]
