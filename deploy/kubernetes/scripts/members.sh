#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the members of the cluster those of the first N pods: admits the pods that are no members yet, and
# removes the members with higher numbers. Pods have to run before they are admitted, and should be stopped
# only after their members are removed. Can be run again after it was broken off, and from any pod.
#
#   members.sh N             admits and removes
#   members.sh N --remove    removes only: before there are fewer replicas
set -euo pipefail

# shellcheck source=deploy/kubernetes/scripts/pod.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/pod.sh"

wanted=${1:-}
[[ $wanted =~ ^[1-9][0-9]?$ ]] || die "the number of members is missing (members.sh N)"
case "${2:-}" in
  "" | --remove) ;;
  *) die "unknown argument $2" ;;
esac

no_tls_hint() {
  if [[ -z $POD_TLS ]] && ! has_grpc_keys; then echo " (without TLS: are server.pem and ca.crt in the secret?)"; fi
}

# The numbers of all members, and their gRPC addresses, separated by commas.
numbers=()
gates=""
read_members() {
  local known=$POD_INITIAL_MEMBERS list number host
  if [[ $wanted -gt $known ]]; then known=$wanted; fi
  list=$(administer "$(grpc_of "$known")" members) || die "the members are not known: see above$(no_tls_hint)"
  numbers=()
  gates=""
  while read -r number _ host _; do
    if [[ ! $number =~ ^[0-9]+$ ]]; then continue; fi
    [[ $host != - || $wanted -eq 1 ]] ||
      die "a cluster that began with one member cannot get others: see docs/operations/lost-majority.md"
    numbers+=("$number")
    gates+="${gates:+,}${host%:*}:$POD_GRPC_PORT"
  done <<<"$list"
  [[ ${#numbers[@]} -gt 0 ]] || die "there are no members in: $list"
}

read_members
for ((i = ${#numbers[@]} - 1; i >= 0; --i)); do
  if [[ ${numbers[i]} -gt $wanted ]]; then administer "$gates" member remove "${numbers[i]}"; fi
done
if [[ ${2:-} != --remove ]]; then
  for ((number = 1; number <= wanted; ++number)); do
    if [[ " ${numbers[*]} " != *" $number "* ]]; then
      administer "$gates" member add "$number" "$(line_of "$number")"
    fi
  done
fi
read_members
echo "members: ${numbers[*]}"
