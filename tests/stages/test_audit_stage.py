"""Queries drawn by margin under a scripted judge: who is asked about what, and the table."""

import polars as pl
import pytest
from scripted_judge import judge, say

from psibench.config.judging import Audit
from psibench.errors import InputError
from psibench.recipes.judging import verdict_task
from psibench.stages.audit import run_audit_pairs, run_audit_table
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.schemas import SPECS
from psibench.text.segments import POSITIONS

SOURCE = Provenance("gather", 1, queries_by="llm:the-author", llm_backend="stand-in")
TASK = verdict_task("audit")
Y, N = "yes", "no"

# Query -> target, margin.
MARGINS = {
    "failed": ("beginning", -0.5),
    "tie": ("middle", 0.0),
    "best": ("beginning", 0.5),
    "also": ("middle", 0.3),
    "unsaid": ("end", 0.9),
    "none": ("end", None),
}
# Query -> what the judge says of beginning, middle and end; None: no verdict.
SAID = {
    "failed": (N, Y, N),
    "tie": (N, Y, Y),
    "best": (Y, N, N),
    "also": (N, Y, Y),
    "unsaid": (N, None, Y),
}


class Chain:
    """One benchmark's candidates and margins in a folder."""

    def __init__(self, folder, margins=MARGINS, said=SAID, **section):
        self.folder, self.said = folder, said
        self.section = Audit(llm="judge", **section)
        texts = pl.DataFrame({"_id": ["d"], "text": ["aaabbbccc"], "origin": ["o"]})
        self.write("documents", texts)
        schema = {"_id": pl.String, "target_position": pl.String, "margin": pl.Float64}
        rows = [(name, *known) for name, known in margins.items()]
        known = pl.DataFrame(rows, schema=schema, orient="row")
        span = pl.lit([3, 6], dtype=pl.Array(pl.Int32, 2))
        self.write(
            "candidates",
            known.select(
                "_id",
                "target_position",
                text=pl.col("_id") + "?",
                pos_corpus_id=pl.lit("d"),
                pos_char_span=span,
                answer=pl.lit("x"),
            ),
        )
        has_margin = pl.col("margin").is_not_null()
        self.write(
            "margins",
            known.select(
                "margin",
                query_id="_id",
                reranker=pl.lit("one"),
                is_exact=has_margin,
                reason=pl.when(has_margin).then(pl.lit("")).otherwise(pl.lit("invalid_score")),
            ),
        )

    def path(self, name):
        return self.folder / f"{name}.parquet"

    def write(self, name, frame):
        write_table(frame, self.path(name), SPECS[name], provenance=SOURCE)

    def draw(self):
        inputs = {name: self.path(name) for name in ("documents", "candidates", "margins")}
        run_audit_pairs(self.section, **inputs, output=self.path("audit_pairs"))
        return read_table(self.path("audit_pairs"), SPECS["pairs"])

    def reply(self, pair_id):
        query, part = pair_id.split("--")
        return say("verdict", self.said[query][POSITIONS.index(part)])

    def run(self):
        self.draw()
        judge(
            TASK,
            self.reply,
            documents=self.path("documents"),
            pairs=self.path("audit_pairs"),
            output=self.path("audit"),
        )
        self.count()
        return read_table(self.path("audit_table"), SPECS["audit_table"])

    def count(self):
        run_audit_table(
            candidates=self.path("candidates"),
            margins=self.path("margins"),
            verdicts=self.path("audit"),
            output=self.path("audit_table"),
        )


def test_all_thirds_of_every_query_drawn_are_judged_and_none_without_a_margin(tmp_path):
    pairs = Chain(tmp_path).draw()
    assert pairs["_id"].to_list() == [
        f"{query}--{part}" for query in MARGINS if query != "none" for part in POSITIONS
    ]
    assert pairs.filter(query_id="best").select("doc_id", "part", "query", "text").rows() == [
        ("d", "beginning", "best?", "aaa"),
        ("d", "middle", "best?", "bbb"),
        ("d", "end", "best?", "ccc"),
    ]


def test_as_many_are_drawn_of_each_stratum_as_the_section_says(tmp_path):
    margins = {f"q{n}": ("middle", 0.05 if n < 20 else 0.5) for n in range(40)}
    (tmp_path / "other").mkdir()
    drawn = Chain(tmp_path, margins, per_stratum=4).draw()["query_id"].unique().to_list()
    assert len(drawn) == 8
    assert sum(int(name[1:]) < 20 for name in drawn) == 4
    again = Chain(tmp_path, margins, per_stratum=4).draw()["query_id"].unique().to_list()
    other = Chain(tmp_path / "other", margins, per_stratum=4, seed=1).draw()["query_id"].to_list()
    assert set(again) == set(drawn)
    assert set(other) != set(drawn)


def test_verdicts_are_counted_by_stratum_and_a_query_that_lacks_one_is_unusable(tmp_path):
    table = Chain(tmp_path).run()
    columns = ("stratum", "n", "n_unusable", "target_yes", "distractor_no", "exclusive")
    assert table.select(columns).rows() == [
        ("no_margin", 0, 0, None, None, None),
        ("m<0", 1, 0, 0.0, 0.5, 0.0),  # failed: no on its target, yes on one of two others
        ("0<=m<0.1", 1, 0, 1.0, 0.5, 0.0),  # tie: yes on its target, and on one of two others
        ("0.1<=m<0.2", 0, 0, None, None, None),
        ("0.2<=m<0.3", 0, 0, None, None, None),
        ("m>=0.3", 2, 1, 1.0, 0.75, 0.5),  # best is exclusive, also is not; unsaid lacks one
    ]


def test_without_margins_nothing_is_asked_and_the_table_counts_nothing(tmp_path):
    table = Chain(tmp_path, {"none": ("end", None)}).run()
    assert read_table(tmp_path / "audit.parquet", SPECS["verdicts"]).is_empty()
    assert table.select("n", "n_unusable").sum().row(0) == (0, 0)
    assert table.height == 6


def test_a_chunk_with_two_targets_is_counted_by_either(tmp_path):
    chain = Chain(tmp_path, {"best": ("beginning", 0.5)}, {"best": (N, Y, N)})
    listed = pl.Series("positions", [["beginning", "middle"]])
    chain.write("candidates", pl.read_parquet(chain.path("candidates")).with_columns(listed))
    row = chain.run().filter(stratum="m>=0.3")
    assert row.select("n", "target_yes", "distractor_no", "exclusive").row(0) == (1, 1.0, 1.0, 1.0)


def test_verdicts_on_a_query_that_is_no_candidate_are_refused(tmp_path):
    chain = Chain(tmp_path)
    chain.run()
    chain.write("margins", pl.read_parquet(chain.path("margins")).head(2))
    with pytest.raises(InputError, match="audited query 'best' has no row in margins"):
        chain.count()
    chain = Chain(tmp_path)
    chain.write("candidates", pl.read_parquet(chain.path("candidates")).tail(3))
    with pytest.raises(InputError, match="candidate 'failed' is not in its table"):
        chain.draw()


def test_a_judge_does_not_become_an_author_of_the_queries(tmp_path):
    chain = Chain(tmp_path)
    chain.run()
    assert read_provenance(chain.path("audit"))["queries_by"] == "llm:the-judge"
    for name in ("audit_pairs", "audit_table"):
        assert read_provenance(chain.path(name))["queries_by"] == "llm:the-author"
