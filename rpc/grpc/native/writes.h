// SPDX-License-Identifier: Apache-2.0

// Functions that sessions and calls share: their time limits, and the translation of operations
// into writes.
//
// Thread-safety: functions without state.
#pragma once

#include <chrono>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "rpc/audit/request_audit.h"
#include "rpc/config/config.h"
#include "rpc/frontend/service.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/proto/quorate/v1/session.pb.h"
#include "rpc/proto/quorate/v1/types.pb.h"
#include "tree/command.h"

namespace quorate::rpc::native {

// The time within which the first message of a stream has to arrive.
inline constexpr auto kOpenTimeout = std::chrono::seconds(30);
// The time for which the request of a client that has seen a newer zxid waits for this member to
// apply that zxid.
inline constexpr auto kCatchUpTimeout = std::chrono::seconds(2);
// Calls that wait for a leader fail when this member has had no contact with one for this many
// milliseconds.
inline constexpr int64_t kLeaderlessCallMs = 5000;

// Returns UNAVAILABLE if this member cannot take writes now, according to its status.
absl::Status CheckServing(const Service& service);
absl::Status OutOfTouch();
// Returns Unavailable, with the reason for the client, until this member has caught up with a
// leader once since its start.
absl::Status CheckCaughtUp(const ServerStatus& status);
// Returns Unavailable, with the reason for the client, if this member has had no contact with a
// leader for more than `limit_ms` milliseconds.
absl::Status CheckContact(const ServerStatus& status, int64_t limit_ms);
// Returns UNAVAILABLE if this member's state may be too old for a read that is not linearizable.
absl::Status CheckFresh(const ServerStatus& status, const Config& config);
// Returns a size in bytes that no path of a znode exceeds: a request that creates it is not larger.
size_t PathBytesMax(const Config& config);
absl::Status IsBehind(tree::Zxid wanted, tree::Zxid applied);

// Sets `*request` to the operations and compares of a write, with views into `write`. If the result is
// not OK, the write must not be executed (see MakeRefused). REQUIRES: the request has the identities
// of the caller.
v1::ErrorCode MakeRequest(const v1::Request::Write& write, const Config& config,
                          const Service& service, tree::Request* request);
// Returns the reason for the client of a write that was refused, if there is more to say than
// v1::TextOf does: the cluster version that the write needs. Otherwise empty.
std::string ReasonOf(v1::ErrorCode refused, const tree::Request& request, uint32_t version);
// Turns `*request` into a request that changes nothing and fails on every tree. It fails with `why`
// if all members understand such requests (`version` is the cluster version), otherwise with
// BAD_ARGUMENTS. REQUIRES: `why` is an error that MakeRequest returned.
void MakeRefused(v1::ErrorCode why, uint32_t version, tree::Request* request);
// Returns whether this is the result of a MakeRefused request, of which no operation is one of the
// client. `asked` are the operations of the client's write, and `is_refused` whether it is refused this
// time; it may have been refused or applied when it was sent before.
bool IsRefusal(const tree::ApplyResult& result, const AskedKinds& asked, bool is_refused);
AskedKinds KindsOf(const tree::Request& request);
// Returns the number of operations and compares of a write.
size_t PartsOf(const v1::Request::Write& write);
// Records a write that is not executed in the audit log. Does nothing if `audit` is null. `session`
// may be kNoSession.
void RecordRefused(RequestAudit* audit, tree::SessionId session,
                   std::span<const tree::Identity> identities, const v1::Request::Write& write);

}  // namespace quorate::rpc::native
