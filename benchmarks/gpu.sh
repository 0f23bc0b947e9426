#!/usr/bin/env bash
# All that is to be known from one card, in one go of less than nine minutes.
#
#   python -m benchmarks.pack          beforehand, where there are a package index and the data
#   bash benchmarks/gpu.sh [--dry]     on a machine with CUDA's torch, torchvision and transformers
#
# In this order, most valuable first, each part with a time limit of its own:
#
#   1  on-device.json         signals, recurrent students, autocast, alignments: card against CPU
#   2  gar-overhead.json      WRN-28-10: rewards beside direct meta-gradients, 1 to 3 seeds
#   3  cost.json              time and memory of hypergradients and rewards, and of peers
#   4  gar-splits.json        which part to draw from, 1 to 3 seeds
#
# What has been found is written as it is found, below $OUT, or else results/gpu (with --dry, which
# runs the same at its smallest on the CPU, runs/gpu-dry). A part that fails or takes too long is
# told and passed over. The exit code is the number of such parts.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dry=${1:-}
packed=benchmarks/packed
python=${PYTHON:-python3}
began=$SECONDS failed=0

if [ "$dry" = --dry ]; then
    out=${OUT:-runs/gpu-dry} device=cpu scale=smoke rounds=1
    students=(linear "two-way GRU") cases=("reward, transformer" "adam, 3 steps") most=1
    export BENCHMARK_SIZE=small
else
    out=${OUT:-results/gpu} device=cuda scale=gpu rounds=9
    students=() cases=() most=3
fi
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# tests/ has no __init__.py, so that any other package of that name would come before it
mkdir -p "$work/site/tests"
cp tests/cases.py "$work/site/tests/" && : > "$work/site/tests/__init__.py"
export PYTHONPATH="$work/site:$PWD/src:$PWD" PYTHONWARNINGS=ignore PYTHONUNBUFFERED=1
export XDG_CACHE_HOME="$work/cache"
[ -d "$packed/data" ] && export TUTELAGE_DATA="$PWD/$packed/data"

# part NAME SECONDS COMMAND...
part() {
    local name=$1 limit=$2 from=$SECONDS code
    shift 2
    echo "== $name (at ${SECONDS} s, at most $limit s)"
    timeout --signal=INT --kill-after=5 "$limit" "$@"
    code=$?
    [ $code -eq 0 ] || { failed=$((failed + 1)); echo "== $name: FAILED with $code"; }
    echo "== $name: $((SECONDS - from)) s"
    return $code
}

# recipe NAME UNTIL JOBS: more seeds while there is time; jobs done stay done
recipe() {
    local name=$1 until=$2 jobs=$3 seeds left
    for seeds in $(seq $most); do
        left=$((until - (SECONDS - began)))
        [ $left -gt 10 ] || { echo "== $name: no time for $seeds seeds"; return; }
        part "$name, $seeds seeds" $left "$python" -m papers reproduce "$name" \
            --scale $scale --seeds $seeds --jobs "$jobs" --device $device --out "$work/out" \
            || return
        cp "$work/out/results/$scale/$name".* "$out/"
    done
}

part packed 30 "$python" -m benchmarks.unpack "$packed/wheels" "$work/site"
part on-device 110 "$python" -m benchmarks.on_device --device $device \
    --out "$out/on-device.json" ${students[@]:+--students "${students[@]}"}
recipe gar-overhead 230 1
part cost 140 "$python" -m benchmarks.cost_on_device --device $device --rounds $rounds \
    --out "$out/cost.json" ${cases[@]:+--cases "${cases[@]}"}
if [ -n "${TUTELAGE_DATA:-}" ]; then recipe gar-splits 525 3; else echo "== gar-splits: no data"; fi
echo "== $failed parts failed; $((SECONDS - began)) s; in $out:"
ls -l "$out"
exit $failed
