# Probes: change texts at known positions and measure the change of their vectors. Target: `probes`.


rule probes:
    input:
        "results/probe_table.csv",
        "results/probes.html",
    localrule: True


use rule on_gpu as probe with:
    input:
        corpora=tables("corpus"),
        queries=probe_queries("queries"),
        qrels=probe_queries("qrels"),
        checkpoint=outside(model_files),
        tokenizer=outside(length_tokenizer),
        earlier=lambda w: ancient(
            paths.probe_encodings(plan, w.benchmark, w.model, w.lang, w.probe)
        ),
    output:
        rows="results/probes/{probe}/{benchmark}/{model}/{lang}.parquet",
        table="results/probes/{probe}/{benchmark}/{model}/{lang}.summary.parquet",
    log:
        "logs/{benchmark}/probe/{probe}/{model}/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/probe/{probe}/{model}/{lang}.tsv"
    wildcard_constraints:
        model=patterns["encoded"],
    resources:
        # A searched corpus is held in memory.
        **needs(0, 6, minutes=240, more=lambda w: jobs.encoder_mib(plan, w.model)),
        **on_device,
        tokens_per_batch=lambda w: jobs.tokens_per_batch(plan, w.model),
        tokens_per_part=settings.encoding.tokens_per_part,
        seconds_per_part=settings.encoding.seconds_per_part,
    params:
        content=content("probe", model_files, length_tokenizer),
        entry=entry,
        model_version=model_version,
        domains=domains,
        probes=lambda w: settings.probes.of(w.probe),
        length_tokenizer=settings.length_tokenizer,
        level=settings.uncertainty.level,
        dtype=settings.encoding.dtype,
        storage=settings.encoding.storage,
        store=settings.store,
        stage=STAGES["probe"],


use rule on_cpu as probe_table with:
    input:
        tables=[rules.probe.output.table.format(**one) for one in plan.probed],
    output:
        parquet="results/probe_table.parquet",
        csv=in_report("results/probe_table.csv"),
    log:
        "logs/probe_table.log",
    benchmark:
        "benchmarks/probe_table.tsv"
    params:
        stage=STAGES["probe_table"],


use rule on_cpu as probe_page with:
    input:
        table=rules.probe_table.output.parquet,
        psi=paths.probe_psi(plan),
    output:
        html=in_report("results/probes.html"),
    log:
        "logs/probe_page.log",
    benchmark:
        "benchmarks/probe_page.tsv"
    params:
        beside=probe_figures(compared),
        run_title=settings.report.title,
        notice=settings.notice,
        stage=STAGES["probe_page"],
