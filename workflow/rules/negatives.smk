# Documents that answer a query and are not its positive: recalled, scored, judged, removed.
# What is there before is the view `{benchmark}-raw`.


# As for a run, over the raw tables and deeper.
use rule search_lexical as recall_lexical with:
    output:
        run="results/{benchmark}/recall/{model}/{query_lang}-{corpus_lang}.parquet",
    log:
        "logs/{benchmark}/recall/{model}/{query_lang}-{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/recall/{model}/{query_lang}-{corpus_lang}.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("raw"),
        model=lookup.pattern("lexical"),
    resources:
        # As for a run.
        mem_mb=lambda wildcards, input, attempt: (
            max(
                lookup.recall_mib(wildcards.benchmark),
                40 * input.size_mb * largest_share(wildcards),
            )
            * attempt
        ),
        runtime=lambda wildcards, attempt: 240 * attempt,
    params:
        entry=lambda wildcards: retrieval_params(lookup.models[wildcards.model]),
        model_version=lambda wildcards: MODEL_VERSIONS[
            lookup.models[wildcards.model].backend
        ],
        top_k=lambda wildcards: lookup.recall_depth(wildcards.benchmark),
        stage=STAGES["search_lexical"],
    message:
        "Recalling documents of {wildcards.benchmark} with {wildcards.model}"


use rule search_vectors as recall_vectors with:
    output:
        run="results/{benchmark}/recall/{model}/{query_lang}-{corpus_lang}.parquet",
    log:
        "logs/{benchmark}/recall/{model}/{query_lang}-{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/recall/{model}/{query_lang}-{corpus_lang}.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("raw"),
        model=lookup.pattern("vector"),
    resources:
        # As for a run; ten MiB for each of the documents per query.
        mem_mb=lambda wildcards, input, attempt: (
            lookup.recall_mib(wildcards.benchmark)
            + 16 * input.size_mb
            + 2 * settings.search.block_mib
        )
        * attempt,
        runtime=lambda wildcards, attempt: 240 * attempt,
        block_mib=settings.search.block_mib,
        device=settings.search.device,
    params:
        entry=lambda wildcards: retrieval_params(lookup.models[wildcards.model]),
        model_version=lambda wildcards: MODEL_VERSIONS[
            lookup.models[wildcards.model].backend
        ],
        domains=pair_domains,
        top_k=lambda wildcards: lookup.recall_depth(wildcards.benchmark),
        store=settings.store,
        stage=STAGES["search_vectors"],
    message:
        "Recalling documents of {wildcards.benchmark} with {wildcards.model}"


rule score_pairs:
    input:
        corpus=domain_tables("corpus", view="raw"),
        queries=domain_tables("queries", view="raw"),
        qrels=domain_tables("qrels", view="raw"),
        recall=recall_table,
        # One after the other, the cheapest first: what is decided is not scored again.
        earlier=score_tables(lookup.pair_panel, "pair_scores", until="reranker"),
        checkpoint=lambda wildcards: lookup.reranker_inputs(wildcards.reranker),
    output:
        scores="results/{benchmark}/build/{lang}/pair_scores/{reranker}.parquet",
    log:
        "logs/{benchmark}/score_pairs/{lang}/{reranker}.log",
    benchmark:
        "benchmarks/{benchmark}/score_pairs/{lang}/{reranker}.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("having false_negatives"),
        reranker=lookup.pattern("rerankers"),
    conda:
        "../../envs/gpu.yaml"
    threads: chain_threads
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(lookup.scoring_mib(wildcards.reranker), 160 * input.size_mb) * attempt
        ),
        runtime=1440,
        gpu=lambda wildcards: lookup.gpus(),
        device=settings.encoding.device,
        tokens_per_batch=lambda wildcards: lookup.scoring_tokens(wildcards.reranker),
    params:
        domains=build_domains,
        top_k=lambda wildcards: lookup.negatives(wildcards.benchmark).recall.top_k,
        scoring=lambda wildcards: lookup.pair_scoring(
            wildcards.benchmark, wildcards.reranker
        ),
        store=settings.store,
        stage=STAGES["score_pairs"],
    message:
        "Scoring recalled documents of {wildcards.benchmark} with {wildcards.reranker}"
    script:
        "../scripts/stage.py"


