#!/bin/bash
# in_local_slurm.sh COMMAND...: starts a Slurm of one node on the loopback, runs COMMAND, which submits jobs, and waits for
# the jobs. Exit code 77: Slurm could not start; stderr says why.
# shellcheck disable=SC2317 # functions are called by name, and by trap
set -u
work=$(mktemp -d "${TMPDIR:-/tmp}/slurm.XXXXXX")
mkdir "$work"/{munge,ctld,node,cgroup}
chmod 755 "$work"
host=$(hostname -s)
daemons=()
finish() {
  for ((i = ${#daemons[@]} - 1; i >= 0; i--)); do kill "${daemons[i]}" 2>/dev/null; done
  wait 2>/dev/null
  rm -rf "$work"
}
trap finish EXIT
head -c 1024 /dev/urandom >"$work/munge.key"
chmod 400 "$work/munge.key"
chown -R munge: "$work/munge" "$work/munge.key"
cat >"$work/slurm.conf" <<END
ClusterName=local
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
SlurmctldPort=16827
SlurmdPort=16828
SlurmctldPidFile=$work/ctld/pid
SlurmdPidFile=$work/node/pid
StateSaveLocation=$work/ctld
SlurmdSpoolDir=$work/node
SlurmctldLogFile=$work/ctld/log
SlurmdLogFile=$work/node/log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=2000 State=UNKNOWN
PartitionName=local Nodes=$host Default=YES MaxTime=INFINITE State=UP
END
printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nCgroupMountpoint=%s\n' "$work/cgroup" >"$work/cgroup.conf"
export SLURM_CONF=$work/slurm.conf

# until_true COMMAND...: repeats COMMAND until it succeeds, for at most 20 s.
until_true() {
  for ((i = 0; i < 200; i++)); do
    "$@" && return
    sleep 0.1
  done
  return 1
}
idle() { [[ $(sinfo -h -o %T 2>/dev/null) == *idle* ]]; }
no_jobs() { [[ -z $(squeue -h 2>/dev/null) ]]; }

runuser -u munge -- munged -F --key-file="$work/munge.key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
  --log-file="$work/munge/log" --seed-file="$work/munge/seed" 2>/dev/null &
daemons+=($!)
until_true test -S "$work/munge/socket"
slurmctld -D -i -c 2>/dev/null &
daemons+=($!)
until_true grep -q 'Running as primary' "$work/ctld/log" 2>/dev/null
slurmd -D 2>/dev/null &
daemons+=($!)
until_true idle || {
  echo "the node did not come up: $(tail -n 1 "$work/node/log" "$work/ctld/log" 2>/dev/null | tr '\n' ' ')" >&2
  exit 77
}
"$@" || exit
for ((k = 0; k < 30; k++)); do until_true no_jobs && exit 0; done
echo "the jobs did not end" >&2
exit 1
