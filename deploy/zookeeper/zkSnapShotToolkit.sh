#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shows a tree, with the arguments and the exit status of ZooKeeper's zkSnapShotToolkit.sh.
#
#   zkSnapShotToolkit.sh [-d|-json] FILE
#
# FILE is the dataDir of a stopped server, a backup, or a snapshot of ZooKeeper (version-2/snapshot.X).
# The output is that of `quorate snapshot dump`. Exit status: 2 for wrong arguments, 1 if FILE cannot be
# read.

ZOOBINDIR=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=deploy/zookeeper/zkEnv.sh
. "$ZOOBINDIR/zkEnv.sh"

json=()
case "${1:-}" in
  -d) shift ;; # the output has the data in any case
  -json)
    json=(--json)
    shift
    ;;
esac
if [[ $# -ne 1 || $1 == -* ]]; then
  echo "USAGE: $0 [-d|-json] snapshot_file" >&2
  exit 2
fi
if [[ ! -e $1 ]]; then
  echo "$1: there is no such file" >&2
  exit 1
fi

source=$1
# A snapshot of ZooKeeper, which may be compressed, is imported into a directory of its own first.
case "$(basename "$1")" in
  snapshot.*)
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$work/zookeeper/version-2"
    cp "$1" "$work/zookeeper/version-2/"
    "$QUORATE" import --zookeeper-data "$work/zookeeper" --data-dir "$work/member" --member 1 --members 1 \
      >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
    source=$work/member
    ;;
esac
"$QUORATE" "${json[@]}" snapshot dump "$source" || exit 1
