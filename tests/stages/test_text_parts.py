import jobs
from language_tables import write_texts

from psibench.tables import read_provenance
from psibench.tables.build_schemas import TEXT_PARTS
from psibench.translate.translate import run_text_parts


def test_long_documents_are_cut_and_queries_are_not(tmp_path):
    documents = {"d1": "a b\n\nc d e\n\nf", "d0": "g"}
    corpus, queries = write_texts(tmp_path, documents, {"q0": "one two three four five six"})
    output = tmp_path / "text_parts.parquet"
    settings = {"length_tokenizer": "words", "max_part_tokens": 5}
    jobs.run(run_text_parts, {"corpus": corpus, "queries": queries}, {"parts": output}, **settings)
    assert jobs.rows(output, TEXT_PARTS).rows() == [
        ("d:d1:0", "d1", "d1", "document", 0, 2, "a b\n\nc d e", "\n\n"),
        ("d:d1:1", "d1", "d1", "document", 1, 2, "f", ""),
        ("d:d0:0", "d0", "d0", "document", 0, 1, "g", ""),
        ("q:q0:0", "d1", "q0", "query", 0, 1, "one two three four five six", ""),
    ]
    provenance = read_provenance(output)
    assert provenance["params"] == settings | {"domains": ["general"]}
    assert set(provenance["inputs"]) == {str(corpus), str(queries)}
