"""The two stages that make a translated benchmark from a translator's replies."""

import jobs
import polars as pl
import pytest

from psibench.errors import InputError
from psibench.tables import Provenance, read_provenance, write_table
from psibench.tables.build_schemas import (
    FLOW,
    REFUSAL_SUSPECTS,
    REFUSAL_VERDICTS,
    TEXT_PARTS,
    TRANSLATED,
    TRANSLATIONS,
)
from psibench.tables.ledger import check_balance
from psibench.tables.schemas import ATTRITION, CORPUS, QRELS, QUERIES
from psibench.translate.clean import PREFIXES, run_clean_translations, run_mark_translations
from psibench.translate.refusals import REFUSALS

SOURCE = Provenance("assemble", 1, queries_by="llm:stand-in/rules")
PLACE = {"lang": "rus-Cyrl", "domains": ["law"]}
LISTS = {"prefix_list": PREFIXES, "refusal_list": REFUSALS}
SENTENCE = "Река течёт через город и впадает в море."
REFUSAL = "Извините, но я не могу перевести этот текст."


class Domain:
    """A domain of documents d0, d1, ... with one query each, and the given translations."""

    def __init__(self, folder, documents, queries, *, originals=None, judged=(), on_empty="fail"):
        self.folder, self.judged, self.on_empty = folder, list(judged), on_empty
        texts = originals or [
            f"The river number {i} flows to the sea. It is long." for i in documents
        ]
        self.originals = dict(zip(documents, texts, strict=True))
        self._write_source(documents, queries)
        self._write_parts(documents, queries)

    def path(self, name):
        return self.folder / f"{name}.parquet"

    def write(self, name, frame, spec):
        write_table(frame, self.path(name), spec, provenance=SOURCE)

    def read(self, name, spec):
        return jobs.rows(self.path(name), spec)

    def paths(self, *names):
        return {name: self.path(name) for name in names}

    def run(self, function, inputs, outputs, *, name, step, **values):
        """Run a stage that writes dropped and flow tables named after it."""
        outputs |= {kind: self.path(f"{name}.{kind}") for kind in ("dropped", "flow")}
        place = {"unit": "queries", "step": step}
        jobs.run(function, inputs, outputs, **PLACE, **values, place=place, on_empty=self.on_empty)

    def _write_source(self, documents, queries):
        texts = [self.originals[i] for i in documents]
        corpus = pl.DataFrame({"_id": [f"d{i}" for i in documents], "text": texts}).with_columns(
            char_length=pl.col("text").str.len_chars(), word_count=9, token_length=9
        )
        asked = pl.DataFrame(
            {
                "_id": [f"q{i}" for i in queries],
                "text": [f"Where does river {i} flow?" for i in queries],
                "pos_corpus_id": [f"d{i}" for i in queries],
                "pos_char_span": [[4, 9]] * len(queries),
            }
        ).with_columns(
            pos_char_length=48,
            pos_token_length=9,
            target_position=pl.lit("beginning"),
            answer=pl.lit("the sea"),  # another column of the recipe
        )
        qrels = asked.select(
            pl.col("_id").alias("query-id"),
            pl.col("pos_corpus_id").alias("corpus-id"),
            pl.lit(1, pl.Int32).alias("score"),
        ).vstack(pl.DataFrame(self.judged, schema=QRELS.empty().schema, orient="row"))
        self.write("source_corpus", corpus, CORPUS)
        self.write("source_queries", asked, QUERIES)
        self.write("source_qrels", qrels, QRELS)

    def _write_parts(self, documents, queries):
        parts, made = [], []
        for kind, items in (("document", documents), ("query", queries)):
            for i, replies in items.items():
                item, n = f"{kind[0]}{i}", len(replies)
                source = self.originals[i] if kind == "document" else f"Where does river {i} flow?"
                for number, reply in enumerate(replies):
                    part = f"{kind[0]}:{item}:{number}"
                    between = "\n\n" if number + 1 < n else ""
                    parts.append((part, f"d{i}", item, kind, number, n, source, between))
                    if reply is not None:
                        made.append((part, reply))
        for name, rows, spec in (
            ("text_parts", parts, TEXT_PARTS),
            ("translations", made, TRANSLATIONS),
        ):
            frame = pl.DataFrame(rows, schema=spec.empty().schema, orient="row")
            self.write(name, frame, spec)

    def mark(self, *, prefixes=True, refusals=True, unusable=True):
        source = {name: self.path(f"source_{name}") for name in ("corpus", "queries")}
        outputs = self.paths("translated") | {"suspects": self.path("refusal_suspects")}
        self.run(
            run_mark_translations,
            source | self.paths("text_parts", "translations") | LISTS,
            outputs,
            name="mark",
            step=7,
            prefixes=prefixes,
            refusals=refusals,
            unusable=unusable,
            source_language="eng-Latn",
        )
        return self.read("translated", TRANSLATED)

    def judge(self):
        suspects = self.read("refusal_suspects", REFUSAL_SUSPECTS)
        verdicts = suspects.select("_id", "item_id", "kind").with_columns(is_refusal=True)
        self.write("verdicts", verdicts, REFUSAL_VERDICTS)

    def clean(self, *, judged=True, outliers=None):
        names = ["source_corpus", "source_queries", "source_qrels", "translated"]
        self.run(
            run_clean_translations,
            {"verdicts": []} | self.paths(*names, *(["verdicts"] if judged else [])),
            self.paths("corpus", "queries", "qrels"),
            name="clean",
            step=8,
            section=outliers,
            length_tokenizer="words",
        )
        specs = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS}
        return [self.read(name, spec) for name, spec in specs.items()]

    def reasons(self, stage):
        rows = self.read(f"{stage}.dropped", ATTRITION).select("unit", "item_id", "reason").rows()
        return {(unit, item): reason for unit, item, reason in rows}

    def balance(self, stage):
        check_balance(self.read(f"{stage}.dropped", ATTRITION), self.read(f"{stage}.flow", FLOW))


