# What a stage's rule is made of where it says nothing else; each has a log of its own.
rule on_cpu:
    log:
        "logs/on_cpu.log",
    conda:
        "../../envs/cpu.yaml"
    resources:
        mem_mb=mib(4000, 25),
        runtime=minutes(60),
    script:
        "../scripts/stage.py"