rule negatives:
    input:
        queries=domain_tables("queries", view="raw"),
        qrels=domain_tables("qrels", view="raw"),
        recall=recall_table,
        scores=score_tables(lookup.pair_panel, "pair_scores"),
    output:
        negatives="results/{benchmark}/build/{lang}/negatives.parquet",
    log:
        "logs/{benchmark}/negatives/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/negatives/{lang}.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("having false_negatives"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 40 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        domains=build_domains,
        top_k=lambda wildcards: lookup.negatives(wildcards.benchmark).recall.top_k,
        section=lambda wildcards: lookup.negatives(wildcards.benchmark).panel(),
        stage=STAGES["negatives"],
    message:
        "Documents of {wildcards.benchmark} that rerankers call relevant"
    script:
        "../scripts/stage.py"


rule judge_pairs:
    input:
        corpus=domain_tables("corpus", view="raw"),
        queries=domain_tables("queries", view="raw"),
        negatives="results/{benchmark}/build/{lang}/negatives.parquet",
        # Nobody is asked what the judges before have decided.
        earlier=judge_tables(until="number"),
    output:
        pairs="results/{benchmark}/build/{lang}/judge_{number}_pairs.parquet",
    log:
        "logs/{benchmark}/judge_pairs/{lang}/{number}.log",
    benchmark:
        "benchmarks/{benchmark}/judge_pairs/{lang}/{number}.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("having false_negatives"),
        number=r"[1-9][0-9]*",
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        domains=build_domains,
        section=lambda wildcards: lookup.negatives(wildcards.benchmark).judging(
            int(wildcards.number)
        ),
        stage=STAGES["judge_pairs"],
    message:
        "What judge {wildcards.number} of {wildcards.benchmark} has to grade"
    script:
        "../scripts/stage.py"


rule remove_negatives:
    input:
        corpus="results/{benchmark}-raw/data/{lang}/{domain}/corpus.parquet",
        queries="results/{benchmark}-raw/data/{lang}/{domain}/queries.parquet",
        qrels="results/{benchmark}-raw/data/{lang}/{domain}/qrels.parquet",
        negatives="results/{benchmark}/build/{lang}/negatives.parquet",
        scores=score_tables(lookup.pair_panel, "pair_scores"),
        judged=judge_tables(),
    output:
        corpus="results/{benchmark}/data/{lang}/{domain}/corpus.parquet",
        queries="results/{benchmark}/data/{lang}/{domain}/queries.parquet",
        qrels="results/{benchmark}/data/{lang}/{domain}/qrels.parquet",
        judgements="results/{benchmark}/data/{lang}/{domain}/judgements.parquet",
        dropped="results/{benchmark}/build/{lang}/{domain}/false_negatives.dropped.parquet",
        flow="results/{benchmark}/build/{lang}/{domain}/false_negatives.flow.parquet",
        savings="results/{benchmark}/build/{lang}/{domain}/false_negatives.savings.parquet",
    log:
        "logs/{benchmark}/remove_negatives/{lang}/{domain}.log",
    benchmark:
        "benchmarks/{benchmark}/remove_negatives/{lang}/{domain}.tsv"
    wildcard_constraints:
        benchmark=lookup.native_pattern("having false_negatives"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 40 * input.size_mb * domain_share(wildcards)) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        section=lambda wildcards: lookup.negatives(wildcards.benchmark).removal(),
        place=lambda wildcards: lookup.counted(wildcards.benchmark, "false_negatives"),
        stage=STAGES["remove_negatives"],
    message:
        "Removing false negatives of {wildcards.benchmark}"
    script:
        "../scripts/stage.py"
