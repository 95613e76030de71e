# What rules of stages are made of, where they say nothing else.
# Jobs without a network, which are short, and those that making a benchmark waits for go first;
# then encodings and searches, the longest first; then what else runs a network.
rule on_cpu:
    log:
        "logs/on_cpu.log",  # never written: each rule names its own
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
