# Vectors and runs.


# Runs in the snakemake process, so that jobs need no internet. The files are in the hub's cache.
use rule on_cpu as download with:
    output:
        manifest=f"{settings.store}/checkpoints/{{checkpoint}}.json",
    log:
        "logs/download/{checkpoint}.log",
    benchmark:
        "benchmarks/download/{checkpoint}.tsv"
    wildcard_constraints:
        checkpoint=patterns["downloads"],
    localrule: True
    resources:
        **needs(1000, minutes=1440),
    params:
        repo=lambda w: plan.downloads[w.checkpoint].repo,
        revision=lambda w: plan.downloads[w.checkpoint].revision,
        part=lambda w: plan.downloads[w.checkpoint].part,
        stage=STAGES["download"],


# A job encodes all texts of a language, or a slice of them by their hash.
use rule on_gpu as encode with:
    input:
        corpora=tables("corpus"),
        queries=tables("queries"),
        checkpoint=outside(model_files),
    output:
        encodings="results/{benchmark}/encodings/{model}/{lang}{portion}.parquet",
    log:
        "logs/{benchmark}/encode/{model}/{lang}{portion}.log",
    benchmark:
        "benchmarks/{benchmark}/encode/{model}/{lang}{portion}.tsv"
    wildcard_constraints:
        model=patterns["encoded"],
    priority: encode_priority()
    resources:
        # Texts are read in blocks. Measured: 0.8 to 1.3 kB per text for ids, keys and the store's
        # index, 2.3 MB per MB of documents of 200 words. Weights saved in 16 bits take twice their
        # size.
        **needs(
            lambda w: jobs.encoder_mib(plan, w.model),
            5,
            minutes=lambda w: jobs.encode_minutes(plan, w.benchmark, w.model, w.lang),
        ),
        **on_device,
        tokens_per_batch=lambda w: jobs.tokens_per_batch(plan, w.model),
        tokens_per_part=settings.encoding.tokens_per_part,
        seconds_per_part=settings.encoding.seconds_per_part,
    params:
        content=content("encode", model_files),
        entry=entry,
        model_version=model_version,
        domains=domains,
        dtype=settings.encoding.dtype,
        storage=settings.encoding.storage,
        store=settings.store,
        stage=STAGES["encode"],


# Cuts documents into chunks first. A job of a slice takes whole documents.
use rule encode as encode_chunks with:
    input:
        corpora=tables("corpus"),
        queries=tables("queries"),
        checkpoint=outside(model_files),
        tokenizer=outside(length_tokenizer),
    log:
        "logs/{benchmark}/encode_chunks/{model}/{lang}{portion}.log",
    benchmark:
        "benchmarks/{benchmark}/encode_chunks/{model}/{lang}{portion}.tsv"
    wildcard_constraints:
        model=patterns["chunked"],
    params:
        content=content("encode_chunks", model_files, length_tokenizer),
        length_tokenizer=settings.length_tokenizer,
        stage=STAGES["encode_chunks"],


# Vectors of an embedding API: needs no GPU, but internet and a key.
use rule on_cpu as embed_api with:
    input:
        corpora=tables("corpus"),
        queries=tables("queries"),
        tokenizer=outside(model_files),
    output:
        encodings="results/{benchmark}/encodings/{model}/{lang}.parquet",
        usage="results/{benchmark}/encodings/{model}/{lang}.usage.parquet",
    log:
        "logs/{benchmark}/embed_api/{model}/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/embed_api/{model}/{lang}.tsv"
    wildcard_constraints:
        model=patterns["api"],
    resources:
        **needs(4000, 6, minutes=1440),
        budgeted_llm=lambda w: jobs.budgeted(plan, w.benchmark, model=w.model),
    params:
        content=content("embed_api", model_files),
        entry=entry,
        model_version=model_version,
        domains=domains,
        storage=settings.encoding.storage,
        store=settings.store,
        stage=STAGES["embed_api"],


use rule on_cpu as search_lexical with:
    input:
        corpora=tables("corpus", corpus_lang),
        queries=tables("queries", query_lang),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
    log:
        "logs/{benchmark}/search_lexical/{model}/{query_lang}/{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/search_lexical/{model}/{query_lang}/{corpus_lang}.tsv"
    wildcard_constraints:
        model=patterns["lexical"],
    resources:
        # One domain at a time. Measured: 33 MB per MB of its corpus.
        **needs(4000, 40, of=largest_share, minutes=240),
    params:
        entry=entry,
        model_version=model_version,
        domains=domains,
        top_k=settings.search.top_k,
        remove_identical_ids=remove_identical_ids,
        stage=STAGES["search_lexical"],


