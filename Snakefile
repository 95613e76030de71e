# Entry point for `snakemake` in this folder; the workflow is in workflow/.
include: "workflow/Snakefile"


workflow.default_target = "all"  # an included file cannot set it
