from psibench.config import parse_benchmark
from psibench.stages.build import run_build
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    section = dict(snakemake.params.section)
    section.pop("python", None)  # there to rerun under another interpreter
    length_tokenizer = section.pop("length_tokenizer")
    id_prefix = section.pop("id_prefix", "")
    run_build(
        parse_benchmark(section),
        length_tokenizer=length_tokenizer,
        corpus=snakemake.output.corpus,
        queries=snakemake.output.queries,
        qrels=snakemake.output.qrels,
        dropped=snakemake.output.dropped,
        id_prefix=id_prefix,
    )
