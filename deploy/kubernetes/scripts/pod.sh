# SPDX-License-Identifier: Apache-2.0
# What the scripts of this directory share: how a pod finds itself and the others. They run in the image,
# in pods of a StatefulSet, and source this file. The pod with the ordinal I has member I + 1. Variables:
#
#   POD_NAME             the name of the pod, which ends with its ordinal
#   POD_HOSTS            the names of all pods, with %d for the ordinal
#   POD_INITIAL_MEMBERS  how many members the cluster had at first; it must never change
#   POD_REPLICAS_FILE    if the cluster began with one member: a file with the number of pods that there shall be
#   POD_ASKED_MEMBERS    how many pods, from the first on, a pod without data asks for the members
#   POD_SECRETS          a directory with administrator-token and member-secret, and with server.pem (certificate and key)
#                        and ca.crt for TLS of the gRPC port alone: quorate sends the token to other pods with TLS only
#   POD_TLS              a directory with tls.crt, tls.key and ca.crt, as cert-manager makes it; empty: no TLS
#   POD_TLS_CLIENT_AUTH  whether clients need a certificate with TLS: need (the default), want, none
#   POD_EXTRA            lines of configuration
#   POD_DATA, POD_CONF   the directories for the data, and for files that are made at each start
#   POD_LISTEN           the address that clients and probes are served on
#   POD_*_PORT           the ports, the same in all pods
# shellcheck shell=bash

POD_INITIAL_MEMBERS=${POD_INITIAL_MEMBERS:-3}
POD_REPLICAS_FILE=${POD_REPLICAS_FILE:-/replicas/count}
POD_ASKED_MEMBERS=${POD_ASKED_MEMBERS:-9}
POD_SECRETS=${POD_SECRETS:-/secrets}
POD_TLS=${POD_TLS:-}
POD_DATA=${POD_DATA:-/data}
POD_CONF=${POD_CONF:-/conf}
POD_LISTEN=${POD_LISTEN:-0.0.0.0}
POD_CLIENT_PORT=${POD_CLIENT_PORT:-2181}
POD_TLS_PORT=${POD_TLS_PORT:-2182}
POD_GRPC_PORT=${POD_GRPC_PORT:-2281}
POD_PEER_PORT=${POD_PEER_PORT:-2888}
POD_ELECTION_PORT=${POD_ELECTION_PORT:-3888}
POD_HTTP_PORT=${POD_HTTP_PORT:-8080}

die() {
  echo "${0##*/}: $*" >&2
  exit 1
}

[[ ${POD_HOSTS:-} == *%d* ]] || die "POD_HOSTS has to be the names of the pods, with %d for the ordinal"
[[ $POD_INITIAL_MEMBERS =~ ^[1-9][0-9]?$ ]] || die "POD_INITIAL_MEMBERS=$POD_INITIAL_MEMBERS is no number of members"

# Prints the number of this pod's member.
own_number() {
  [[ ${POD_NAME:-} =~ -([0-9]+)$ ]] || die "POD_NAME=${POD_NAME:-} does not end with the ordinal of a pod"
  echo $((BASH_REMATCH[1] + 1))
}

host_of() { echo "${POD_HOSTS//%d/$(($1 - 1))}"; } # MEMBER

# Prints the value of a member's server.N line.
line_of() { # MEMBER
  # A client learns this port from /zookeeper/config.
  local port=$POD_CLIENT_PORT
  if [[ -n $POD_TLS ]]; then port=""; fi
  echo "$(host_of "$1"):$POD_PEER_PORT:$POD_ELECTION_PORT${port:+;$POD_LISTEN:$port}"
}

# Prints the gRPC addresses of the first members, $1 of them, for `quorate`.
grpc_of() { # COUNT
  local member addresses=()
  for ((member = 1; member <= $1; ++member)); do addresses+=("$(host_of "$member"):$POD_GRPC_PORT"); done
  (IFS=, && echo "${addresses[*]}")
}

# Returns whether the gRPC port has TLS, although clients have none.
has_grpc_keys() { [[ -z $POD_TLS && -r $POD_SECRETS/server.pem && -r $POD_SECRETS/ca.crt ]]; }

# Runs `quorate` as an administrator.
administer() { # ADDRESSES ARGUMENT...
  local options=(--server "$1" --token-file "$POD_SECRETS/administrator-token")
  if [[ -n $POD_TLS ]]; then
    options+=(--ca "$POD_TLS/ca.crt" --cert "$POD_TLS/tls.crt" --key "$POD_TLS/tls.key")
  elif has_grpc_keys; then
    options+=(--ca "$POD_SECRETS/ca.crt")
  fi
  shift
  "${QUORATE:-quorate}" "${options[@]}" "$@"
}
