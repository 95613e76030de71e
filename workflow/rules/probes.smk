# Probes: texts changed at known places, what becomes of their vectors. `make probes`.
probed = "results/probes/{probe}/{benchmark}/{model}/{lang}"
compared_probes = paths.compared_probes(plan)


rule probes:
    input:
        "results/probe_table.csv",
        "results/probes.html",
        ["results/probe_comparison.csv"] if compared_probes else [],
    localrule: True


use rule on_gpu as probe with:
    input:
        corpora=per_job(paths.domain_tables, table="corpus"),
        queries=per_job(paths.probe_queries, table="queries"),
        qrels=per_job(paths.probe_queries, table="qrels"),
        checkpoint=outside(per_job(paths.model_inputs)),
        tokenizer=outside(per_job(paths.tokenizer_inputs)),
        earlier=lambda wildcards: ancient(encoded_before_probe(wildcards)),
    output:
        rows="results/probes/{probe}/{benchmark}/{model}/{lang}.parquet",
        table="results/probes/{probe}/{benchmark}/{model}/{lang}.summary.parquet",
    wildcard_constraints:
        model=patterns["encoded"],
    resources:
        # The texts of a searched corpus are in memory.
        **needs(0, 6, minutes=240, more=per_job(jobs.encoder_mib)),
        **on_device,
        tokens_per_batch=per_job(jobs.tokens_per_batch),
        tokens_per_part=settings.encoding.tokens_per_part,
        seconds_per_part=settings.encoding.seconds_per_part,
    params:
        entry=per_job(jobs.entry),
        model_version=per_job(jobs.model_version),
        domains=domains,
        probes=lambda wildcards: settings.probes.of(wildcards.probe),
        length_tokenizer=settings.length_tokenizer,
        level=settings.uncertainty.level,
        dtype=settings.encoding.dtype,
        storage=settings.encoding.storage,
        store=settings.store,
        stage=STAGES["probe"],


# Texts that a service is asked about: no GPU, but a network and a key.
use rule probe as probe_api with:
    wildcard_constraints:
        model=patterns["api"],
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        **needs(4000, 6, minutes=1440),
        budgeted_llm=per_job(jobs.budgeted),


use rule on_cpu as probe_table with:
    input:
        tables=[f"{probed}.summary.parquet".format(**one) for one in plan.probed],
    output:
        parquet="results/probe_table.parquet",
        csv=in_report("results/probe_table.csv"),


# Two models on the same documents: before and after training.
use rule on_cpu as probe_comparison with:
    input:
        rows=[f"{probed}.parquet".format(**one) for one in compared_probes],
        others=[
            f"{probed}.parquet".format(**one | {"model": one["other"]})
            for one in compared_probes
        ],
    output:
        parquet="results/probe_comparison.parquet",
        csv="results/probe_comparison.csv",
    params:
        compared=compared_probes,
        level=settings.uncertainty.level,


use rule on_cpu as probe_page with:
    input:
        table="results/probe_table.parquet",
        psi=paths.probe_psi(plan),
    output:
        html=in_report("results/probes.html"),
    params:
        beside=probe_figures(compared),
        run_title=settings.report.title,
        notice=settings.notice,
