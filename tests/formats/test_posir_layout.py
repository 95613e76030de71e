"""The layout of PosIR's release: folders, tables and refusals."""

from types import SimpleNamespace

import polars as pl
import pytest

from psibench.errors import InputError
from psibench.formats.posir import RELEASE_COLUMNS, discover, read_dataset
from psibench.generate.loaders.posir_release import PosirRelease

ENGLISH = {"language": "eng-Latn", "domain": "game"}
CORPUS = pl.DataFrame({"_id": ["a", "b"], "text": ["chess has kings", "go has stones 😀"]})
QUERIES = pl.DataFrame(
    {
        "_id": ["q1"],
        "text": ["what has stones?"],
        "pos_char_span": [[7, 13]],
        "pos_char_length": [15],
        "pos_token_length": [4],
    }
)
QRELS = pl.DataFrame({"query-id": ["q1"], "corpus-id": ["b"], "score": [1]})


def lay_out(root, *, language="eng-Latn", domain="game", place="{table}/test.parquet", **tables):
    """Write a dataset by hand; ``tables`` take the place of the sound ones."""
    frames = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS} | tables
    for table, frame in frames.items():
        if frame is not None:
            path = root / language / domain / place.format(table=table)
            path.parent.mkdir(parents=True, exist_ok=True)
            frame.write_parquet(path)
    return str(root)


def test_languages_and_domains_are_listed_sorted(tmp_path):
    for language, domain in (("spa-Latn", "game"), ("eng-Latn", "mining"), ("eng-Latn", "game")):
        lay_out(tmp_path, language=language, domain=domain)
    (tmp_path / ".cache").mkdir()
    (tmp_path / "figures").mkdir()
    (tmp_path / "README.md").write_text("x")
    assert discover(str(tmp_path)) == {"eng-Latn": ["game", "mining"], "spa-Latn": ["game"]}


@pytest.mark.parametrize("place", ["{table}/test.parquet", "{table}.parquet"])
def test_a_dataset_is_read_in_the_published_columns(tmp_path, place):
    extra = CORPUS.with_columns(title=pl.lit("t"))
    tables = read_dataset(lay_out(tmp_path, place=place, corpus=extra), **ENGLISH)
    assert tables.corpus.equals(CORPUS)
    assert tables.queries.equals(QUERIES)
    assert tables.qrels.equals(QRELS)
    for table, columns in RELEASE_COLUMNS.items():
        assert getattr(tables, table).schema == columns


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"qrels": None}, r"qrels/test.parquet: no such file; a release has"),
        ({"queries": QUERIES.drop("pos_char_span")}, r"missing columns pos_char_span; found"),
        (
            {"queries": QUERIES.with_columns(pos_char_span=pl.Series([[1, 2, 3]]))},
            r"a pos_char_span lacks two numbers",
        ),
        (
            {"qrels": QRELS.with_columns(score=pl.lit(0.5))},
            r"score is Float64; expected whole numbers",
        ),
        (
            {"corpus": CORPUS.with_columns(text=pl.Series(["x", None]))},
            r"text is null in 1 of 2 rows",
        ),
        ({"corpus": pl.concat([CORPUS, CORPUS])}, r"ids that occur twice: 'a', 'b' \(2 in all\)"),
    ],
)
def test_invalid_datasets_are_refused_with_their_file(tmp_path, tables, message):
    with pytest.raises(InputError, match=message) as refused:
        read_dataset(lay_out(tmp_path, **tables), **ENGLISH)
    assert str(tmp_path / "eng-Latn" / "game") in str(refused.value)


def test_invalid_release_folders_are_refused(tmp_path):
    (tmp_path / "notes").mkdir()
    with pytest.raises(InputError, match="not a release; found notes, expected"):
        discover(str(tmp_path))
    with pytest.raises(InputError, match="rename the folder"):
        discover(lay_out(tmp_path, domain="Game"))


def test_files_of_a_local_dataset_are_a_jobs_inputs(tmp_path):
    section = {"recipe": "posir_release", "source": {"path": lay_out(tmp_path)}}
    release = PosirRelease(**section, languages=["eng-Latn"], domains=["game"])
    assert release.files() == [
        str(tmp_path / "eng-Latn" / "game" / table / "test.parquet") for table in RELEASE_COLUMNS
    ]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with one dataset; the calls that reach it."""
    import huggingface_hub
    from huggingface_hub.errors import EntryNotFoundError

    calls = []
    root = tmp_path / "on_the_hub"

    def download(name, path, *, repo_type, revision):
        calls.append((name, path, repo_type, revision))
        if name != "owner/release":
            raise OSError("404")
        if not (root / path).is_file():
            raise EntryNotFoundError("no such entry")
        return str(root / path)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    return SimpleNamespace(root=root, calls=calls)


def test_a_hub_release_is_read_at_its_revision(hub):
    lay_out(hub.root, place="{table}.parquet")
    tables = read_dataset("owner/release", **ENGLISH, revision="abc")
    assert tables.corpus.equals(CORPUS)
    assert {call[::2] for call in hub.calls} == {("owner/release", "dataset")}
    assert {call[3] for call in hub.calls} == {"abc"}
    asked = [path for _, path, _, _ in hub.calls]
    assert asked[0] == "eng-Latn/game/corpus/test.parquet"


def test_a_missing_hub_dataset_is_refused_with_advice(hub):
    with pytest.raises(InputError, match=r"no such folder .* cannot be loaded \(OSError: 404\)"):
        read_dataset("owner/other", **ENGLISH)
