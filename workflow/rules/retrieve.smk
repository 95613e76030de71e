# Vectors and runs.


# Where snakemake runs, so that jobs need no network. The files lie in the hub's own cache.
use rule on_cpu as download with:
    output:
        manifest=f"{settings.store}/checkpoints/{{checkpoint}}.json",
    wildcard_constraints:
        checkpoint=patterns["downloads"],
    localrule: True
    resources:
        **needs(1000, minutes=1440),
    params:
        repo=downloaded("repo"),
        revision=downloaded("revision"),
        part=downloaded("part"),


# One job encodes all texts of a language.
use rule on_gpu as encode with:
    input:
        **texts,
        checkpoint=outside(per_job(paths.model_inputs)),
    output:
        encodings="results/{benchmark}/encodings/{model}/{lang}.parquet",
    wildcard_constraints:
        benchmark=patterns["encoded whole"],
        model=patterns["encoded"],
    priority: per_job(jobs.encode_priority)
    resources:
        # Texts are read in blocks; measured: 0.8 to 1.3 kB per text for ids, keys and the store's
        # index, 2.3 MB per MB of documents of 200 words. Weights saved in 16 bits double.
        **needs(per_job(jobs.encoder_mib), 5, minutes=per_job(jobs.encode_minutes)),
        **on_device,
        tokens_per_batch=per_job(jobs.tokens_per_batch),
        tokens_per_part=settings.encoding.tokens_per_part,
        seconds_per_part=settings.encoding.seconds_per_part,
    params:
        entry=per_job(jobs.entry),
        model_version=per_job(jobs.model_version),
        domains=domains,
        dtype=settings.encoding.dtype,
        storage=settings.encoding.storage,
        store=settings.store,
        stage=STAGES["encode"],


# What is encoded, in one file: a hundred tables as inputs of a thousand shards slow every start.
use rule on_cpu as list_texts with:
    input:
        **texts,
    output:
        texts="results/{benchmark}/encodings/{lang}.texts",
    localrule: True
    resources:
        **needs(1000),


# Several jobs share the texts of a language: each has those whose address falls to it.
use rule encode as encode_shard with:
    input:
        texts="results/{benchmark}/encodings/{lang}.texts",
        checkpoint=outside(per_job(paths.model_inputs)),
    output:
        encodings="results/{benchmark}/encodings/{model}/{lang}/{shard}.parquet",
    wildcard_constraints:
        benchmark=patterns["encoded in shards"],
        model=patterns["encoded"],
    params:
        **texts,


use rule on_cpu as join_shards with:
    input:
        **texts,
        shards=per_job(paths.encoding_shards),
    output:
        encodings="results/{benchmark}/encodings/{model}/{lang}.parquet",
    wildcard_constraints:
        benchmark=patterns["encoded in shards"],
        model=patterns["encoded"],
    resources:
        **needs(4000, 3),
    params:
        entry=per_job(jobs.entry),
        domains=domains,


# Vectors that a service makes: no GPU, but a network and a key.
use rule on_cpu as embed_api with:
    input:
        **texts,
        tokenizer=outside(per_job(paths.model_inputs)),
    output:
        encodings="results/{benchmark}/encodings/{model}/{lang}.parquet",
        usage="results/{benchmark}/encodings/{model}/{lang}.usage.parquet",
    wildcard_constraints:
        model=patterns["api"],
    resources:
        **needs(4000, 6, minutes=1440),
        budgeted_llm=per_job(jobs.budgeted),
    params:
        entry=per_job(jobs.entry),
        model_version=per_job(jobs.model_version),
        domains=domains,
        storage=settings.encoding.storage,
        store=settings.store,


use rule on_cpu as search_lexical with:
    input:
        corpora=per_job(paths.domain_tables, lang=corpus_lang, table="corpus"),
        queries=per_job(paths.domain_tables, lang=query_lang, table="queries"),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
    wildcard_constraints:
        benchmark=patterns["searched"],
        model=patterns["lexical"],
    resources:
        # One domain at a time; measured: 33 MB per MB of its corpus.
        **needs(4000, 40, of=largest_share, minutes=240),
    params:
        entry=per_job(jobs.entry),
        model_version=per_job(jobs.model_version),
        domains=domains,
        top_k=settings.search.top_k,
        remove_identical_ids=per_job(jobs.remove_identical_ids),
        stage=STAGES["search_lexical"],


