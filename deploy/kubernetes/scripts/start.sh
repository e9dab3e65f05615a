#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes the configuration and the number of this pod's member, and becomes its server (pod.sh has the
# variables).
#
# The server.N lines depend on the ordinal alone, and not on how many replicas there are now: a server with
# data whose members were never changed only starts with the lines that it was created with. The first pods
# name each other. A later one names all before it and itself, and waits until members.sh admits it.
set -euo pipefail

# shellcheck source=deploy/kubernetes/scripts/pod.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/pod.sh"

umask 077
number=$(own_number)
keys=$POD_CONF/keys

# Copies a file for the server's user alone: those in volumes of secrets can be read by a group. Files
# that have not changed are left.
copy_private() { # TARGET SOURCE...
  local target=$1
  shift
  cat "$@" >"$target.new"
  if cmp -s "$target.new" "$target"; then rm "$target.new"; else mv "$target.new" "$target"; fi
}

copy_keys() {
  copy_private "$keys/server.pem" "$POD_TLS/tls.crt" "$POD_TLS/tls.key"
  copy_private "$keys/ca.pem" "$POD_TLS/ca.crt"
}

configuration() {
  local member count=$POD_INITIAL_MEMBERS
  if [[ $number -gt $count ]]; then count=$number; fi
  echo "dataDir=$POD_DATA"
  echo "tickTime=2000"
  echo "grpcPort=$POD_GRPC_PORT"
  echo "grpcPortAddress=$POD_LISTEN"
  echo "administratorTokenFile=$keys/administrator-token"
  echo "memberSecretFile=$keys/member-secret"
  echo "admin.serverAddress=$POD_LISTEN"
  echo "admin.serverPort=$POD_HTTP_PORT"
  # The address of a pod changes, and its name may not have one yet.
  echo "quorumListenOnAllIPs=${POD_LISTEN_FOR_MEMBERS_ON_ALL:-true}"
  if [[ -n $POD_TLS ]]; then
    echo "secureClientPort=$POD_TLS_PORT"
    echo "secureClientPortAddress=$POD_LISTEN"
    echo "grpcTls=true"
    echo "client.certReload=true"
    echo "ssl.keyStore.location=$keys/server.pem"
    echo "ssl.trustStore.location=$keys/ca.pem"
    echo "ssl.clientAuth=${POD_TLS_CLIENT_AUTH:-need}"
    echo "sslQuorum=true"
    echo "sslQuorumReloadCertFiles=true"
    echo "ssl.quorum.keyStore.location=$keys/server.pem"
    echo "ssl.quorum.trustStore.location=$keys/ca.pem"
  fi
  for ((member = 1; member <= count; ++member)); do echo "server.$member=$(line_of "$member")"; done
  if [[ -n ${POD_EXTRA:-} ]]; then printf '%s\n' "$POD_EXTRA"; fi
}

mkdir -p "$keys"
copy_private "$keys/administrator-token" "$POD_SECRETS/administrator-token"
copy_private "$keys/member-secret" "$POD_SECRETS/member-secret"
configuration >"$POD_CONF/zoo.cfg"
if [[ -f $POD_DATA/myid && $(<"$POD_DATA/myid") != "$number" ]]; then
  die "the data in $POD_DATA is that of member $(<"$POD_DATA/myid"), and this pod has member $number"
fi
echo "$number" >"$POD_DATA/myid"

if [[ -n $POD_TLS ]]; then
  copy_keys
  # Renewed certificates appear in the volume, and the server reads them again when its own files change.
  (while sleep "${POD_KEYS_SECONDS:-60}"; do copy_keys; done) &
fi

exec "${QUORATED:-/usr/sbin/quorated}" "$POD_CONF/zoo.cfg"
