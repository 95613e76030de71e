from psibench.cluster.job import run_stage

run_stage(snakemake.params.stage, snakemake)
