// SPDX-License-Identifier: Apache-2.0

// Writes to the tree for callers that have no connection to a front end of clients, such as the web
// console: a front end without clients, whose commands have no session. Access control lists, quotas
// and the audit log treat them as any client's.
//
// Thread-safety: any thread may call Write; the rest is called as described in
// rpc/frontend/service.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "rpc/config/config.h"
#include "rpc/frontend/client_identities.h"
#include "rpc/frontend/frontends.h"
#include "rpc/frontend/service.h"
#include "tree/command.h"

namespace quorate::rpc {

class TreeWriter final : public Frontend {
 public:
  // The most writes that may be waiting for the log.
  static constexpr size_t kWaitingMax = 1000;

  using Done = std::function<void(absl::StatusOr<tree::OpResult> result)>;

  // Both must outlive the object. `tags` are those of its commands.
  TreeWriter(const Config& config, Service* service, TagRange tags)
      : config_(config), service_(service), tags_(tags) {}

  // Applies one operation for a caller with these identities. `done` is called once, from any thread,
  // when it is applied here; it must be brief. Unavailable: the tree was replaced by a later one, so
  // that the outcome is not known. Never called if the server stops before that. Returns, without
  // submitting anything or calling `done`: Unavailable if this server does not serve or is congested;
  // ResourceExhausted if kWaitingMax others are waiting, or the server has no space for more data;
  // InvalidArgument if the data or the access control list are larger than a client's may be.
  absl::Status Write(tree::Op op, const ClientIdentities& identities, Done done);

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
  absl::Status Check(const tree::Request& request) const;

  const Config& config_;
  Service* const service_;
  const TagRange tags_;
  Mutex mutex_;
  uint32_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint32_t, Done> waiting_ ABSL_GUARDED_BY(mutex_);  // by tag
};

}  // namespace quorate::rpc
