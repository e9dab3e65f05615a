#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs before a pod's server gets SIGTERM: waits until the others keep a majority without it, but at most
# POD_STOP_SECONDS (45), after which the server stops all the same. With SIGTERM the server then hands its
# leadership over, if it leads. The exit status is always 0: Kubernetes stops the pod in any case.
set -euo pipefail

# shellcheck source=deploy/kubernetes/scripts/pod.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/pod.sh"

number=$(own_number)
count=$POD_INITIAL_MEMBERS
if [[ $number -gt $count ]]; then count=$number; fi
deadline=$((SECONDS + ${POD_STOP_SECONDS:-45}))

# Only the leader knows. It may have a higher number than this pod, so its address comes from the members.
addresses() {
  administer "$(grpc_of "$count")" members |
    sed -nE "s/^[0-9]+ +[^ ]+ +([^ ]+):[0-9]+ .*/\1:$POD_GRPC_PORT/p" | paste -sd,
}

while true; do
  members=$(addresses) || true
  if [[ $members == "$(host_of "$number"):$POD_GRPC_PORT" ]]; then
    echo "prestop.sh: nothing to wait for: this is the only member"
    exit 0
  fi
  if answer=$(administer "$members" member safe-to-stop "$number" 2>&1); then
    echo "$answer"
    exit 0
  fi
  # The leader says this of a pod that was not admitted yet, and of one that was removed.
  if [[ $answer == *"there is no member $number"* ]]; then
    echo "prestop.sh: nothing to wait for: $answer"
    exit 0
  fi
  if [[ $SECONDS -ge $deadline ]]; then
    echo "prestop.sh: stopping, although it is not safe: $answer" >&2
    exit 0
  fi
  sleep 1
done
