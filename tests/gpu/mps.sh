# The cards that ranks share, and a daemon of MPS for the script that sources this, so that several ranks share one side by side.

# see_cards   Sets `cards`, how many there are, and CUDA_VISIBLE_DEVICES: all, unless it says which.
see_cards() {
    local bin=${AIRAMP_BIN:-$(dirname "${BASH_SOURCE[0]}")/../../target/release}
    if [ -z "${CUDA_VISIBLE_DEVICES:-}" ]; then
        cards=$("$bin/airamp-rank" probe --json 2>/dev/null | grep -o '"arch":"' | wc -l)
        CUDA_VISIBLE_DEVICES=$(seq -s, 0 $((cards > 1 ? cards - 1 : 0)))
    fi
    export CUDA_VISIBLE_DEVICES
    cards=$(echo "$CUDA_VISIBLE_DEVICES" | tr ',' '\n' | grep -c .)
}

# start_mps FOLDER [RANKS]   FOLDER: short, since a Unix socket's path has to fit into 108 bytes. Sets `mps` to yes or no: `no` where so
#                            many ranks (default 8) have a card each, or where there is no MPS: then the ranks take turns, and
#                            everything is slower, but still right.
start_mps() {
    mps=no
    see_cards
    [ "$cards" -lt "${2:-8}" ] || return 0
    mkdir -p "$1/mps" "$1/mps-log"
    export CUDA_MPS_PIPE_DIRECTORY=$1/mps CUDA_MPS_LOG_DIRECTORY=$1/mps-log
    if nvidia-cuda-mps-control -d </dev/null >/dev/null 2>&1; then
        mps=yes named=$CUDA_VISIBLE_DEVICES
        export MPS_CARDS=$named
        # Its clients number the cards that it was given from 0 on.
        CUDA_VISIBLE_DEVICES=$(seq -s, 0 $((cards - 1)))
    else
        echo "no MPS: the ranks take turns; $(tail -qn 2 "$1"/mps-log/*.log 2>/dev/null | cut -c -200)" >&2
        unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
    fi
}

# Ends the daemon and its servers, also those that a killed rank has left wedged, so that another can be started: at most 15 s.
quit_mps() {
    local pid one servers
    [ "${mps:-no}" = yes ] || return 0
    pid=$(cat "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid" 2>/dev/null)
    servers=$([ -z "$pid" ] || grep -ls "^PPid:[[:space:]]*$pid\$" /proc/[0-9]*/status | cut -d/ -f3)
    echo quit | timeout -s KILL 10 nvidia-cuda-mps-control >/dev/null 2>&1
    # The daemon that we started, and only if it did not heed.
    if is_mps $pid; then kill "$pid" 2>/dev/null; fi
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        is_mps $pid $servers || break
        sleep 0.3
    done
    for one in $pid $servers; do ! is_mps "$one" || kill -KILL "$one" 2>/dev/null; done
    mps=no
    export CUDA_VISIBLE_DEVICES=$named
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY MPS_CARDS
}

# For who runs under with_mps, after ranks were killed: another daemon in the place of that one, whose server may be wedged. It is that
# script's, as the one before was.
renew_mps() {
    local pipe=${CUDA_MPS_PIPE_DIRECTORY:-} log=${CUDA_MPS_LOG_DIRECTORY:-}
    [ -n "$pipe" ] && [ -n "${MPS_CARDS:-}" ] || return 0
    mps=yes named=$MPS_CARDS
    quit_mps
    for _ in 1 2 3 4 5; do
        ! CUDA_MPS_PIPE_DIRECTORY=$pipe CUDA_MPS_LOG_DIRECTORY=$log nvidia-cuda-mps-control -d </dev/null >/dev/null 2>&1 || return 0
        sleep 1
    done
    echo "no fresh MPS: the ranks take turns, or fail" >&2
    return 1
}

# is_mps PID…: whether one of them is still a program of MPS, as a number may be another's by now; one that has ended and nobody
# asks after is none.
is_mps() {
    local pid
    for pid in "$@"; do
        ! grep -qs '^State:[[:space:]]*[^[:space:]Z]' "/proc/$pid/status" || [ "$(cat "/proc/$pid/comm")" != nvidia-cuda-mps ] || return 0
    done
    return 1
}

# To be called first in the trap of EXIT: from here on no signal ends the script, since a second one (`timeout` sends them to
# its child and then to the whole group) would leave the daemon behind. Whoever starts such a script waits for this as long.
end_mps() {
    # Children ignore those signals too.
    trap '' TERM INT HUP
    quit_mps
}
