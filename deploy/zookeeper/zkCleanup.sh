#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Takes the arguments of ZooKeeper's zkCleanup.sh, for the cron jobs that run it, and removes nothing: a
# Quorate server removes old files of its log and old checkpoints by itself.
#
#   zkCleanup.sh -n COUNT      COUNT: 3 or more

ZOOBINDIR=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=deploy/zookeeper/zkEnv.sh
. "$ZOOBINDIR/zkEnv.sh"

if [[ $# -ne 2 || $1 != -n || ! $2 =~ ^[0-9]+$ ]]; then
  echo "Usage: $0 -n count" >&2
  echo "	count -- number of old snaps/logs you want to keep, value should be greater than or equal to 3" >&2
  exit 1
fi
if [[ $2 -lt 3 ]]; then
  echo "count should be greater than or equal to 3" >&2
  exit 1
fi
echo "Nothing to do: the server removes its old files by itself ($(config_value "$ZOOCFG" dataDir))"