use rule on_gpu as search_vectors with:
    input:
        query_encodings=encodings(query_lang),
        corpus_encodings=encodings(corpus_lang),
        # The benchmark's texts, if the encodings belong to a view with more texts.
        own_queries=own_texts("queries", query_lang),
        own_corpus=own_texts("corpus", corpus_lang),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
    log:
        "logs/{benchmark}/search_vectors/{model}/{query_lang}/{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/search_vectors/{model}/{query_lang}/{corpus_lang}.tsv"
    wildcard_constraints:
        model=patterns["vector"],
    priority: encode_priority(corpus_lang)
    resources:
        # The store is read in blocks. Measured after start-up: 450 MB for 300,000 documents, 600 MB
        # for a million, plus up to two blocks; each top document takes 12 bytes.
        **needs(6000, 10, more=2 * settings.search.block_mib, minutes=240),
        block_mib=settings.search.block_mib,
        device=settings.search.device,
    params:
        entry=entry,
        model_version=model_version,
        domains=domains,
        top_k=settings.search.top_k,
        remove_identical_ids=remove_identical_ids,
        store=settings.store,
        stage=STAGES["search_vectors"],


# Searches the chunks of documents. `run` has the documents, each with the score of its best chunk.
use rule search_vectors as search_chunks with:
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
        chunks="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.chunks.parquet",
    log:
        "logs/{benchmark}/search_chunks/{model}/{query_lang}/{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/search_chunks/{model}/{query_lang}/{corpus_lang}.tsv"
    wildcard_constraints:
        model=patterns["chunked"],
    params:
        stage=STAGES["search_chunks"],


# Reranks the top documents of a first stage.
use rule on_gpu as rerank with:
    input:
        first_stage=lambda w: paths.first_stage(
            plan, w.benchmark, w.model, w.query_lang, w.corpus_lang
        ),
        corpora=tables("corpus", corpus_lang),
        queries=tables("queries", query_lang),
        judged=tables("queries", corpus_lang),
        checkpoint=outside(own_reranker_files),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
        # How much of each query's positive the reranker reads, which depends on the query.
        seen="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.seen.parquet",
    log:
        "logs/{benchmark}/rerank/{model}/{query_lang}/{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/rerank/{model}/{query_lang}/{corpus_lang}.tsv"
    wildcard_constraints:
        model=patterns["reranking"],
    resources:
        **needs(lambda w: jobs.scoring_mib(plan, own_reranker(w)), 20, minutes=1440),
        **on_device,
        tokens_per_batch=lambda w: jobs.scoring_tokens(plan, own_reranker(w)),
    params:
        content=content("rerank", own_reranker_files),
        entry=entry,
        reranker=lambda w: jobs.reranker_entry(plan, own_reranker(w)),
        domains=domains,
        store=settings.store,
        stage=STAGES["rerank"],


# Fuses the runs of several models.
use rule on_cpu as fuse with:
    input:
        runs=collect(
            "results/{{benchmark}}/runs/{model}/{{query_lang}}-{{corpus_lang}}.parquet",
            model=lambda w: plan.component_models(w.model, w.benchmark),
        ),
        encodings=lambda w: paths.fused_encodings(
            plan, w.benchmark, w.model, w.corpus_lang
        ),
        corpora=tables("corpus", corpus_lang),
        queries=tables("queries", query_lang),
        judged=tables("queries", corpus_lang),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
        # How much of each query's positive any of the models reads.
        seen="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.seen.parquet",
    log:
        "logs/{benchmark}/fuse/{model}/{query_lang}/{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/fuse/{model}/{query_lang}/{corpus_lang}.tsv"
    wildcard_constraints:
        model=patterns["fused"],
    params:
        entry=entry,
        domains=domains,
        reads_all=lambda w: paths.reads_all(plan, w.benchmark, w.model),
        top_k=settings.search.top_k,
        stage=STAGES["fuse"],


# Rankings of another system, from the user's files.
use rule on_cpu as import_run with:
    input:
        files=outside(external_run_files),
        queries=tables("queries", query_lang),
        judged=tables("queries", corpus_lang),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
    log:
        "logs/{benchmark}/import_run/{model}/{query_lang}/{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/import_run/{model}/{query_lang}/{corpus_lang}.tsv"
    wildcard_constraints:
        model=patterns["external runs"],
    params:
        content=content("import_run", external_run_files),
        entry=entry,
        domains=domains,
        prefix_ids=lambda w: getattr(planned(w).section, "prefix_ids", False),
        top_k=settings.search.top_k,
        remove_identical_ids=remove_identical_ids,
        stage=STAGES["import_run"],