use rule on_gpu as search_vectors with:
    input:
        query_encodings=per_job(paths.encodings, lang=query_lang),
        corpus_encodings=per_job(paths.encodings, lang=corpus_lang),
        # Which of these texts are the benchmark's own, where they are another's encodings.
        own_queries=per_job(paths.text_filter_tables, lang=query_lang, table="queries"),
        own_corpus=per_job(paths.text_filter_tables, lang=corpus_lang, table="corpus"),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
    wildcard_constraints:
        benchmark=patterns["searched"],
        model=patterns["vector"],
    priority: per_job(jobs.encode_priority)
    resources:
        # The store is read in blocks; measured over the start: 450 MB at 300,000 documents, 600 MB
        # at a million, and up to twice the blocks; best documents take 12 bytes each.
        **needs(6000, 10, more=2 * settings.search.block_mib, minutes=240),
        block_mib=settings.search.block_mib,
        device=settings.search.device,
    params:
        entry=per_job(jobs.entry),
        model_version=per_job(jobs.model_version),
        domains=domains,
        top_k=settings.search.top_k,
        remove_identical_ids=per_job(jobs.remove_identical_ids),
        store=settings.store,
        stage=STAGES["search_vectors"],


# The best documents of a first stage in the order of a reranker.
use rule on_gpu as rerank with:
    input:
        first_stage=per_job(paths.first_stage),
        corpora=per_job(paths.domain_tables, lang=corpus_lang, table="corpus"),
        queries=per_job(paths.domain_tables, lang=query_lang, table="queries"),
        judged=per_job(paths.domain_tables, lang=corpus_lang, table="queries"),
        checkpoint=outside(per_job(paths.reranker_inputs, reranker=own_reranker)),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
        # What it reads of each query's positive: beside another query it is another part.
        seen="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.seen.parquet",
    wildcard_constraints:
        benchmark=patterns["searched"],
        model=patterns["reranking"],
    resources:
        **needs(per_job(jobs.scoring_mib, reranker=own_reranker), 20, minutes=1440),
        **on_device,
        tokens_per_batch=per_job(jobs.scoring_tokens, reranker=own_reranker),
    params:
        entry=per_job(jobs.entry),
        reranker=per_job(jobs.reranker_entry, reranker=own_reranker),
        domains=domains,
        store=settings.store,


# Several models' runs as one.
use rule on_cpu as fuse with:
    input:
        runs=expand(
            "results/{{benchmark}}/runs/{model}/{{query_lang}}-{{corpus_lang}}.parquet",
            model=per_job(Plan.component_models),
        ),
        encodings=per_job(paths.fused_encodings),
        corpora=per_job(paths.domain_tables, lang=corpus_lang, table="corpus"),
        queries=per_job(paths.domain_tables, lang=query_lang, table="queries"),
        judged=per_job(paths.domain_tables, lang=corpus_lang, table="queries"),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
        # How far into each query's positive any of them read.
        seen="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.seen.parquet",
    wildcard_constraints:
        benchmark=patterns["searched"],
        model=patterns["fused"],
    params:
        entry=per_job(jobs.entry),
        domains=domains,
        reads_all=per_job(paths.reads_all),
        top_k=settings.search.top_k,


# Rankings that somebody else's system made: files of the user's.
use rule on_cpu as import_run with:
    input:
        files=outside(per_job(paths.external_run_files)),
        queries=per_job(paths.domain_tables, lang=query_lang, table="queries"),
        judged=per_job(paths.domain_tables, lang=corpus_lang, table="queries"),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
    wildcard_constraints:
        model=patterns["external runs"],
    params:
        entry=per_job(jobs.entry),
        domains=domains,
        prefix_ids=lambda wildcards: getattr(
            planned(wildcards).section, "prefix_ids", False
        ),
        top_k=settings.search.top_k,
        remove_identical_ids=per_job(jobs.remove_identical_ids),
