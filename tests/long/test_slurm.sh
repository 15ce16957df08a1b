#!/usr/bin/env bash
# A real Slurm on this machine: a controller and four slurmd, all of their own folder. srun starts the ranks of a plan on two nodes, with the
# losses of ranks that paradl starts by itself, and sbatch runs the script that plan --export slurm writes. Needs root and slurm-wlm, munge.
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

[ "$(id -u)" = 0 ] || { echo "skipped: daemons of Slurm need root"; exit 77; }
for tool in slurmctld slurmd srun sbatch munged; do
    command -v "$tool" >/dev/null || { echo "skipped: there is no $tool"; exit 77; }
done

here=$PWD
stop() {
    for file in "$here"/slurmd-n*.pid "$here/slurmctld.pid" "$here/munged.pid"; do
        [ ! -e "$file" ] || kill "$(cat "$file")" 2>/dev/null || true
    done
    sleep 1
}
trap stop EXIT
export SLURM_CONF=$here/slurm.conf
mkdir state
head -c 1024 /dev/urandom >munge.key
chmod 400 munge.key
munged --force --key-file="$here/munge.key" --socket="$here/munge.sock" --pid-file="$here/munged.pid" \
    --log-file="$here/munged.log" --seed-file="$here/munge.seed"
host=$(hostname)
cat >slurm.conf <<CONF
ClusterName=paradl
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=17817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$here/munge.sock
CredType=cred/munge
StateSaveLocation=$here/state
SlurmdSpoolDir=$here/spool-%n
SlurmctldPidFile=$here/slurmctld.pid
SlurmdPidFile=$here/slurmd-%n.pid
SlurmctldLogFile=$here/slurmctld.log
SlurmdLogFile=$here/slurmd-%n.log
TmpFS=$here/tmp-%n
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=pmix
SlurmdParameters=config_overrides
NodeName=n[0-3] NodeHostname=$host NodeAddr=127.0.0.1 Port=17820-17823 CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
srun --mpi=list 2>&1 | grep -q pmix || { echo "skipped: this Slurm has no pmix"; exit 77; }
slurmctld -f "$here/slurm.conf"
for node in n0 n1 n2 n3; do
    mkdir "spool-$node" "tmp-$node"
    SLURM_PMIX_TMPDIR="$here/tmp-$node" slurmd -N "$node" -f "$here/slurm.conf"
done
for _ in $(seq 30); do
    [ "$(sinfo -h -t idle -o %D)" != 4 ] || break
    sleep 1
done
[ "$(sinfo -h -t idle -o %D)" = 4 ] || fail "the nodes did not come up: $(tail -3 slurmctld.log)"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
PATH=$(dirname "$PARADL"):$PATH
plan=(plan --model lenet --system local --devices 2 --strategy data --batch 64 --data mnist)
train=(train plan.yaml --data synthetic --samples 1024 --epochs 2 --quiet)
losses() { python3 -c 'import json, sys; print([r["loss"] for r in map(json.loads, open(sys.argv[1])) if "loss" in r and "epoch" in r])' "$1"; }
"$PARADL" "${plan[@]}" -o plan.yaml >out 2>err || fail "plan: $(cat err)"
timeout 300 srun -N 2 -n 2 "$PARADL" "${train[@]}" --log slurm.jsonl >out 2>err || fail "srun: $(tail -3 err out)"
timeout 300 "$PARADL" "${train[@]}" --log alone.jsonl >out 2>err || fail "train: $(tail -3 err out)"
[ "$(losses slurm.jsonl)" != "[]" ] || fail "no losses in the log"
[ "$(losses slurm.jsonl)" = "$(losses alone.jsonl)" ] || fail "srun gives other losses: $(losses slurm.jsonl), $(losses alone.jsonl)"
echo "ok   srun on two nodes, the same losses as of ranks that train starts"

"$PARADL" "${plan[@]}" --export slurm -o job >out 2>err || fail "export: $(cat err)"
# The data set of the plan is not on this machine: made-up samples of its shape.
sed -i 's/train plan.yaml/train plan.yaml --data synthetic --samples 1024/' job/job.slurm
(cd job && timeout 300 sbatch --wait -o job.out job.slurm >/dev/null) || fail "sbatch: $(tail -3 job/job.out)"
grep -q '"loss"' job/run.jsonl || fail "the job wrote no log: $(tail -3 job/job.out)"
echo "ok   sbatch of the exported script"
finish
