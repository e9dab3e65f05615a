// SPDX-License-Identifier: Apache-2.0

#include "tools/shell/watches.h"

#include <nlohmann/json.hpp>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/shell/printing.h"

namespace quorate::tools::shell {
namespace {

WatchScope ScopeOf(WatchKind kind) {
  switch (kind) {
    case WatchKind::kData:
      return WatchScope::kNode;
    case WatchKind::kChildren:
    case WatchKind::kPersistent:
      return WatchScope::kChildren;
    case WatchKind::kPersistentRecursive:
      return WatchScope::kSubtree;
  }
  return WatchScope::kNode;
}

std::string TypeOf(const Event& event) {
  switch (event.type) {
    case EventType::kNodeCreated:
      return "NodeCreated";
    case EventType::kNodeDeleted:
      return "NodeDeleted";
    case EventType::kNodeDataChanged:
      return "NodeDataChanged";
  }
  return "Unknown";
}

// Returns the type of an event as a watch prints it; empty if the watch does not print it.
std::string TypeFor(WatchKind kind, const std::string& path, const Event& event) {
  if (kind == WatchKind::kPersistentRecursive) return TypeOf(event);
  if (event.path != path) {
    return event.type == EventType::kNodeDataChanged ? "" : "NodeChildrenChanged";
  }
  if (kind == WatchKind::kChildren && event.type != EventType::kNodeDeleted) return "";
  return TypeOf(event);
}

std::string RemovalOf(WatchKind kind) {
  if (kind == WatchKind::kData) return "DataWatchRemoved";
  return kind == WatchKind::kChildren ? "ChildWatchRemoved" : "PersistentWatchRemoved";
}

}  // namespace

Watches::Watches(Console* console, bool json)
    : printer_(std::make_shared<Printer>(console, json)) {}

void Watches::Printer::Print(const std::string& type, const std::string& path, int64_t event_zxid) {
  if (event_zxid != zxid) printed.clear();
  zxid = event_zxid;
  if (printed.insert(type + path).second) Show(type, path, event_zxid);
}

void Watches::Printer::Show(const std::string& type, const std::string& path,
                            int64_t event_zxid) const {
  if (!prints) return;
  if (json) {
    const nlohmann::ordered_json event = {
        {"event", type}, {"path", path}, {"zxid", absl::StrFormat("0x%x", event_zxid)}};
    console->PrintEvent(Dump(event) + "\n");
  } else {
    console->PrintEvent(absl::StrCat("\nWATCHER::\n\nWatchedEvent state:SyncConnected type:", type,
                                     " path:", path, "\n"));
  }
}

void Watches::OnNotification(const WatchNotification& notification, Watched& watched,
                             Printer& printer) {
  if (watched.is_once() && watched.has_fired) return;
  if (const auto* reset = std::get_if<WatchReset>(&notification)) {
    watched.has_fired = true;
    printer.Print("EventsLost", watched.path, reset->zxid);
    return;
  }
  const Event& event = std::get<Event>(notification);
  const std::string type = TypeFor(watched.kind, watched.path, event);
  if (type.empty()) return;
  watched.has_fired = true;
  printer.Print(type, type == "NodeChildrenChanged" ? watched.path : event.path, event.zxid);
}

absl::Status Watches::Add(Client& client, const std::string& path, WatchKind kind,
                          int64_t after_zxid) {
  auto watched = std::make_shared<Watched>();
  watched->path = path;
  watched->kind = kind;
  auto handle = client.Watch(path, ScopeOf(kind),
                             [watched, printer = printer_](const WatchNotification& notification) {
                               OnNotification(notification, *watched, *printer);
                             },
                             {.after_zxid = after_zxid});
  if (!handle.ok()) return handle.status();
  watches_.insert_or_assign({path, kind}, Entry{watched, *std::move(handle)});
  return absl::OkStatus();
}

bool Watches::Remove(const std::string& path, WatchKind kind) {
  const auto found = watches_.find({path, kind});
  if (found == watches_.end()) return false;
  const bool was_there = !found->second.watched->is_once() || !found->second.watched->has_fired;
  watches_.erase(found);
  if (was_there) printer_->Show(RemovalOf(kind), path, 0);
  return was_there;
}

}  // namespace quorate::tools::shell
