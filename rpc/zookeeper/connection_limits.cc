// SPDX-License-Identifier: Apache-2.0

// The limits of the tenants of a connection (rpc/frontend/tenant_limits.h).
#include <algorithm>
#include <chrono>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rpc/frontend/request_limits.h"
#include "rpc/zookeeper/connection.h"
#include "rpc/zookeeper/connection_loop.h"

namespace quorate::rpc::zk {
namespace {

// A client that is slowed gets one request done in this part of its session timeout even if its
// tenant has no tokens. So it hears from the server before it gives the connection up, which a client
// does after two thirds of the timeout, and a ping does not wait for longer.
constexpr int kPartsOfTimeout = 4;
constexpr size_t kOpOffset = 4;  // in a packet, after the xid
// An incomplete request of at least this many bytes may be closed for the memory that it takes.
constexpr size_t kIncompleteBytesMin = 64u << 10;

}  // namespace

bool Connection::TakeToken(std::string_view packet) {
  if (state_ != State::kUp || tenants_.TakeRequest(loop_->now())) return true;
  // A client that closes its session asks for nothing more.
  const bool is_end =
      packet.size() >= kOpOffset + sizeof(int32_t) &&
      static_cast<OpCode>(LoadInt<std::endian::big, int32_t>(packet.data() + kOpOffset)) ==
          OpCode::kCloseSession;
  if (is_end) {
    tenants_.TakeRequestAnyway(loop_->now());
    return true;
  }
  is_slowed_ = true;
  loop_->statistics().throttle_waits.Add(1);
  tenants_.OnReached(Limit::kRequests, loop_->now());
  return false;
}

bool Connection::EndSlowing() {
  const std::chrono::milliseconds wait_max(timeout_ms_ / kPartsOfTimeout);
  if (!is_slowed_ || !tenants_.EndSlowing(loop_->now(), wait_max)) return false;
  is_slowed_ = false;
  return true;
}

void Connection::CountHeldBack() {
  const bool is_held_back =
      state_ == State::kUp && !pipeline_.empty() && tenants_.IsAtOutstanding(pipeline_.size());
  if (std::exchange(is_held_back_, is_held_back) || !is_held_back) return;
  loop_->statistics().throttle_waits.Add(1);
  tenants_.OnReached(tenants_.IsAtBytes() ? Limit::kOutstandingBytes : Limit::kOutstandingRequests,
                     loop_->now());
}

absl::Status Connection::CheckIncomplete() {
  if (in_.size() < kIncompleteBytesMin || unread_) return absl::OkStatus();
  CountMemory();
  if (!tenants_.IsFarAboveBytes()) return absl::OkStatus();
  tenants_.OnReached(Limit::kOutstandingBytes, loop_->now());
  const size_t bytes = in_.size();
  // The next connection may be below the limit then.
  in_.clear();
  admitted_bytes_ = 0;
  CountMemory();
  return absl::ResourceExhaustedError(
      absl::StrCat("incomplete requests of the client's address or identity take too much memory "
                   "(limits.outstandingBytes), ",
                   bytes, " bytes of them from this connection"));
}

void Connection::ShowSession() {
  loop_->frontend().ShowSession(session_, attach_zxid_, tag_, ClientProtocol::kZooKeeper, address_,
                                identities_.shown(), &tenants_);
}

absl::Status Connection::JoinIdentity() {
  if (tenants_.SetIdentity(identities_.shown(), loop_->now())) {
    if (tenants_.shown() != nullptr) ShowSession();
    return absl::OkStatus();
  }
  loop_->frontend().statistics().connections_refused.fetch_add(1);
  return absl::ResourceExhaustedError(
      "the client's identity has too many connections (limits.connectionsPerIdentity)");
}

absl::Status Connection::DelaySession() {
  if (state_ != State::kDelayed) {
    state_ = State::kDelayed;
    delayed_since_ = loop_->now();
    tenants_.OnReached(Limit::kNewSessions, loop_->now());
  }
  const Config& config = loop_->frontend().config();
  const std::chrono::milliseconds wait_max(std::clamp(
      connect_.timeout_ms, config.min_session_timeout_ms, config.max_session_timeout_ms));
  if (loop_->now() - delayed_since_ <= wait_max) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "the client's address or identity opens too many sessions (limits.sessionsPerSecond)");
}

bool Connection::MayWatch(int32_t xid) {
  if (tenants_.MayWatch()) return true;
  CorrectCounts();
  if (tenants_.MayWatch()) return true;
  tenants_.OnReached(Limit::kWatches, loop_->now());
  // Every client knows this error, and it ends neither the session nor the connection. A client whose
  // connection were closed instead would connect again, and set all its watches again.
  ReplyError(xid, tree::ErrorCode::kSystemError);
  return false;
}

absl::Status Connection::CheckRestoredWatches() {
  // The watches come from another server, and a client would not learn which of them were refused.
  // A minority of the servers that fails leaves each of the others less than twice of what it had.
  if (!tenants_.IsFarAboveWatches()) return absl::OkStatus();
  tenants_.OnReached(Limit::kWatches, loop_->now());
  return absl::ResourceExhaustedError(
      "the client's address or identity has twice as many watches as it may have "
      "(limits.watches)");
}

bool Connection::TakeEphemerals(const tree::Request& request, Pending* pending) {
  const size_t count = EphemeralsIn(request);
  if (count == 0) return true;
  if (!tenants_.MayCreateEphemerals(count)) {
    tenants_.OnReached(Limit::kEphemerals, loop_->now());
    return false;
  }
  pending->ephemerals = static_cast<uint32_t>(count);
  ephemerals_in_flight_ += count;
  tenants_.SetEphemerals(tenants_.ephemerals() + count);
  return true;
}

void Connection::CountEphemerals(Pending* pending, const tree::ApplyResult& result) {
  ephemerals_in_flight_ -= std::exchange(pending->ephemerals, 0);
  tenants_.SetEphemerals(result.session_ephemerals + ephemerals_in_flight_);
}

void Connection::KeepEphemerals() {
  tenants_.KeepEphemerals(session_, loop_->tree().EphemeralCount(session_));
}

void Connection::CorrectCounts() {
  if (tenants_.watches() > 0) {
    Watches& watches = loop_->frontend().watches();
    MutexLock lock(&watches.mutex);
    tenants_.SetWatches(watches.table.CountOf(tag_));
  }
  has_fewer_watches_ = false;
  tenants_.ForgetSlowing(loop_->now());
  if (tenants_.ephemerals() == 0 || !has_session()) return;
  tenants_.SetEphemerals(loop_->tree().EphemeralCount(session_) + ephemerals_in_flight_);
}

}  // namespace quorate::rpc::zk
