"""The configuration files of a SLURM of one node, for tests.

Keys and their meaning: the manual pages slurm.conf(5) and gres.conf(5) of SLURM 22.05.
"""

from dataclasses import dataclass
from pathlib import Path

CREDENTIAL_SECONDS = 10  # delay before a requeued job starts again; SLURM's default is 120
KILL_WAIT_SECONDS = 10  # from SIGTERM to SIGKILL at a limit
SAMPLING_SECONDS = 1  # interval of memory measurements

SLURM_CONF = """\
ClusterName=psibench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire={credential_seconds}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
# No cgroups: a job is its process groups, and its memory is sampled.
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task={sampling_seconds}
JobAcctGatherParams=OverMemoryKill,UsePss
AccountingStorageType=accounting_storage/none
# CPUs may exceed the machine's, so that small jobs overlap while they wait.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=bf_interval=5,sched_min_interval=500000,batch_sched_delay=1
EnforcePartLimits=ALL
DefMemPerCPU=1000
MinJobAge=20000
KillWait={kill_wait_seconds}
OverTimeLimit=0
JobRequeue=1
ReturnToService=2
MpiDefault=none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory_mib} Gres=gpu:1 State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=24:00:00 PriorityTier=10 PreemptMode=OFF State=UP
PartitionName=gpu Nodes={host} MaxTime=24:00:00 PriorityTier=10 PreemptMode=OFF State=UP
# Only jobs of urgent preempt jobs of spare.
PartitionName=spare Nodes={host} MaxTime=24:00:00 PriorityTier=10 State=UP
PartitionName=urgent Nodes={host} MaxTime=24:00:00 PriorityTier=20 PreemptMode=OFF State=UP
"""

GRES_CONF = "NodeName={host} Name=gpu Count=1 File=/dev/null\n"


@dataclass(frozen=True)
class NodeShape:
    """Resources of the node and ports of its daemons.

    Attributes
    ----------
    host
        The machine's short host name.
    cpus, memory_mib
        Resources that SLURM may allocate; ``cpus`` may exceed the machine's.
    controller_port, node_port
        Free TCP ports.
    """

    host: str
    cpus: int
    memory_mib: int
    controller_port: int
    node_port: int


def write_files(folder: Path, shape: NodeShape) -> None:
    """Write slurm.conf and gres.conf into ``folder``, and make the folders that they use."""
    values = vars(shape) | {
        "folder": folder,
        "credential_seconds": CREDENTIAL_SECONDS,
        "kill_wait_seconds": KILL_WAIT_SECONDS,
        "sampling_seconds": SAMPLING_SECONDS,
    }
    for name in ("state", "spool"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "slurm.conf").write_text(SLURM_CONF.format(**values))
    (folder / "gres.conf").write_text(GRES_CONF.format(**values))
