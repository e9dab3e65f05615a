#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shows or checks the log of a stopped server, with the arguments of ZooKeeper's zkTxnLogToolkit.sh.
#
#   zkTxnLogToolkit.sh [-d] [-v] [-h] DIRECTORY
#
# DIRECTORY is the dataDir (or dataLogDir) of the server. The output is that of `quorate log dump`; it has
# the data of znodes with -v. Damaged logs are not repaired here (-r), nor cut (-c): "quorate rebuild"
# lets the other servers send the data again. Exit status: 1 for wrong arguments, 2 if the log cannot be
# read.

ZOOBINDIR=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=deploy/zookeeper/zkEnv.sh
. "$ZOOBINDIR/zkEnv.sh"

usage() {
  echo "usage: TxnLogToolkit [-dhv] txn_log_file_name"
  echo " -d,--dump      Dump mode. Dump all entries of the log file. (this is the default)"
  echo " -h,--help      Print help message"
  echo " -v,--verbose   Be verbose in recovery mode, print all entries, not just fixed ones."
}

data=()
while [[ ${1:-} == -* ]]; do
  case "$1" in
    -d | --dump) ;;
    -v | --verbose) data=(--data) ;;
    -h | --help)
      usage
      exit 0
      ;;
    -r | --recover | -y | --yes | -c | --chop | -z | --zxid)
      echo "$1: the log of a Quorate server is not changed by this tool; see \"quorate help rebuild\"" >&2
      exit 1
      ;;
    *)
      usage
      exit 1
      ;;
  esac
  shift
done
if [[ $# -ne 1 ]]; then
  usage
  exit 1
fi
if [[ -f $1 && $(head -c 4 "$1") == ZKLG ]]; then
  echo "$1 is a log of ZooKeeper's, which this tool does not read; \"quorate import --check\" checks it" >&2
  exit 2
fi
"$QUORATE" log dump "${data[@]}" "$1" || exit 2
