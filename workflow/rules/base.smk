# What rules of stages are made of, where they say nothing else. `complete_rules` gives each of
# them its log, its benchmark and, where it names none, the stage of its own name.
rule on_cpu:
    conda:
        "../../envs/cpu.yaml"
    resources:
        **needs(4000, 25),
    message:
        "{rule}: {output[0]}"
    script:
        "../scripts/stage.py"


use rule on_cpu as on_gpu with:
    conda:
        "../../envs/gpu.yaml"
    threads: per_job(jobs.threads)
