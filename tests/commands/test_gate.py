"""`psibench compare --fail-if-worse` and `--within`: results, exit codes, table and files."""

import json
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from score_tables import table

from psibench.cli import main
from psibench.commands.score_example import EXAMPLE_FOLDER
from psibench.tables import Provenance, write_table
from psibench.tables.schemas import QUERY_SCORES


@pytest.fixture
def gate(tmp_path, capsys):
    """Compare systems, frames by name; return exit code, standard output and standard error."""

    def run(systems, *options):
        files = []
        for name, frame in systems.items():
            files.append(tmp_path / f"{name}.parquet")
            write_table(frame, files[-1], QUERY_SCORES, provenance=Provenance("score", 2))
        words = ["compare", *files, "--buckets", "thirds", *options]
        code = main([str(word) for word in words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def hits(*shares, n=100):
    """Hits (n, 3) with a share of hits in each third, and the misses spread over documents."""
    numbers = np.arange(n)[:, None] * 37 % n
    return (numbers < np.array(shares) * n).astype(float)


def level(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return np.clip(rng.uniform(0.3, 0.9, (n, 1)) + rng.normal(0, 0.02, (n, 3)), 0, 1)


# --- The two collapses that the mean hides --------------------------------------------------------


def test_a_collapse_in_the_last_third_fails_though_the_mean_gains(gate):
    # 300 queries: the last third falls from .65 to .32, the mean gains (.835 2 + .32) / 3 - .65.
    new, old = table(hits(0.84, 0.83, 0.32)), table(hits(0.65, 0.65, 0.65))
    assert (new["ndcg@10"].mean() - old["ndcg@10"].mean()) == pytest.approx(0.0133, abs=1e-4)
    code, printed, error = gate({"new": new, "old": old}, "--fail-if-worse", "0.02")
    assert code == 1
    assert "new fails --fail-if-worse 0.02 in ndcg@10: thirds: end −0.330 (p < 0.001)" in error
    assert "mean" not in error
    (line,) = (one for one in printed.splitlines() if one.startswith("thirds: end"))
    assert line.split()[2:8] == ["100", "100", "0.320", "0.650", "−0.330", "<0.001"]
    assert line.endswith("fails")


def test_a_collapse_on_25_documents_fails(gate):
    # One query per document; recall falls from 1 to .2.
    old = table(np.ones((25, 3))).filter(pl.col("query_id").str.ends_with("-0"))
    lost = pl.int_range(pl.len()) >= 5
    new = old.with_columns(pl.when(lost).then(0.0).otherwise(1.0).alias("ndcg@10"))
    for option in ("--fail-if-worse", "--within"):
        code, _, error = gate({"new": new, "old": old}, option, "0.02")
        assert code == 1
        assert "mean −0.800 (p < 0.001)" in error


# --- Results and exit codes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "n", "option", "code", "said"),
    [
        pytest.param(0.9, 60, "--fail-if-worse", 1, "new fails --fail-if-worse 0.02", id="worse"),
        pytest.param(
            0.99, 60, "--fail-if-worse", 0, "no loss of 0.02 or more is shown", id="small"
        ),
        pytest.param(1.1, 60, "--fail-if-worse", 0, "in 4 cells", id="better"),
        pytest.param(0.5, 8, "--fail-if-worse", 1, "mean −0.2", id="worse in 8 documents"),
        pytest.param(0.5, 4, "--fail-if-worse", 3, "cannot tell for new", id="4 documents"),
        pytest.param(0.9, 60, "--within", 1, "new fails --within 0.02", id="not within"),
        pytest.param(0.99, 60, "--within", 0, "no loss of 0.02 or more is possible", id="within"),
        pytest.param(0.99, 4, "--within", 3, "may have lost up to", id="4 documents, within"),
    ],
)
def test_losses_are_told_by_size_and_number_of_documents(gate, factor, n, option, code, said):
    old = level(n) * 0.8
    found, _, error = gate({"new": table(old * factor), "old": table(old)}, option, "0.02")
    assert said in error
    assert found == code


@pytest.fixture
def noisy():
    """Two systems of 40 documents with different scores and equal means in each third."""
    noise = np.random.default_rng(0).normal(0, 0.15, (2, 40, 3))
    scores = 0.5 + noise - noise.mean(axis=1, keepdims=True)
    return {name: table(one) for name, one in zip(("new", "old"), scores, strict=True)}


def test_too_few_documents_exit_with_3_and_the_number_that_suffices(gate, noisy):
    code, printed, error = gate(noisy, "--fail-if-worse", "0.02")
    assert code == 3
    assert "cannot tell for new in ndcg@10: mean shows losses from 0.0" in error
    # Spread .15 sqrt(2) = .21: 1.25 (2.23 .21 / .02)^2 = 700, and more in the widest of four cells
    needed = int(error.split("About ")[1].split()[0].replace(",", ""))
    assert 700 <= needed <= 1500
    assert "there are 40" in error
    assert printed.count("cannot tell") == 4
    assert "Means are plain means over the queries" in printed


@pytest.mark.parametrize(("value", "code"), [("pass", 0), ("fail", 1)])
def test_an_unclear_gate_may_pass_or_fail(gate, noisy, value, code):
    found, _, error = gate(noisy, "--within", "0.02", "--if-unclear", value)
    assert found == code
    assert "cannot tell" in error


def test_an_unchanged_run_passes_only_the_gate_that_needs_a_loss(gate):
    same = {"new": table(level(8)), "old": table(level(8))}
    assert gate(same, "--fail-if-worse", "0.02")[0] == 0
    code, _, error = gate(same, "--within", "0.02")
    assert code == 3
    assert "suffice; there are 8" in error


def test_a_build_fails_if_any_other_system_is_better(gate):
    systems = {"new": 0.8 * level(), "same": 0.8 * level(), "better": level()}
    code, printed, error = gate(
        {name: table(scores) for name, scores in systems.items()}, "--fail-if-worse", "0.02"
    )
    assert code == 1
    assert "mean against better" in error
    assert "against same" not in error
    assert "new against 2 systems" in printed


def test_more_systems_make_a_family_and_larger_p(gate):
    # Lower by .01 in 38 of 60 documents, higher in 22: T = 16 / sqrt(60) = 2.07, p .02 one-sided.
    worse = np.where(np.arange(60) < 38, -0.01, 0.01)[:, None]
    old = 0.9 * level()
    systems = {"new": old + worse, "old": old}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        systems[f"other{seed}"] = np.clip(old + rng.normal(0, 0.1, old.shape), 0, 1)
    frames = {name: table(scores) for name, scores in systems.items()}
    two = {name: frames[name] for name in ("new", "old")}
    assert gate(two, "--fail-if-worse", "0.001")[0] == 1
    assert gate(frames, "--fail-if-worse", "0.001")[0] == 3


def test_clusters_are_the_units_that_would_have_to_grow(gate, noisy):
    clusters = pl.Series([f"site {i // 3 % 10}" for i in range(120)])
    frames = {name: frame.with_columns(cluster=clusters) for name, frame in noisy.items()}
    code, _, error = gate(frames, "--fail-if-worse", "0.02")
    assert code == 3
    assert "clusters would suffice; there are 10" in error


# --- Slices ---------------------------------------------------------------------------------------


def test_a_loss_in_one_domain_fails_if_domains_are_tested(gate):
    old = level(120)
    of_law = (np.arange(120) % 6 == 0)[:, None]  # 20 of 120 documents
    new = np.where(of_law, old - 0.2, old + 0.05)
    domain = pl.Series(np.repeat(np.where(of_law[:, 0], "law", "news"), 3))
    frames = {"new": table(new, domain=domain), "old": table(old, domain=domain)}
    assert gate(frames, "--fail-if-worse", "0.02")[0] == 0
    code, printed, error = gate(frames, "--fail-if-worse", "0.02", "--by", "domain")
    assert code == 1
    assert ": domain: law −0.200 (p < 0.001)" in error
    assert "domain: news" in printed


def test_documents_without_a_length_bucket_are_cut_into_three_parts(gate):
    old = level()
    long = np.arange(60) >= 40
    new = np.where(long[:, None], old - 0.2, old + 0.1)
    length = pl.Series(np.repeat(np.arange(60) * 10 + 900, 3), dtype=pl.Int32)
    frames = {name: table(y, pos_char_length=length) for name, y in (("new", new), ("old", old))}
    code, printed, error = gate(frames, "--fail-if-worse", "0.02", "--by", "length")
    assert code == 1
    assert ": length: 3 (above 1290 characters) −0.200" in error
    rows = [line for line in printed.splitlines() if line.startswith("length: ")]
    assert [row.split("characters)")[1].split()[:2] for row in rows] == [["60", "20"]] * 3


def test_a_column_of_the_queries_makes_slices(tmp_path, capsys):
    queries = pl.read_parquet(EXAMPLE_FOLDER / "queries.parquet")
    kinds = pl.Series(["fact", "name"] * len(queries)).head(len(queries))
    queries.with_columns(kind=kinds).write_parquet(tmp_path / "queries.parquet")
    runs = [EXAMPLE_FOLDER / "runs" / f"{name}.parquet" for name in ("minilm-static", "bm25")]
    judged = ["--queries", tmp_path / "queries.parquet"]
    judged += ["--qrels", EXAMPLE_FOLDER / "qrels.parquet"]
    options = ["--fail-if-worse", "0.02", "--by", "kind,length", "--json"]
    assert main([str(word) for word in ["compare", *runs, *judged, *options]]) == 1
    cells = json.loads(capsys.readouterr().out)["gate"]["cells"]
    by = {(cell["by"], cell["value"]): cell["queries"] for cell in cells}
    assert by["kind", "fact"] + by["kind", "name"] == by["mean", ""] == 561
    assert {value for name, value in by if name == "length"} == {"Q1", "Q2", "Q3"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--by", "topic"], "--by topic: no such column in the queries or in their scores"),
        (["--by", "domain"], "--by domain: 1 different values in the queries; allowed: 2 to 50"),
        (["--by", "query_id"], "--by query_id: 120 different values"),
        (["--junit", "nowhere/x.xml"], "--junit nowhere/x.xml: folder nowhere does not exist"),
    ],
)
def test_bad_options_of_a_gate_are_refused(gate, noisy, options, said):
    code, _, error = gate(noisy, "--fail-if-worse", "0.02", *options)
    assert code == 2
    assert said in error


def test_options_of_a_gate_need_a_gate(gate, noisy):
    code, _, error = gate(noisy, "--a-a", "--if-unclear", "pass")
    assert code == 2
    assert "--if-unclear, --a-a without a gate; add --fail-if-worse LOSS or --within LOSS" in error


@pytest.mark.parametrize("option", ["--fail-if-worse", "--within"])
@pytest.mark.parametrize(
    ("loss", "said"),
    [
        *((loss, "give a share, e.g. 5% or 0.05") for loss in ("2", "-0.1", "much")),
        ("0", "give the smallest loss that matters"),
    ],
)
def test_a_loss_that_is_no_share_is_refused(capsys, option, loss, said):
    with pytest.raises(SystemExit, match="2"):
        main(["compare", "a", "b", f"{option}={loss}"])
    assert said in capsys.readouterr().err


def test_one_gate_at_a_time(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["compare", "a", "b", "--within", "0.02", "--fail-if-worse", "0.02"])
    assert "not allowed with argument" in capsys.readouterr().err


# --- Chance, JSON and JUnit -----------------------------------------------------------------------


def test_halves_of_the_base_run_tell_how_often_chance_fails(gate, noisy):
    _, printed, _ = gate(noisy, "--fail-if-worse", "0.02", "--a-a")
    (line,) = (one for one in printed.splitlines() if one.startswith("By chance"))
    assert "(halves of old's documents, 400 halvings): fails " in line
    assert float(line.split("fails ")[1].split(" %")[0]) <= 5 + 3.3  # and three standard errors


def test_json_has_all_numbers_and_nothing_else_is_printed(gate, noisy):
    code, printed, _ = gate(noisy, "--within", "0.02", "--a-a", "--json")
    found = json.loads(printed)
    assert code == 3
    assert [row["model"] for row in found["comparisons"]] == ["new"]
    assert len(found["buckets"]) == 6
    of_gate = found["gate"]
    assert of_gate["result"] == "cannot tell"
    assert [cell["by"] for cell in of_gate["cells"]] == ["mean", *["thirds"] * 3]
    assert of_gate["cells"][0]["queries"] == 120
    assert of_gate["n_units"] == 40 < of_gate["units_needed"]
    assert sum(of_gate["by_chance"].values()) == 400


def test_json_without_a_gate_has_the_comparison(gate, noisy):
    code, printed, error = gate(noisy, "--json")
    assert (code, error) == (0, "")
    assert json.loads(printed)["gate"] is None


@pytest.mark.parametrize(
    ("option", "kind"), [(None, "error"), ("pass", "skipped"), ("fail", "failure")]
)
def test_junit_has_a_test_per_cell(gate, noisy, tmp_path, option, kind):
    chosen = [] if option is None else ["--if-unclear", option]
    gate(noisy, "--fail-if-worse", "0.02", "--junit", tmp_path / "gate.xml", *chosen)
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()
    counts = {name: int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")}
    expected = {"error": "errors", "failure": "failures", "skipped": "skipped"}[kind]
    assert counts == {"tests": 4, "failures": 0, "errors": 0, "skipped": 0} | {expected: 4}
    assert [test[0].tag for test in suite] == [kind] * 4
    assert suite[0].get("classname") == "new against old"
    assert suite[0][0].get("message").startswith("cannot tell: mean shows losses from 0.0")


def test_junit_survives_characters_that_xml_lacks(gate, tmp_path):
    domain = pl.Series(["a\x01<&", "b"] * 90)
    old = level()
    frames = {"new": table(old - 0.1, domain=domain), "old": table(old, domain=domain)}
    code, _, _ = gate(
        frames, "--fail-if-worse", "0.02", "--by", "domain", "--junit", tmp_path / "gate.xml"
    )
    assert code == 1
    names = [test.get("name") for test in ElementTree.parse(tmp_path / "gate.xml").getroot()]
    assert "domain: a\N{REPLACEMENT CHARACTER}<&" in names
