#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the shell of `quorate` with the arguments of ZooKeeper's zkCli.sh.
#
#   zkCli.sh [-server HOST:PORT[,HOST:PORT...][/CHROOT]] [-timeout MS] [-r] [-waitforconnection]
#            [-client-configuration FILE] [COMMAND [ARGUMENT...]]
#
# The exit status is 0, or 1 if the command failed. HOST:PORT is the address for ZooKeeper's clients,
# but this shell speaks gRPC. It finds the gRPC port of a server in this order: the variable
# ZK_GRPC_PORT; grpcPort in the configuration of this machine, if its clientPort is PORT; PORT + 100.
# QUORATE_TLS, QUORATE_CA, QUORATE_CERT and QUORATE_KEY switch TLS on ("quorate --help").

ZOOBINDIR=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=deploy/zookeeper/zkEnv.sh
. "$ZOOBINDIR/zkEnv.sh"

servers=localhost:2181
options=()

usage_error() {
  echo "zkCli.sh: $1" >&2
  exit 1
}

while [[ ${1:-} == -* ]]; do
  case "$1" in
    -server | -timeout | -client-configuration)
      [[ $# -gt 1 ]] || usage_error "$1 needs a value"
      case "$1" in
        -server) servers=$2 ;;
        -timeout)
          [[ $2 =~ ^[0-9]+$ ]] || usage_error "-timeout needs a number of milliseconds, not $2"
          # Whole seconds, rounded up.
          options+=(--session-timeout "$((($2 + 999) / 1000))")
          ;;
        *) echo "zkCli.sh: -client-configuration has no effect; use QUORATE_CA, QUORATE_CERT and QUORATE_KEY" >&2 ;;
      esac
      shift 2
      ;;
    # The shell always waits for a connection. A server without a quorum answers nobody by gRPC.
    -waitforconnection | -r) shift ;;
    *) usage_error "unknown option $1" ;;
  esac
done

# Prints the gRPC port of the server with this port for clients.
grpc_port() {
  local configured
  if [[ -n ${ZK_GRPC_PORT:-} ]]; then
    echo "$ZK_GRPC_PORT"
    return
  fi
  configured=$(config_value "$ZOOCFG" grpcPort)
  if [[ $configured =~ ^[1-9][0-9]*$ && $(config_value "$ZOOCFG" clientPort) == "$1" ]]; then
    echo "$configured"
  else
    echo $(($1 + 100))
  fi
}

# Without the file, the default for the port may do.
if [[ -z ${ZK_GRPC_PORT:-} ]] && ! can_read_config; then
  echo "zkCli.sh: the port for gRPC is taken to be clientPort + 100; ZK_GRPC_PORT names another" >&2
fi
chroot=""
if [[ $servers == */* ]]; then chroot=/${servers#*/}; fi
grpc_servers=""
IFS=, read -ra addresses <<<"${servers%%/*}"
for address in "${addresses[@]}"; do
  port=2181
  host=$address
  if [[ $address =~ ^(.*):([0-9]+)$ ]]; then
    host=${BASH_REMATCH[1]}
    port=${BASH_REMATCH[2]}
  fi
  grpc_servers+=${grpc_servers:+,}$host:$(grpc_port "$port")
done

# With TLS on the gRPC port of this machine's server, the server's trust store has the authority, if it is a file of
# PEM.
authority=$(config_value "$ZOOCFG" ssl.trustStore.location)
if [[ -z ${QUORATE_CA:-} && -r $authority && $(config_value "$ZOOCFG" grpcTls) == true ]] &&
  grep -q 'BEGIN CERTIFICATE' "$authority"; then
  export QUORATE_CA=$authority
fi

echo "Connecting to $servers"
if [[ $# -eq 0 ]]; then exec "$QUORATE" --server "$grpc_servers$chroot" shell "${options[@]}"; fi
"$QUORATE" --server "$grpc_servers$chroot" shell "${options[@]}" -- "$@" || exit 1
