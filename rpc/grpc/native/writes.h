// What sessions and calls have in common: how long they wait, and the writes that they
// make of operations.
//
// Thread-safety: functions without state.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <chrono>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "rpc/proto/quorate/v1/types.pb.h"
#include "rpc/server/config.h"
#include "rpc/server/service.h"
#include "tree/command.h"

namespace quorate::rpc::native {

// A session is opened within this time.
inline constexpr auto kOpenTimeout = std::chrono::seconds(30);
// How long a client that has seen more than this member waits for it.
inline constexpr auto kCatchUpTimeout = std::chrono::seconds(2);
// How long nothing was heard of a leader when calls that wait for one are given up.
inline constexpr int64_t kLeaderlessCallMs = 5000;

// Not OK: this member cannot take writes now, as its status says.
absl::Status CheckServing(const Service& service);
absl::Status OutOfTouch();
// Returns Unavailable, with the reason for the client, until this member has caught up with a
// leader once since its start.
absl::Status CheckCaughtUp(const ServerStatus& status);
// Returns Unavailable, with the reason for the client, if this member has had no contact with a
// leader for more than `limit_ms` milliseconds.
absl::Status CheckContact(const ServerStatus& status, int64_t limit_ms);
absl::Status IsBehind(tree::Zxid wanted, tree::Zxid applied);

// Makes the operations of a write those of `*request`. Otherwise than with OK, the write is not to
// be made (MakeRefused). Views point into `operations`. REQUIRES: the request has the identities of
// the caller.
v1::ErrorCode MakeRequest(const google::protobuf::RepeatedPtrField<v1::Operation>& operations,
                          const Config& config, const Service& service, tree::Request* request);
// Makes of it a request that changes nothing and fails in every tree: with `why` if all members
// know such requests (`version` is the cluster version), and with BAD_ARGUMENTS otherwise.
// REQUIRES: `why` is of MakeRequest, and not OK.
void MakeRefused(v1::ErrorCode why, uint32_t version, tree::Request* request);
// Whether these can be the results of one that does not say why.
bool IsRefusalWithoutReason(std::span<const tree::OpResult> results);
std::vector<tree::OpKind> KindsOf(const tree::Request& request);

}  // namespace quorate::rpc::native
