#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts and stops a Quorate server with the arguments, the output and the exit status of ZooKeeper's
# zkServer.sh, for scripts and containers that use it. On a machine with systemd, prefer `systemctl
# start zookeeper`.
#
#   zkServer.sh [--config DIR] {start|start-foreground|stop|version|restart|status|print-cmd} [CFG]
#
# CFG is the name of a file in the configuration directory, or a path. Variables: ZOOCFGDIR, ZOOCFG,
# ZOO_LOG_DIR, ZOOPIDFILE, SERVER_JVMFLAGS, JVMFLAGS, CLIENT_JVMFLAGS, ZOO_DATADIR_AUTOCREATE_DISABLE,
# ZOO_NOEXEC. Variables of the Java machine have no effect.
#
# If root starts a server, it runs as the owner of dataDir, who must be able to write ZOO_LOG_DIR and
# ZOOPIDFILE.

ZOOBINDIR=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=deploy/zookeeper/zkEnv.sh
. "$ZOOBINDIR/zkEnv.sh"

# The version of ZooKeeper whose clients and scripts this server takes, as `srvr` tells it.
readonly COMPATIBLE_VERSION=3.8.0-quorate

usage() {
  echo "Usage: $0 [--config <conf-dir>] {start|start-foreground|stop|version|restart|status|print-cmd}" >&2
}

