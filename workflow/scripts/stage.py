from psibench.importing import importing

with importing():
    from psibench.cluster.job import run_stage

if __name__ == "__main__":  # not in the processes that a stage starts
    run_stage(snakemake.params.stage, snakemake)
