# From a source to a benchmark's tables, where no language model is asked.


use rule on_cpu as build with:
    input:
        outside(per_job(paths.sources_of)),
        tokenizer=outside(paths.tokenizer_inputs(plan)),
    output:
        **benchmark_tables("results/{benchmark}/data/{lang}{part}"),
        dropped="results/{benchmark}/build/{lang}{part}/dropped.parquet",
        flow="results/{benchmark}/build/{lang}{part}/flow.parquet",
    wildcard_constraints:
        benchmark=patterns["native direct"],
    resources:
        **needs(4000, minutes=lambda wildcards: 60 * len(domains(wildcards))),
        **on_empty,
    params:
        domains=per_job(jobs.build),


use rule on_cpu as statistics with:
    input:
        corpora=per_job(paths.language_tables, table="corpus"),
        queries=per_job(paths.language_tables, table="queries"),
        qrels=per_job(paths.language_tables, table="qrels"),
        tokenizer=outside(paths.tokenizer_inputs(plan)),
    output:
        statistics="results/{benchmark}/statistics.parquet",
        histogram="results/{benchmark}/position_histogram.parquet",
    wildcard_constraints:
        benchmark=patterns["not views"],
    resources:
        **needs(4000, 0.2, minutes=240),
    params:
        places=per_job(paths.places),
        schemes=setting("buckets"),
        length_tokenizer=settings.length_tokenizer,


# How alike the domains are, on demand: the mean vectors of their documents.
use rule on_cpu as similarity with:
    input:
        encodings=per_job(paths.encodings),
        own=per_job(paths.text_filter_tables, table="corpus"),
    output:
        similarity="results/{benchmark}/similarity/{model}/{lang}.parquet",
    wildcard_constraints:
        model=patterns["vector"],
    resources:
        **needs(6000, 8),
    params:
        entry=per_job(jobs.entry),
        domains=domains,
        store=settings.store,
