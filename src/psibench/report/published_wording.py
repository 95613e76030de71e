"""What the page of published figures says about each table, in words."""

COMPARABLE = {
    "posir_table2": (
        "nDCG@10, mean over languages",
        "PosIR is the mean over all queries of a language, Q1 to Q4 the mean of the 20 bin means "
        "of a length bucket; then the mean over ten languages. A counterpart needs a benchmark "
        "with all ten. MMTEB is the score on that leaderboard; psibench does not measure it.",
    ),
    "posir_table3": (
        "PSI, mean over languages",
        "In the paper this table is a picture. The figures here are means over the languages of "
        "tables 10 and 11, which print two decimals. Cross-lingual means queries of eight "
        "languages that search the English corpus.",
    ),
    "posir_table10": (
        "nDCG@10 and PSI by language, up to Q3",
        "Over all lengths nDCG@10 is the mean over queries, in a length bucket the mean of the "
        "20 bin means. PSI is over the 20 bins.",
    ),
    "posir_table11": (
        "nDCG@10 and PSI by language, Q4",
        "As table 10, for the longest positives.",
    ),
    "posq_table1": (
        "nDCG@10 by position, and PSI",
        "SQuAD-PosQ by the character at which the answer starts, FineWeb-PosQ by thirds. BM25 and "
        "dense models were run on the full sets, late interaction and rerankers on the tiny ones, "
        "the rerankers over a first stage's top 100.",
    ),
    "myopic_table1": (
        "nDCG@10 by position",
        "An earlier version of PosQ: the same SQuAD-PosQ, and a FineWeb-PosQ without its filters, "
        "whose questions may carry two positions (tagging: myopic).",
    ),
    "controlled_table3": (
        "nDCG@10 and PSI of models trained on skewed positions",
        "Columns are where the evidence of the training data lay. A counterpart is a model whose "
        "id is that of the base with the training behind it, as in qwen3-0.6b-uniform. The paper "
        "does not say what its mean is over; the mean over buckets is held against it.",
    ),
}
"""Tables with counterparts: file -> title and what it holds."""

AS_PRINTED = {
    "posir_table2_correlations": (
        "Rank correlation of PosIR with MMTEB",
        "Spearman, over ten models. Own ones, with a leaderboard given as CSV: "
        "results/leaderboards.csv.",
    ),
    "posir_table4": (
        "Corpora by language",
        "Counts and tokens of documents (Qwen3 tokenizer); the share is of documents and queries "
        "together. Own ones: the report's data section.",
    ),
    "posir_table5": ("Corpora by domain", "All ten languages together."),
    "posir_table6": ("Types of queries", "Shares of the queries, by leading interrogative."),
    "posir_table7": (
        "Translation quality by language model",
        "Grades of 1 to 5 by a language model. Own ones: results/BENCHMARK/"
        "translation_quality.parquet, where translate.quality is set.",
    ),
    "posir_table8": ("Translation quality by people", "Grades of 1 to 5."),
    "posir_table9": (
        "Agreement of people and language model on translations",
        "Share of grades at most one apart, and mean absolute difference. Own ones: "
        "results/BENCHMARK/translation_agreement.parquet.",
    ),
    "posq_table4": (
        "Cosine of a text with its parts",
        "Full text against beginning, middle and end. Myopic's table 4 prints the same figures.",
    ),
    "controlled_table4": (
        "BEIR, mean over eight models",
        "nDCG@10 by where training evidence lay.",
    ),
    "controlled_table5": (
        "Evidence moved through a document",
        "Places with the highest and the lowest cosine. One difference, 21.2, is printed as 21.5 "
        "in table 13.",
    ),
    "controlled_table6": (
        "Candidates by margin",
        "The report's section on verification puts own figures beside these.",
    ),
    "controlled_table7": ("Audit by margin", "As table 6: see the report."),
    "controlled_table8": (
        "Retained pool and budget",
        "As table 6: see the report. Table 1 of the paper prints the same pool.",
    ),
    "controlled_table9": ("Base models", ""),
    "controlled_table10": ("Training", "The same for all 32 runs."),
    "controlled_table11": (
        "PosIR, models trained on skewed positions",
        "On four of PosIR's domains; the paper does not say over which buckets PSI is taken, so "
        "no own figure is held against it.",
    ),
    "controlled_table12": ("Mirror reversal", "gap is back_reversed minus front_reversed."),
    "controlled_table13": ("Evidence moved, all places", "Mean cosine with the evidence there."),
    "controlled_table14": ("BEIR by model", "nDCG@10 by where training evidence lay."),
    "needles_table1": (
        "Cosine with the altered text",
        "Filler put in at beginning, middle and end; improvement is finetuned minus original.",
    ),
}
"""Tables without rows in the result tables: file -> title and what it holds."""

PIVOTS = {
    "posir_table7": (("language",), "system"),
    "controlled_table4": (("dataset",), "training"),
    "controlled_table11": (("model",), "training"),
    "controlled_table14": (("model", "dataset"), "training"),
}
"""Long files that are shown wide: file -> columns that name a row, column that makes groups."""
