from psibench.encode.job import run_list_texts
from psibench.stages.job import job

with job(snakemake.log[0]):
    run_list_texts(snakemake.input.corpora, snakemake.input.queries, output=snakemake.output[0])
