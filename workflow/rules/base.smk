# What rules of stages are made of, where they say nothing else. `complete_rules` gives each of
# them its log, its benchmark and, where it names none, the stage of its own name.
# Jobs without a network go first: they are short. Of those with one go what making a benchmark
# waits for, then the longest.
rule on_cpu:
    priority: 1
    conda:
        "../../envs/cpu.yaml"
    resources:
        **needs(4000, 25),
    message:
        "{rule}: {output[0]}"
    script:
        "../scripts/stage.py"


use rule on_cpu as on_gpu with:
    priority: 0
    conda:
        "../../envs/gpu.yaml"
    threads: per_job(jobs.threads)
