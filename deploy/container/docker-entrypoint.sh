#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The entry point of the container: takes the variables of the official image of ZooKeeper, writes zoo.cfg
# and myid from them if there are none, and runs the command. As root with the command zkServer.sh, it
# goes on as the user zookeeper, who gets the directories of data and logs.
set -euo pipefail

conf=${ZOO_CONF_DIR:-/conf}
data=${ZOO_DATA_DIR:-/data}
log=${ZOO_DATA_LOG_DIR:-/datalog}
logs=${ZOO_LOG_DIR:-/logs}

if [[ ${1:-} == zkServer.sh && $(id -u) -eq 0 ]]; then
  chown -R zookeeper "$data" "$log" "$logs"
  exec setpriv --reuid=zookeeper --regid=zookeeper --init-groups "$0" "$@"
fi

# Prints the configuration that the variables describe.
configuration() {
  echo "dataDir=$data"
  echo "dataLogDir=$log"
  echo "tickTime=${ZOO_TICK_TIME:-2000}"
  echo "initLimit=${ZOO_INIT_LIMIT:-5}"
  echo "syncLimit=${ZOO_SYNC_LIMIT:-2}"
  echo "autopurge.snapRetainCount=${ZOO_AUTOPURGE_SNAPRETAINCOUNT:-3}"
  echo "autopurge.purgeInterval=${ZOO_AUTOPURGE_PURGEINTERVAL:-0}"
  echo "maxClientCnxns=${ZOO_MAX_CLIENT_CNXNS:-60}"
  echo "standaloneEnabled=${ZOO_STANDALONE_ENABLED:-true}"
  echo "admin.enableServer=${ZOO_ADMINSERVER_ENABLED:-true}"
  # zkCli.sh and quorate connect to this port, which only the container itself reaches.
  echo "grpcPort=2281"
  # The variables are lists of lines, separated by spaces.
  # shellcheck disable=SC2086
  printf '%s\n' ${ZOO_SERVERS:-server.1=localhost:2888:3888;2181}
  if [[ -n ${ZOO_4LW_COMMANDS_WHITELIST:-} ]]; then echo "4lw.commands.whitelist=$ZOO_4LW_COMMANDS_WHITELIST"; fi
  # shellcheck disable=SC2086
  if [[ -n ${ZOO_CFG_EXTRA:-} ]]; then printf '%s\n' $ZOO_CFG_EXTRA; fi
}

# A configuration that the user has mounted counts alone.
if [[ ! -f $conf/zoo.cfg ]]; then configuration >"$conf/zoo.cfg"; fi
if [[ ! -f $data/myid ]]; then echo "${ZOO_MY_ID:-1}" >"$data/myid"; fi

exec "$@"
