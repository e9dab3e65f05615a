// SPDX-License-Identifier: Apache-2.0

// Presents the front ends of one server as one, and keeps the history of events for them. Each
// front end is notified of everything that is applied, and gets the results of its own commands.
//
// Each front end takes its proposer tags from a range of its own, so that the tag of a result also
// identifies the front end.
//
// Thread-safety: as rpc/frontend/service.h says.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "rpc/frontend/client_identities.h"
#include "rpc/frontend/event_history.h"
#include "rpc/frontend/service.h"

namespace quorate::rpc {

// The proposer tags of one front end: `count` of them from `first` on.
struct TagRange {
  uint32_t first = 0;
  uint32_t count = 0;

  bool Contains(uint32_t tag) const { return tag >= first && tag - first < count; }
};

// The tags of the ZooKeeper front end, from 0 on as if it were the only one, and those of the
// native front end.
inline constexpr TagRange kZooKeeperTags{0, 0xF0000000};
inline constexpr TagRange kNativeTags{0xF0000000, 0x0FFF0000};
// The tags of the commands by which administrators close sessions (SessionCloser), and of writes
// without a client (TreeWriter).
inline constexpr TagRange kCloserTags{0xFFFF0000, 0x8000};
inline constexpr TagRange kWriterTags{0xFFFF8000, 0x8000};

class Frontends final : public Frontend {
 public:
  struct Entry {
    Frontend* frontend = nullptr;  // outlives the object
    TagRange tags;
  };
  // Each event is added to `history` before the front ends are notified of it. `history` outlives
  // the object; it belongs to it, except that the front ends read it. `audit`, which outlives the
  // object, records the writes of clients; nullptr: they are not recorded. REQUIRES: the ranges do
  // not overlap.
  Frontends(std::vector<Entry> frontends, EventHistory* history, RequestAudit* audit = nullptr);

  bool AllowsInlineApply() const override;
  void OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                   const tree::EventAcls& acls) override;
  bool WantsNodeValues() const override;
  void OnNodeValues(const tree::EventValues& values) override;
  void OnSessionAttached(const tree::SessionInfo& session) override;
  void OnSessionClosed(tree::SessionId session, tree::Zxid zxid) override;
  // REQUIRES: the tag is in the range of a front end.
  void OnResult(tree::ApplyResult result) override;
  void OnTreeReplaced(const tree::Tree& tree) override;
  std::shared_ptr<const RecentEvents> TakeRecentEvents() const override;
  void OnRecentEvents(std::span<const std::string> parts, tree::Zxid zxid) override;
  std::vector<int64_t> HeldUpSessions() override;
  RequestAudit* request_audit() const override { return audit_; }
  WatchTotals watch_totals() const override;
  void OnBatchApplied() override;
  // REQUIRES: as OnResult.
  void OnSyncDone(uint32_t proposer_tag, uint64_t sync_id, tree::Zxid zxid) override;

 private:
  Frontend& FrontendOf(uint32_t tag);

  const std::vector<Entry> frontends_;
  EventHistory* const history_;
  RequestAudit* const audit_;
  CommandReaders readers_;  // protected by the tree's lock
};

}  // namespace quorate::rpc
