# The tables of a benchmark, and their statistics.


# Every benchmark's corpus, queries and qrels. The stage and its inputs depend on the benchmark:
# `build` reads a source that has queries, `assemble` takes generated queries, `remove_negatives`
# removes false negatives from the view `raw`, `clean_translations` takes translations.
use rule on_cpu as data with:
    input:
        unpack(data_inputs),
    output:
        **benchmark_tables("results/{benchmark}/data/{lang}{part}"),
        dropped="results/{benchmark}/build/{lang}{part}/data.dropped.parquet",
        flow="results/{benchmark}/build/{lang}{part}/data.flow.parquet",
    log:
        "logs/{benchmark}/data/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/data/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=patterns["benchmarks"],
    resources:
        **needs(4000, 25, of=share_of_data, minutes=lambda w: 60 * len(domains(w))),
        **on_empty,
    params:
        content=content("data", data_files),
        domains=lambda w: jobs.data_domains(plan, w.benchmark, w.lang, w.part),
        section=lambda w: jobs.data_section(plan, w.benchmark, w.lang),
        place=lambda w: jobs.data_place(plan, w.benchmark, w.lang),
        length_tokenizer=settings.length_tokenizer,
        stage=lambda w: STAGES[plan.data_stage(w.benchmark, w.lang)],


# The view `raw`, before false negatives are removed.
use rule on_cpu as assemble_raw with:
    input:
        documents="results/{benchmark}/build/{lang}{part}/documents.parquet",
        candidates=candidates_before(None),
        tokenizer=outside(length_tokenizer),
    output:
        **benchmark_tables("results/{benchmark}-raw/data/{lang}{part}"),
    log:
        "logs/{benchmark}/assemble_raw/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/assemble_raw/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=having("false_negatives"),
    resources:
        **needs(4000, 25, of=largest_share),
        **on_empty,
    params:
        content=content("assemble_raw", length_tokenizer),
        domains=domains,
        length_tokenizer=settings.length_tokenizer,
        stage=STAGES["assemble"],


# The view `tiny`: a small sample of the queries, with the whole corpus.
use rule on_cpu as tiny with:
    input:
        **benchmark_tables("results/{benchmark}/data/{lang}{part}"),
    output:
        **benchmark_tables("results/{benchmark}-tiny/data/{lang}{part}"),
    log:
        "logs/{benchmark}/tiny/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/tiny/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=having("tiny"),
    resources:
        **needs(4000, 25),
        **on_empty,
    params:
        domains=domains,
        section=leaf("tiny", without=["only_here"]),
        stage=STAGES["subset"],


use rule on_cpu as statistics with:
    input:
        corpora=all_languages("corpus"),
        queries=all_languages("queries"),
        qrels=all_languages("qrels"),
        tokenizer=outside(length_tokenizer),
    output:
        statistics="results/{benchmark}/statistics.parquet",
        histogram="results/{benchmark}/position_histogram.parquet",
    log:
        "logs/{benchmark}/statistics.log",
    benchmark:
        "benchmarks/{benchmark}/statistics.tsv"
    wildcard_constraints:
        benchmark=patterns["benchmarks"],
    resources:
        **needs(4000, 0.2, minutes=240),
    params:
        content=content("statistics", length_tokenizer),
        places=lambda w: paths.tables_by_language(plan, w.benchmark),
        schemes=leaf("buckets"),
        length_tokenizer=settings.length_tokenizer,
        stage=STAGES["statistics"],


# Similarity of the domains by the mean vectors of their documents.
use rule on_cpu as similarity with:
    input:
        encodings=encodings(),
        own=own_texts("corpus"),
    output:
        similarity="results/{benchmark}/similarity/{model}/{lang}.parquet",
    log:
        "logs/{benchmark}/similarity/{model}/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/similarity/{model}/{lang}.tsv"
    wildcard_constraints:
        model=patterns["vector"],
    resources:
        **needs(6000, 8),
    params:
        entry=entry,
        domains=domains,
        store=settings.store,
        stage=STAGES["similarity"],


# Any table of a benchmark as CSV, on demand; lists become JSON.
use rule on_cpu as table_csv with:
    input:
        parquet="results/{benchmark}/{table}.parquet",
    output:
        csv="results/{benchmark}/{table}.csv",
    log:
        "logs/{benchmark}/table_csv/{table}.log",
    benchmark:
        "benchmarks/{benchmark}/table_csv/{table}.tsv"
    wildcard_constraints:
        table=r"[a-zA-Z0-9._/-]+",
    params:
        stage=STAGES["table_csv"],