def asked(n, **others):
    queries = {i: [f"Куда впадает река номер {i}?"] for i in range(n)}
    return queries | {int(key[1:]): value for key, value in others.items()}


def test_marking_joins_parts_removes_prefixes_and_finds_suspects(tmp_path):
    domain = Domain(
        tmp_path,
        {
            0: ["Here is the translation:\n\n" + SENTENCE, "Translation:\n" + SENTENCE],
            1: [SENTENCE, REFUSAL],
            2: ["The river flows through the town and into the sea."],
        },
        asked(3, q2=["Here is the translation: Куда впадает река?"]),
    )
    made = domain.mark()
    assert made.select("_id", "kind", "prefix", "n_parts", "joins", "suspect").rows() == [
        (
            "d0",
            "document",
            "Here is the translation:\n\nTranslation:",
            2,
            [len(SENTENCE) + 2],
            None,
        ),
        ("d1", "document", None, 2, [len(SENTENCE) + 2], "phrase"),
        ("d2", "document", None, 1, [], "language"),
        ("q0", "query", None, 1, [], None),
        ("q1", "query", None, 1, [], None),
        ("q2", "query", "Here is the translation:", 1, [], None),
    ]
    assert made["text"][0] == f"{SENTENCE}\n\n{SENTENCE}"
    assert made["text"][5] == "Куда впадает река?"
    suspects = domain.read("refusal_suspects", REFUSAL_SUSPECTS).rows()
    assert suspects == [
        ("d:d1", "d1", "d1", "document", REFUSAL),
        ("d:d2", "d2", "d2", "document", "The river flows through the town and into the sea."),
    ]
    assert domain.reasons("mark") == {}
    record = read_provenance(domain.path("translated"))
    assert record["queries_by"] == "llm:stand-in/rules"
    assert {"prefixes.yaml", "refusals.yaml"} <= set(record["inputs"])


def test_disabled_steps_change_nothing(tmp_path):
    text = "Here is the translation:\n" + REFUSAL
    domain = Domain(tmp_path, {0: [text]}, asked(1))
    made = domain.mark(prefixes=False, refusals=False, unusable=False)
    assert made.select("text", "prefix", "suspect").row(0) == (text, None, None)
    assert domain.read("refusal_suspects", REFUSAL_SUSPECTS).is_empty()
    corpus, queries, _ = domain.clean(judged=False)
    assert (corpus.height, queries.height) == (1, 1)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (SENTENCE, None),
        ("...", "no_letters"),
        (SENTENCE * 20, "absurd_length"),
        ("The river flows through the town and into the sea.", "in_source_language"),
    ],
)
def test_unusable_translation_is_dropped_without_a_judge(tmp_path, reply, reason):
    domain = Domain(tmp_path, {0: [reply], 1: [SENTENCE]}, asked(2))
    domain.mark(refusals=False)
    expected = {("documents", "d0"): reason, ("queries", "q0"): "positive_removed"}
    assert domain.reasons("mark") == (expected if reason else {})
    domain.balance("mark")


def test_a_suspect_is_left_to_the_judge(tmp_path):
    domain = Domain(tmp_path, {0: ["The river flows to the sea."], 1: [SENTENCE]}, asked(2))
    assert domain.mark()["suspect"].to_list() == ["language", None, None, None]
    assert domain.reasons("mark") == {}