if [[ -n ${2:-} ]]; then
  if [[ $2 == */* ]]; then ZOOCFG=$2; else ZOOCFG=$ZOOCFGDIR/$2; fi
fi

# ZooKeeper prints a line about JMX first, and scripts skip two lines.
echo "ZooKeeper JMX enabled by default" >&2
echo "Using config: $ZOOCFG" >&2

case "${1:-}" in
  start | start-foreground | stop | restart | status | print-cmd) can_read_config || exit 1 ;;
esac
data_dir=$(config_value "$ZOOCFG" dataDir)
log_dir=$(config_value "$ZOOCFG" dataLogDir)
pid_file=${ZOOPIDFILE:-$data_dir/zookeeper_server.pid}
output=$ZOO_LOG_DIR/zookeeper-${USER:-$(id -un)}-server-${HOSTNAME:-$(uname -n)}.out

# Ends the script if directories are missing that the administrator does not want to be created.
require_directories() {
  [[ -n ${ZOO_DATADIR_AUTOCREATE_DISABLE:-} ]] || return 0
  if [[ ! -d $data_dir ]]; then
    echo "ZooKeeper data directory is missing at $data_dir fix the path or run initialize"
    exit 1
  fi
  if [[ -n $log_dir && ! -d $log_dir ]]; then
    echo "ZooKeeper txnlog directory is missing at $log_dir fix the path or run initialize"
    exit 1
  fi
}

# Sets `server` to the command of the server, `user` to the user that it runs as, and `as_user` to a prefix
# for commands of that user. If root starts a server, it runs as the owner of the data directory: files of
# root's in there would keep the service from starting later.
server_command() {
  server=("$QUORATED" "$ZOOCFG")
  user=$(id -un)
  as_user=()
  local owner
  if [[ $(id -u) -eq 0 && -d $data_dir ]]; then
    owner=$(stat -c %U "$data_dir")
    if [[ $owner != root && $owner != UNKNOWN ]]; then
      user=$owner
      as_user=(setpriv "--reuid=$owner" "--regid=$(id -g "$owner")" --init-groups)
    fi
  fi
}

# Runs a command of the shell, with the arguments after it, as the user of the server. That user can put
# links into its directories, through which root would write, read or kill what is not the user's.
as_user() { # COMMAND ARGUMENT...
  "${as_user[@]}" bash -c "$1" zkServer.sh "${@:2}"
}

# Returns whether a process runs. One that has ended may not have been waited for.
is_running() { # PID
  kill -0 "$1" 2>/dev/null && ! grep -qs '^State:[[:space:]]*[ZX]' "/proc/$1/status"
}

# Prints the process that the pid file names, if it is one of the server's user.
server_pid() {
  local pid
  [[ -f $pid_file ]] || return 1
  # shellcheck disable=SC2016  # the inner shell has the arguments
  pid=$(as_user 'head -c 20 "$1"' "$pid_file" 2>/dev/null)
  [[ $pid =~ ^[1-9][0-9]*$ && $(stat -c %u "/proc/$pid" 2>/dev/null) == "$(id -u "$user")" ]] || return 1
  is_running "$pid" && echo "$pid"
}

# shellcheck disable=SC2016  # the inner shells have the arguments
start() {
  local pid
  echo -n "Starting zookeeper ... "
  server_command
  if pid=$(server_pid); then
    echo "already running as process $pid."
    exit 1
  fi
  if ! as_user 'mkdir -p "$(dirname "$1")" && : >>"$1"' "$pid_file"; then
    echo "FAILED TO WRITE PID"
    echo "zkServer.sh: user $user cannot write $pid_file; set ZOOPIDFILE to a path that it can write" >&2
    exit 1
  fi
  if ! as_user 'mkdir -p "$(dirname "$1")" && : >"$1"' "$output"; then
    echo "FAILED TO START"
    echo "zkServer.sh: user $user cannot write $output; give $ZOO_LOG_DIR to that user, or set ZOO_LOG_DIR" >&2
    exit 1
  fi
  # The shells execute the next program, so that this is the process of the server.
  "${as_user[@]}" bash -c 'exec nohup "${@:2}" >"$1" 2>&1 </dev/null' zkServer.sh "$output" "${server[@]}" &
  pid=$!
  if ! as_user 'echo -n "$2" >"$1"' "$pid_file" "$pid"; then
    as_user 'kill "$1"' "$pid"
    echo "FAILED TO WRITE PID"
    echo "zkServer.sh: user $user cannot write $pid_file; the server was stopped again" >&2
    exit 1
  fi
  # A server with a wrong configuration ends within this time.
  sleep 1
  if ! is_running "$pid"; then
    echo "FAILED TO START"
    exit 1
  fi
  echo "STARTED"
}

start_foreground() {
  server_command
  if [[ -n ${ZOO_NOEXEC:-} ]]; then
    "${as_user[@]}" "${server[@]}"
  else
    exec "${as_user[@]}" "${server[@]}"
  fi
}

# shellcheck disable=SC2016  # the inner shells have the arguments
stop() {
  echo -n "Stopping zookeeper ... "
  if [[ ! -f $pid_file ]]; then
    echo "no zookeeper to stop (could not find file $pid_file)"
    return
  fi
  local pid
  server_command
  if pid=$(server_pid); then
    as_user 'kill "$1"' "$pid"
    # As long as the service may take: a server that loads its data stops after that.
    for ((i = 0; i < 600; ++i)); do
      is_running "$pid" || break
      sleep 0.1
    done
    if is_running "$pid"; then
      echo "FAILED TO STOP"
      echo "zkServer.sh: process $pid has not ended within 60 seconds" >&2
      exit 1
    fi
  else
    echo "zkServer.sh: $pid_file names no running process of user $user" >&2
  fi
  as_user 'rm -f "$1"' "$pid_file" || echo "zkServer.sh: $pid_file could not be removed" >&2
  echo "STOPPED"
}

# Sets `port` and `address` from "[address:]port".
split_client_address() {
  port=${1##*:}
  if [[ $1 == *:* ]]; then
    address=${1%:*}
    address=${address#[}
    address=${address%]}
  fi
}

# Sets `port`, `address` and `is_ssl` of the port for clients. Ends the script if there is none.
find_client_port() {
  local my_id client="" dynamic
  is_ssl=false
  port=$(config_value "$ZOOCFG" clientPort)
  address=$(config_value "$ZOOCFG" clientPortAddress)
  if [[ ! $port =~ ^[0-9]+$ ]]; then
    port=""
    my_id=$(cat "$data_dir/myid" 2>/dev/null)
    if [[ ! $my_id =~ ^[0-9]+$ ]]; then
      echo "myid could not be determined, will not able to locate clientPort in the server configs."
    else
      client=$(config_value "$ZOOCFG" "server.$my_id")
      if [[ $client != *\;* ]]; then
        echo "Client port not found in static config file. Looking in dynamic config file."
        dynamic=$(config_value "$ZOOCFG" dynamicConfigFile)
        client=$(config_value "$dynamic" "server.$my_id")
      fi
      if [[ $client == *\;* ]]; then
        split_client_address "${client##*;}"
      else
        echo "Client port not found in the server configs"
      fi
    fi
  fi
  if [[ -z $port ]]; then
    echo "Client port not found. Looking for secureClientPort in the static config."
    port=$(config_value "$ZOOCFG" secureClientPort)
    address=$(config_value "$ZOOCFG" secureClientPortAddress)
    is_ssl=true
    if [[ -z $port ]]; then
      echo "Unable to find either secure or unsecure client port in any configs. Terminating."
      exit 1
    fi
  fi
  address=${address:-localhost}
}

# Prints the answer to srvr over TLS. A server that asks for certificates needs one: a PEM file that
# CLIENT_JVMFLAGS names as the key store.
srvr_with_tls() {
  local store
  local certificate=()
  store=$(sed -nE 's/.*-Dzookeeper\.ssl\.keyStore\.location=([^[:space:]]*\.pem).*/\1/p' <<<"${CLIENT_JVMFLAGS:-}")
  if [[ -n $store ]]; then certificate=(-cert "$store" -key "$store"); fi
  echo srvr | timeout 10 openssl s_client -quiet -connect "$address:$port" "${certificate[@]}" 2>/dev/null
}

# Prints the answer to srvr.
srvr() {
  if $is_ssl; then
    srvr_with_tls
  else
    # shellcheck disable=SC2016  # the inner shell has the arguments
    timeout 10 bash -c 'exec 3<>"/dev/tcp/$1/$2" && printf srvr >&3 && cat <&3' srvr "$address" "$port" 2>/dev/null
  fi
}

status() {
  local mode
  find_client_port
  echo "Client port found: $port. Client address: $address. Client SSL: $is_ssl."
  # 0.0.0.0 and :: are addresses to listen at.
  case "$address" in 0.0.0.0 | ::) address=localhost ;; esac
  if mode=$(srvr | grep Mode); then
    echo "$mode"
    exit 0
  fi
  if $is_ssl; then
    echo " "
    echo "Note: We used secureClientPort ($port) to establish connection, but we failed. If the server asks for a"
    echo "  certificate, name a PEM file: CLIENT_JVMFLAGS=\"-Dzookeeper.ssl.keyStore.location=/path/client.pem\""
    echo " "
  fi
  echo "Error contacting service. It is probably not running."
  exit 1
}

case "${1:-}" in
  start | start-foreground | restart) require_directories ;;
esac
case "${1:-}" in
  start) start ;;
  start-foreground) start_foreground ;;
  print-cmd)
    server_command
    server=("${as_user[@]}" "${server[@]}")
    echo "\"${server[*]}\" > \"$output\" 2>&1 < /dev/null"
    ;;
  stop) stop ;;
  restart)
    stop
    start
    ;;
  status) status ;;
  version)
    echo "Apache ZooKeeper, version $COMPATIBLE_VERSION"
    "$QUORATED" --version
    ;;
  *) usage ;;
esac
exit 0
