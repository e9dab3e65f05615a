// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/frontends.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace quorate::rpc {

Frontends::Frontends(std::vector<Entry> frontends, EventHistory* history, RequestAudit* audit)
    : frontends_(std::move(frontends)), history_(history), audit_(audit) {
  for (const Entry& a : frontends_) {
    for (const Entry& b : frontends_) {
      ASSERT(&a == &b || !a.tags.Contains(b.tags.first), "a tag belongs to one front end");
    }
  }
}

Frontend& Frontends::FrontendOf(uint32_t tag) {
  const auto entry = std::find_if(frontends_.begin(), frontends_.end(),
                                  [&](const Entry& e) { return e.tags.Contains(tag); });
  ASSERT(entry != frontends_.end(), "commands carry tags of the front ends");
  return *entry->frontend;
}

bool Frontends::AllowsInlineApply() const {
  return std::all_of(frontends_.begin(), frontends_.end(),
                     [](const Entry& entry) { return entry.frontend->AllowsInlineApply(); });
}

void Frontends::OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                            const tree::EventAcls& acls) {
  const Readers readers = readers_.Of(zxid, acls.node);
  history_->Add(
      type, path, zxid, readers,
      type == tree::EventType::kNodeDataChanged ? nullptr : readers_.Of(zxid, acls.parent));
  for (const Entry& entry : frontends_) entry.frontend->OnNodeEvent(type, path, zxid, acls);
}

bool Frontends::WantsNodeValues() const {
  return std::any_of(frontends_.begin(), frontends_.end(),
                     [](const Entry& entry) { return entry.frontend->WantsNodeValues(); });
}

void Frontends::OnNodeValues(const tree::EventValues& values) {
  for (const Entry& entry : frontends_) entry.frontend->OnNodeValues(values);
}

void Frontends::OnSessionAttached(const tree::SessionInfo& session) {
  for (const Entry& entry : frontends_) entry.frontend->OnSessionAttached(session);
}

void Frontends::OnSessionClosed(tree::SessionId session, tree::Zxid zxid) {
  for (const Entry& entry : frontends_) entry.frontend->OnSessionClosed(session, zxid);
}

void Frontends::OnResult(tree::ApplyResult result) {
  Frontend& frontend = FrontendOf(result.header.proposer_tag);
  frontend.OnResult(std::move(result));
}

void Frontends::OnTreeReplaced(const tree::Tree& tree) {
  history_->Clear(tree.last_zxid());
  for (const Entry& entry : frontends_) entry.frontend->OnTreeReplaced(tree);
}

std::shared_ptr<const RecentEvents> Frontends::TakeRecentEvents() const { return history_->Take(); }

void Frontends::OnRecentEvents(std::span<const std::string> parts, tree::Zxid zxid) {
  const absl::Status restored = history_->Restore(parts, zxid);
  if (restored.ok()) return;
  spdlog::warn(
      "watches cannot resume from before the checkpoint: {}; gRPC clients are told that events "
      "were "
      "lost, and mntr counts ZooKeeper clients that may miss some; nothing has to be done here",
      std::string(restored.message()));
}

std::vector<int64_t> Frontends::HeldUpSessions() {
  std::vector<int64_t> sessions;
  for (const Entry& entry : frontends_) {
    const std::vector<int64_t> of_frontend = entry.frontend->HeldUpSessions();
    sessions.insert(sessions.end(), of_frontend.begin(), of_frontend.end());
  }
  return sessions;
}

WatchTotals Frontends::watch_totals() const {
  WatchTotals totals;
  for (const Entry& entry : frontends_) {
    const WatchTotals of_frontend = entry.frontend->watch_totals();
    totals.count += of_frontend.count;
    totals.bytes += of_frontend.bytes;
  }
  return totals;
}

void Frontends::OnBatchApplied() {
  for (const Entry& entry : frontends_) entry.frontend->OnBatchApplied();
}

void Frontends::OnSyncDone(uint32_t proposer_tag, uint64_t sync_id, tree::Zxid zxid) {
  FrontendOf(proposer_tag).OnSyncDone(proposer_tag, sync_id, zxid);
}

}  // namespace quorate::rpc
