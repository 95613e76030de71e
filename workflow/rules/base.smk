# Base rules that the rules of stages inherit from.
# Priorities: first short jobs without a network, and jobs that the build of a benchmark waits for;
# then encodings and searches, the longest first; then other jobs with a network.
rule on_cpu:
    log:
        "logs/on_cpu.log",  # never written: each rule sets its log
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
    threads: threads
