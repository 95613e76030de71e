# A tiny subset of a benchmark.


use rule on_cpu as tiny with:
    input:
        **benchmark_tables("results/{benchmark}/data/{lang}/{domain}"),
    output:
        **benchmark_tables("results/{benchmark}-tiny/data/{lang}/{domain}"),
    wildcard_constraints:
        benchmark=patterns["having tiny"],
    params:
        section=setting("tiny", "only_here"),
        stage=STAGES["subset"],