def test_items_without_a_part_are_dropped_with_their_queries(tmp_path):
    documents = {
        0: [SENTENCE, None],
        1: [SENTENCE],
        2: [" "],
        3: [SENTENCE],
    }
    domain = Domain(tmp_path, documents, asked(4, q1=[None]))
    assert domain.mark()["_id"].to_list() == ["d1", "d3", "q3"]
    rows = domain.read("mark.dropped", ATTRITION)
    columns = ("unit", "item_id", "doc_id", "reason", "detail", "target_position", "char_length")
    assert rows.select(columns).rows() == [
        ("documents", "d0", "d0", "untranslated", "part d:d0:1 has no translation", None, 48),
        ("documents", "d2", "d2", "untranslated", "part d:d2:0 has a blank translation", None, 48),
        ("queries", "q0", "d0", "positive_removed", "document d0", "beginning", 48),
        ("queries", "q1", "d1", "untranslated", "part q:q1:0 has no translation", "beginning", 48),
        ("queries", "q2", "d2", "positive_removed", "document d2", "beginning", 48),
    ]
    assert domain.read("mark.flow", FLOW).rows() == [
        ("mark_translations", 7, "documents", 4, 2, 2),
        ("mark_translations", 7, "queries", 4, 1, 3),
    ]
    domain.balance("mark")


def test_losing_all_queries_is_an_error_with_reasons(tmp_path):
    domain = Domain(tmp_path, {0: [None], 1: [SENTENCE]}, asked(2, q1=[None]))
    message = (
        r"domain law: 0 of 2 queries are left in rus-Cyrl; "
        r"documents dropped: untranslated 1 \(.*\); "
        r"queries dropped: positive_removed 1 \(.*'document d0'\), untranslated 1 \(.*\)"
    )
    with pytest.raises(InputError, match=message):
        domain.mark()


def test_an_emptied_domain_keeps_counts_and_reasons(tmp_path):
    domain = Domain(tmp_path, {0: [None], 1: [SENTENCE]}, asked(2, q1=[None]), on_empty="drop")
    assert domain.mark()["_id"].to_list() == ["d1"]  # a document without a query
    domain.judge()
    corpus, queries, qrels = domain.clean()
    assert corpus["_id"].to_list() == ["d1"]
    assert (queries.height, qrels.height) == (0, 0)
    assert domain.read("mark.flow", FLOW).select("unit", "entered", "kept").rows() == [
        ("documents", 2, 1),
        ("queries", 2, 0),
    ]
    domain.balance("mark")
    domain.balance("clean")


def test_refusals_are_removed_before_lengths_are_compared(tmp_path):
    # 40 words each but: d8 a refusal of 8 words, d9 twice as long
    documents = {i: [" ".join([SENTENCE] * 5)] for i in range(8)}
    documents |= {8: [REFUSAL], 9: [" ".join([SENTENCE] * 10)]}
    documents[7] = [" ".join([SENTENCE] * 5) + " да"]  # 41 words
    # q2 has a second positive, d9; a judgement of 0 is no positive
    judged = [("q2", "d9", 1), ("q3", "d9", 0), ("q3", "d0", 0)]
    domain = Domain(tmp_path, documents, asked(10, q1=[REFUSAL]), judged=judged)
    domain.mark(unusable=False)
    domain.judge()
    corpus, queries, qrels = domain.clean(outliers={"low": 2.0, "high": 2.0})
    # of 40 x 7, 41, 80: Q1 = Q3 = 40, so IQR = 0 and only 40 is usual
    assert corpus["_id"].to_list() == [f"d{i}" for i in range(7)]
    assert queries["_id"].to_list() == ["q0", "q3", "q4", "q5", "q6"]
    own = [(name, f"d{name[1:]}", 1) for name in queries["_id"]]
    assert qrels.rows() == [*own, ("q3", "d0", 0)]
    assert domain.reasons("clean") == {
        ("documents", "d7"): "too_long",
        ("documents", "d8"): "refusal",
        ("documents", "d9"): "too_long",
        ("queries", "q1"): "refusal",
        ("queries", "q2"): "positive_removed",
        ("queries", "q7"): "positive_removed",
        ("queries", "q8"): "positive_removed",
        ("queries", "q9"): "positive_removed",
    }
    gone = domain.read("clean.dropped", ATTRITION).filter(pl.col("item_id") == "d9")
    assert gone.select("score", "detail").row(0) == (80.0, "outside [40, 40] tokens")
    domain.balance("clean")


def test_only_the_text_of_queries_changes(tmp_path):
    original = "The river flows through the town and to the sea. It is long and deep and very old."
    text = f"{SENTENCE} Она длинная, глубокая и очень старая."
    domain = Domain(tmp_path, {0: [text], 1: [REFUSAL]}, asked(2), originals=[original] * 2)
    domain.mark()
    domain.judge()
    corpus, queries, _ = domain.clean()
    assert corpus.row(0) == ("d0", text, len(text), 14, 14)
    source = domain.read("source_queries", QUERIES).head(1)
    assert queries.select(source.columns).drop("text").equals(source.drop("text"))
    assert queries["text"].to_list() == ["Куда впадает река номер 0?"]
    assert queries["pos_translated_char_length"].to_list() == [len(text)]
