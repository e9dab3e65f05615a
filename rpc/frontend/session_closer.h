// SPDX-License-Identifier: Apache-2.0

// Closes sessions for administrators: a front end without clients, whose commands close sessions
// whichever client, at whichever server, they are attached to.
//
// Thread-safety: any thread may call Close; the rest is called as described in
// rpc/frontend/service.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "rpc/frontend/frontends.h"
#include "rpc/frontend/service.h"

namespace quorate::rpc {

class SessionCloser final : public Frontend {
 public:
  // The most closes that may be waiting for the log.
  static constexpr size_t kWaitingMax = 1000;

  // Whether a session was closed: false if there was none.
  using Done = std::function<void(absl::StatusOr<bool> closed)>;

  // `service` must outlive the object. `tags` are those of its commands.
  SessionCloser(Service* service, TagRange tags) : service_(service), tags_(tags) {}

  // Closes a session, and deletes its ephemeral znodes. `done` is called once, from any thread, when
  // that is applied here; it must be brief. Unavailable: the tree was replaced by a later one, so
  // that the outcome is not known. Never called if the server stops before that. Returns, without
  // submitting anything or calling `done`: Unavailable if this server does not serve or is congested,
  // so that the session would be closed at some later time; ResourceExhausted if kWaitingMax others
  // are waiting.
  absl::Status Close(tree::SessionId session, Done done);

  bool AllowsInlineApply() const override { return true; }
  void OnNodeEvent(tree::EventType /*type*/, std::string_view /*path*/, tree::Zxid /*zxid*/,
                   const tree::EventAcls& /*acls*/) override {}
  void OnSessionAttached(const tree::SessionInfo& /*session*/) override {}
  void OnSessionClosed(tree::SessionId /*session*/, tree::Zxid /*zxid*/) override {}
  void OnResult(tree::ApplyResult result) override;
  void OnTreeReplaced(const tree::Tree& tree) override;
  void OnBatchApplied() override {}
  // It begins no barriers.
  void OnSyncDone(uint32_t /*tag*/, uint64_t /*sync_id*/, tree::Zxid /*zxid*/) override {}

 private:
  Service* const service_;
  const TagRange tags_;
  Mutex mutex_;
  uint32_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint32_t, Done> waiting_ ABSL_GUARDED_BY(mutex_);  // by tag
};

}  // namespace quorate::rpc
