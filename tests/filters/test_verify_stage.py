"""Verification under fake rerankers: scored, kept and dropped candidates, counts."""

import polars as pl
from fake_reranker import ENTRY, PairReranker
from filter_tables import Folder, candidate, sampling_of
from jobs import run

from psibench.config.rerankers import reranker_params
from psibench.filters.panel import run_score_parts
from psibench.filters.verify import VerifyAgreement, VerifyMargin, VerifyNecessity, run_verify
from psibench.text.segments import POSITIONS

DOCUMENT = "aaabbbccc"  # its thirds: aaa, bbb, ccc
BEGINNING, MIDDLE, END = ([0, 3], [3, 6], [6, 9])


def fake(name: str, known: dict[tuple[str, str], float]) -> PairReranker:
    """Score from a table (query, text) -> score."""
    return PairReranker(name, lambda query, text: known[query, text])


def thirds(scores: dict[str, tuple[float, float, float]]) -> dict[tuple[str, str], float]:
    return {
        (query, text): value
        for query, values in scores.items()
        for text, value in zip(("aaa", "bbb", "ccc"), values, strict=True)
    }


class Chain(Folder):
    """One benchmark's tables in a folder; runs its rerankers and the rule, and counts the items."""

    def __init__(self, folder, section, candidates, *, text=DOCUMENT):
        super().__init__(folder)
        self.section = section
        document = {"_id": "d", "text": text, "origin": "o", "length_bin": "5-10"}
        self.write("documents", [document])
        self.write("sampling", sampling_of("0-5", "5-10"))
        self.write("candidates", pl.DataFrame(candidates))

    def run(self, *rerankers: PairReranker) -> None:
        made: list = []
        for reranker in rerankers:
            section = self.section.score_params(reranker.name)
            scores = self.path(f"scores-{reranker.name}")
            run(
                run_score_parts,
                {
                    "documents": self.path("documents"),
                    "candidates": self.path("candidates"),
                    "earlier": list(made),
                },
                {"scores": scores},
                scoring={"section": section, "entry": reranker_params(ENTRY)},
                store=self.folder / "store",
                device="cpu",
                tokens_per_batch=6,
                given={"load": lambda name, entry, *, device, chosen=reranker: chosen},
            )
            made.append(scores)
        names = ["rows", "dropped", "flow"]
        if self.section.rule == "margin":
            names += ["margins", "margin_table", "cell_table"]
        run(
            run_verify,
            {
                "documents": self.path("documents"),
                "sampling": self.path("sampling"),
                "candidates": self.path("candidates"),
                "scores": made,
            },
            {name: self.path(name) for name in names},
            section=self.section.model_dump(mode="json"),
            place={"unit": "queries", "step": 3},
        )
        flow, dropped = self.read("flow", "flow"), self.read("dropped", "attrition")
        for stage, entered, kept in flow.select("stage", "entered", "kept").iter_rows():
            assert entered == kept + dropped.filter(stage=stage).height
        assert flow["kept"][-1] == self.read("rows", "candidates").height


def controlled(folder) -> Chain:
    places = {"q1": (BEGINNING, "beginning"), "q2": (MIDDLE, "middle"), "q3": (END, "end")}
    rows = [
        candidate(q, [position], span, length_bin="5-10") for q, (span, position) in places.items()
    ]
    return Chain(folder, MARGIN, rows)


MARGIN = VerifyMargin(rerankers=["one", "two"], threshold=0.25)


def panel() -> tuple[PairReranker, PairReranker]:
    # Margins of the targets (beginning, middle, end): one 0.5, 0.25, -0.25; two 0.125, 0.5, 0.75.
    one = thirds({"q1": (0.75, 0.25, 0), "q2": (0, 0.75, 0.5), "q3": (0.5, 0, 0.25)})
    two = thirds({"q1": (0.5, 0.375, 0), "q2": (0, 0.75, 0.25), "q3": (0, 0, 0.75)})
    return fake("one", one), fake("two", two)


def test_only_undecided_queries_reach_the_second_reranker(tmp_path):
    chain, (one, two) = controlled(tmp_path), panel()
    chain.run(one, two)
    assert chain.read("rows", "candidates").select("_id", "margin").rows() == [("q2", 0.25)]
    columns = ("stage", "item_id", "reason", "detail", "score", "target_position", "char_length")
    assert chain.read("dropped", "attrition").select(columns).rows() == [
        ("margin", "q1", "margin_below_threshold", "by two", 0.125, "beginning", 9),
        ("margin", "q3", "target_not_first", "by one", -0.25, "end", 9),
    ]
    columns = ("stage", "step", "unit", "entered", "kept", "dropped")
    assert chain.read("flow", "flow").select(columns).rows() == [("margin", 3, "queries", 3, 1, 2)]
    assert len(one.asked) == 9
    assert {query for query, _ in two.asked} == {"q1", "q2"}


