#include "rpc/server/doors.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace quorate::rpc {

Doors::Doors(std::vector<Entry> doors) : doors_(std::move(doors)) {
  for (const Entry& a : doors_) {
    for (const Entry& b : doors_) {
      ASSERT(&a == &b || !a.tags.Contains(b.tags.first), "a tag belongs to one door");
    }
  }
}

Door& Doors::DoorOf(uint32_t tag) {
  const auto entry = std::find_if(doors_.begin(), doors_.end(),
                                  [&](const Entry& e) { return e.tags.Contains(tag); });
  ASSERT(entry != doors_.end(), "commands carry tags of the doors");
  return *entry->door;
}

bool Doors::IsQuick() const {
  return std::all_of(doors_.begin(), doors_.end(),
                     [](const Entry& entry) { return entry.door->IsQuick(); });
}

void Doors::OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                        const tree::EventAcls& acls) {
  for (const Entry& entry : doors_) entry.door->OnNodeEvent(type, path, zxid, acls);
}

void Doors::OnSessionAttached(const tree::SessionInfo& session) {
  for (const Entry& entry : doors_) entry.door->OnSessionAttached(session);
}

void Doors::OnSessionClosed(tree::SessionId session, tree::Zxid zxid) {
  for (const Entry& entry : doors_) entry.door->OnSessionClosed(session, zxid);
}

void Doors::OnResult(tree::ApplyResult result) {
  Door& door = DoorOf(result.header.origin_tag);
  door.OnResult(std::move(result));
}

void Doors::OnTreeReplaced(const tree::Tree& tree) {
  for (const Entry& entry : doors_) entry.door->OnTreeReplaced(tree);
}

std::shared_ptr<const RecentEvents> Doors::TakeRecentEvents() const {
  std::shared_ptr<const RecentEvents> events;
  for (const Entry& entry : doors_) {
    std::shared_ptr<const RecentEvents> of_door = entry.door->TakeRecentEvents();
    ASSERT(events == nullptr || of_door == nullptr,
           "whose they are is not known at the next start");
    if (of_door != nullptr) events = std::move(of_door);
  }
  return events;
}

void Doors::OnRecentEvents(std::span<const std::string> parts, tree::Zxid zxid) {
  for (const Entry& entry : doors_) entry.door->OnRecentEvents(parts, zxid);
}

std::vector<int64_t> Doors::HeldUpSessions() {
  std::vector<int64_t> sessions;
  for (const Entry& entry : doors_) {
    const std::vector<int64_t> of_door = entry.door->HeldUpSessions();
    sessions.insert(sessions.end(), of_door.begin(), of_door.end());
  }
  return sessions;
}

WatchTotals Doors::watch_totals() const {
  WatchTotals totals;
  for (const Entry& entry : doors_) {
    const WatchTotals of_door = entry.door->watch_totals();
    totals.count += of_door.count;
    totals.bytes += of_door.bytes;
  }
  return totals;
}

void Doors::OnBatchApplied() {
  for (const Entry& entry : doors_) entry.door->OnBatchApplied();
}

void Doors::OnSyncDone(uint32_t origin_tag, uint64_t sync_id, tree::Zxid zxid) {
  DoorOf(origin_tag).OnSyncDone(origin_tag, sync_id, zxid);
}

}  // namespace quorate::rpc
