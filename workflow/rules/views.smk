# A tiny subset of a benchmark, and any table as CSV.


use rule on_cpu as tiny with:
    input:
        **benchmark_tables("results/{benchmark}/data/{lang}{part}"),
    output:
        **benchmark_tables("results/{benchmark}-tiny/data/{lang}{part}"),
    wildcard_constraints:
        benchmark=patterns["having tiny"],
    resources:
        **needs(4000, 25),
        **on_empty,
    params:
        domains=domains,
        section=setting("tiny", "only_here"),
        stage=STAGES["subset"],


# Any table of a benchmark as CSV, on demand: lists become JSON.
use rule on_cpu as table_csv with:
    input:
        parquet="results/{benchmark}/{table}.parquet",
    output:
        csv="results/{benchmark}/{table}.csv",
    wildcard_constraints:
        table=r"[a-zA-Z0-9._/-]+",
