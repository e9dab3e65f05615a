// SPDX-License-Identifier: Apache-2.0

// The health of a server, for load balancers, Kubernetes and scripts that restart servers:
//
//   /health/live          the process answers
//   /health/startup       it has caught up with a leader once since its start
//   /health/ready         it has a leader, or leads, and serves reads and writes
//   /health/safe-to-stop  the other voters keep a majority that has all committed entries. Only the
//                         leader knows that: it answers for itself, and for another member with
//                         ?member=N. Other members, if they have a vote, answer 503 and name the leader
//
// The last two also fail if the status of the server is old, because the thread that renews it, which
// steps Raft, hangs. A disk that does not answer delays another thread, and shows only in that the other
// members elect another leader.
//
// Thread-safety: a function of its arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rpc/admin/http.h"
#include "rpc/admin/request_target.h"
#include "rpc/frontend/administration.h"
#include "rpc/frontend/service.h"

namespace quorate::rpc::admin {

inline constexpr std::string_view kHealthPaths[] = {"/health/live", "/health/ready",
                                                    "/health/safe-to-stop", "/health/startup"};

// Returns the response for one of kHealthPaths: 200, or 503 with the reason in words; 400 if the
// number of a member is none; nullopt for other paths. `contact_limit_ms` is the age of contact with
// the leader from which the server counts as out of touch; a leader's is the age of its status.
std::optional<HttpResponse> HealthResponse(const RequestTarget& target, const ServerStatus& status,
                                           const ClusterView& view, int64_t contact_limit_ms);

// Returns why the member must not stop now; empty if it may.
std::string ReasonNotToStop(consensus::MemberId member, const ServerStatus& status,
                            const ClusterView& view, int64_t contact_limit_ms);

}  // namespace quorate::rpc::admin