def test_the_margin_tables_count_every_threshold_and_cell(tmp_path):
    chain = controlled(tmp_path)
    chain.run(*panel())
    table = chain.read("margin_table", "margin_table")
    columns = ("condition", "n", "n_beginning", "n_middle", "n_end")
    assert table.select(columns).rows() == [
        ("all", 3, 1, 1, 1),
        ("no_margin", 0, 0, 0, 0),
        ("failed", 1, 0, 0, 1),
        ("m>=0", 2, 1, 1, 0),
        ("m>=0.1", 2, 1, 1, 0),
        ("m>=0.2", 1, 0, 1, 0),
        ("m>=0.25", 1, 0, 1, 0),  # the threshold itself
        ("m>=0.3", 0, 0, 0, 0),
    ]
    cells = chain.read("cell_table", "cell_table").filter(condition="m>=0.1")
    columns = ("length_bin", "n_beginning", "n_middle", "n_end", "budget")
    assert cells.select(columns).rows() == [
        ("0-5", 0, 0, 0, 0),
        ("5-10", 1, 1, 0, 0),
        ("all", 1, 1, 0, 0),
    ]


def test_a_part_without_text_is_null_and_not_scored(tmp_path):
    rows = [candidate("q1", ["beginning"], [0, 1], length_bin="5-10")]
    chain = Chain(tmp_path, MARGIN, rows, text="ab")  # thirds: "", "", "ab"
    one, two = (fake(name, {("q1", "ab"): 0.5}) for name in ("one", "two"))
    chain.run(one, two)
    scores = chain.read("scores-one", "segment_scores")
    assert scores.select("part", "score", "raw").rows() == [
        ("beginning", None, None),
        ("middle", None, None),
        ("end", 0.5, 5.0),
    ]
    assert (one.asked, two.asked) == ([("q1", "ab")], [])
    assert chain.read("dropped", "attrition")["reason"].to_list() == ["empty_segment"]
    assert chain.read("margin_table", "margin_table").filter(condition="no_margin")["n"][0] == 1


def test_every_reranker_has_to_need_the_span(tmp_path):
    spans = {"needed": [3, 6], "equal": [0, 3], "late": [6, 9], "whole": [0, 9]}
    rows = [candidate(name, ["middle"], span) for name, span in spans.items()]
    chain = Chain(tmp_path, VerifyNecessity(rerankers=["one", "two"]), rows)
    full = {(name, DOCUMENT): 0.5 for name in spans}
    removed = {("needed", "aaaccc"): 0.25, ("equal", "bbbccc"): 0.5, ("late", "aaabbb"): 0.25}
    one = fake("one", full | removed)
    two = fake("two", full | removed | {("late", "aaabbb"): 0.75})
    chain.run(one, two)
    columns = ("stage", "item_id", "reason", "score", "detail")
    assert chain.read("dropped", "attrition").select(columns).rows() == [
        ("span_necessity", "equal", "span_not_needed", 0.0, "by one"),
        ("span_necessity", "late", "span_not_needed", -0.25, "by two"),
        ("span_necessity", "whole", "span_is_document", None, "by one"),
    ]
    assert chain.read("rows", "candidates")["_id"].to_list() == ["needed"]
    assert {query for query, _ in two.asked} == {"needed", "late"}


def fineweb(folder, positions, *, balance) -> Chain:
    spans = {"beginning": BEGINNING, "middle": MIDDLE, "end": END}
    rows = [
        candidate(name, found, spans[found[0]], positions=found)
        for name, found in positions.items()
    ]
    return Chain(folder, VerifyAgreement(rerankers=["one"], balance=balance), rows)


FIVE = {"b1": ["beginning"], "b2": ["beginning"], "m1": ["middle"], "e1": ["end"], "e2": ["end"]}


def test_agreement_then_balancing_are_two_stages(tmp_path):
    chain = fineweb(tmp_path, FIVE, balance=True)
    first = {"b": (1.0, 0.0, 0.5), "m": (0.0, 1.0, 0.5), "e": (0.0, 0.5, 1.0)}
    scores = {name: first[name[0]] for name in FIVE} | {"e2": (0.5, 0.5, 0.5)}
    chain.run(fake("one", thirds(scores)))
    columns = ("stage", "step", "unit", "entered", "kept")
    assert chain.read("flow", "flow").select(columns).rows() == [
        ("agreement", 3, "queries", 5, 4),
        ("balance", 4, "queries", 4, 3),
    ]
    kept = chain.read("rows", "candidates")
    assert sorted(kept["target_position"]) == sorted(POSITIONS)
    dropped = chain.read("dropped", "attrition").select("stage", "item_id", "reason").rows()
    assert dropped[0] == ("agreement", "e2", "target_not_first")
    assert dropped[1][::2] == ("balance", "not_sampled")
    assert dropped[1][1] in ("b1", "b2")


def test_a_chunk_with_two_tags_passes_by_either(tmp_path):
    positions = {"b1": ["beginning", "middle"], "e1": ["middle", "end"]}
    chain = fineweb(tmp_path, positions, balance=False)
    # b1's best third is the beginning, one of its two targets; e1's best is the beginning, no
    # target.
    one = fake("one", thirds({"b1": (1.0, 0.0, 0.5), "e1": (1.0, 0.0, 0.5)}))
    chain.run(one)
    assert chain.read("rows", "candidates")["_id"].to_list() == ["b1"]
    dropped = chain.read("dropped", "attrition").select("item_id", "target_position").rows()
    assert dropped == [("e1", "middle")]
