"""Version of each stage's output.

A stage's version is one of the parameters of its rule: bump it when the stage gives other rows
for the same input, and everything downstream is made again. Nothing else about the code is a
reason to rerun, so refactoring and comments cost nobody a GPU hour.
"""

STAGE_VERSIONS: dict[str, int] = {
    "build": 2,
    "sample": 3,
    "personas": 1,
    "ask": 2,
    "gather": 2,
    "score_parts": 1,
    "verify": 2,
    "grade_pairs": 1,
    "grade": 1,
    "audit_pairs": 1,
    "audit_table": 1,
    "assemble": 2,
    "ledger": 1,
    "score_pairs": 1,
    "negatives": 1,
    "judge_pairs": 1,
    "remove_negatives": 1,
    "subset": 1,
    "mixtures": 1,
    "filter_study": 2,
    "statistics": 2,
    "download": 1,
    "list_texts": 1,
    "encode": 2,
    "search": 2,
    "rerank": 2,
    "score": 3,
    "collect": 1,
    "summaries": 1,
    "report": 5,
    "text_parts": 1,
    "mark_translations": 1,
    "clean_translations": 1,
    "quality_sample": 2,
    "quality": 1,
    "published": 1,
    "similarity": 1,
    "import_run": 1,
    "export": 1,
}
