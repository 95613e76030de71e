# For `snakemake` in this folder; the workflow is in workflow/.
include: "workflow/Snakefile"


workflow.default_target = "all"  # of what is included Snakemake forgets it
