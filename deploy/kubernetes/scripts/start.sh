#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes the configuration and the number of this pod's member, and becomes its server (pod.sh has the
# variables).
#
# The server.N lines stay those that the data began with: a server whose members were never changed only
# starts with the lines that it was created with. A pod without data asks the running members for the
# members, and keeps their numbers in the file zoo.cfg.members beside its data. If none has a cluster yet, the
# first pods name each other and found one. A later pod names all before it, too, and waits until members.sh
# admits it.
#
# Of several first pods, those with data do not take part in a second cluster, so there is none. A single first pod
# that has lost its data while no other pod answers could begin one. It does so only as long as there shall be no
# other pod, and waits for one with the cluster otherwise.
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

# Whether there is no data: at most what a server accepts in a new directory, such as what `quorate rebuild`
# has put aside.
has_no_data() {
  [[ -z $(ls -A --ignore=lost+found --ignore='myid*' --ignore='zoo.cfg*' --ignore='aside-*' "$POD_DATA") ]]
}

# Durably writes a file of one line, the old content or the new.
write_line() { # FILE LINE
  echo "$2" >"$1.new"
  sync "$1.new"
  mv "$1.new" "$1"
  sync "$(dirname "$1")"
}

# Prints the number of each member of the cluster, with ":observer" behind that of an observer. Prints
# nothing if no pod that answers has a cluster, which is one whose term is not 0.
ask_for_members() {
  local answers=$POD_CONF/answers member rank answer best=0 found=""
  mkdir -p "$answers"
  for ((member = 1; member <= POD_ASKED_MEMBERS; ++member)); do
    if [[ $member -eq $number ]]; then continue; fi
    (administer "$(host_of "$member"):$POD_GRPC_PORT" --json members >"$answers/$member" 2>/dev/null || true) &
  done
  wait
  # The answer with the highest term counts, and the leader's if there are several.
  for answer in "$answers"/*; do
    rank=$(sed -nE 's/^  "term": ([0-9]+),?$/\1/p' "$answer")
    if [[ ! $rank =~ ^[1-9] ]]; then continue; fi
    rank=$((2 * rank))
    if grep -q '^  "from_leader": true' "$answer"; then rank=$((rank + 1)); fi
    if [[ $rank -gt $best ]]; then best=$rank found=$answer; fi
  done
  if [[ -n $found ]]; then
    sed -nE -e 's/^ +"id": ([0-9]+),$/\1/p' -e 's/^ +"role": "observer",$/:observer/p' "$found" |
      sed -E ':join;N;s/\n(:observer)/\1/;tjoin;P;D'
  fi
  rm -r "$answers"
}

# Returns whether this pod may begin a cluster alone.
may_begin_alone() {
  [[ $number -eq 1 && $POD_INITIAL_MEMBERS -eq 1 && -r $POD_REPLICAS_FILE && $(<"$POD_REPLICAS_FILE") =~ ^[01]$ ]]
}

# Sets `found` to what ask_for_members prints. The first pod of a cluster that began with one member waits until
# there is an answer, unless it may begin a cluster.
find_members() {
  local said=false
  found=$(ask_for_members)
  while [[ -z $found && $number -eq 1 && $POD_INITIAL_MEMBERS -eq 1 ]] && ! may_begin_alone; do
    if ! $said; then
      echo "start.sh: waits for a pod that has the cluster: this one has no data, and there may be other members" \
        "($POD_REPLICAS_FILE does not say that there is one pod)" >&2
      said=true
    fi
    # In the background, so that a signal ends the wait.
    sleep 2 &
    wait $!
    found=$(ask_for_members)
  done
}

# Prints the numbers of the members for the server.N lines, separated by spaces.
members_of_lines() {
  local member count=$POD_INITIAL_MEMBERS
  # Pods that start together are admitted in their order, and each has to know those before it.
  if [[ -n $found || $number -gt $count ]]; then count=$number; fi
  for ((member = 1; member <= count; ++member)); do
    if ! grep -qE "^$member(:|$)" <<<"$found"; then found+=$'\n'$member; fi
  done
  sort -n <<<"$found" | xargs
}

configuration() {
  local member line
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
  elif has_grpc_keys; then
    echo "grpcTls=true"
    echo "ssl.keyStore.location=$keys/server.pem"
    echo "ssl.trustStore.location=$keys/ca.pem"
    # Administrators prove themselves by their token.
    echo "grpcTlsClientAuth=none"
  fi
  # A single server is a cluster of one then, which can get other members.
  if [[ $POD_INITIAL_MEMBERS -eq 1 ]]; then echo "standaloneEnabled=false"; fi
  for member in $members; do
    line=$(line_of "${member%:observer}")
    if [[ $member == *:observer ]]; then line=${line/#"${line%%;*}"/"${line%%;*}:observer"}; fi
    echo "server.${member%:observer}=$line"
  done
  if [[ -n ${POD_EXTRA:-} ]]; then printf '%s\n' "$POD_EXTRA"; fi
}

mkdir -p "$keys"
copy_private "$keys/administrator-token" "$POD_SECRETS/administrator-token"
copy_private "$keys/member-secret" "$POD_SECRETS/member-secret"
# An empty file is what a machine that lost power may leave of one that was not synced.
if [[ ! -s $POD_DATA/myid ]]; then
  write_line "$POD_DATA/myid" "$number"
elif [[ $(<"$POD_DATA/myid") != "$number" ]]; then
  die "the data in $POD_DATA is that of member $(<"$POD_DATA/myid"), and this pod has member $number"
fi
if has_no_data; then
  # The first process of a container ends at SIGTERM only if it says so.
  trap 'exit 0' TERM
  find_members
  write_line "$POD_DATA/zoo.cfg.members" "$(members_of_lines)"
  trap - TERM
fi
if [[ -s $POD_DATA/zoo.cfg.members ]]; then
  members=$(<"$POD_DATA/zoo.cfg.members")
else # data of a version that wrote no such file
  members=$(seq -s ' ' 1 "$((number > POD_INITIAL_MEMBERS ? number : POD_INITIAL_MEMBERS))")
fi
if has_grpc_keys; then
  copy_private "$keys/server.pem" "$POD_SECRETS/server.pem"
  copy_private "$keys/ca.pem" "$POD_SECRETS/ca.crt"
fi
configuration >"$POD_CONF/zoo.cfg"

if [[ -n $POD_TLS ]]; then
  copy_keys
  # Renewed certificates appear in the volume, and the server reads them again when its own files change.
  (while sleep "${POD_KEYS_SECONDS:-60}"; do copy_keys; done) &
fi

exec "${QUORATED:-/usr/sbin/quorated}" "$POD_CONF/zoo.cfg"
