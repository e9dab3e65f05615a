#include "tree/watch_table.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/assert.h"
#include "base/strings.h"
#include "tree/path.h"

namespace quorate::tree {
namespace {

struct Path;
struct Watcher;

// One watch: in the list of its path and kind, and in that of its watcher.
struct Watch {
  Path* path = nullptr;
  Watcher* watcher = nullptr;
  WatchKind kind = WatchKind::kData;
  Watch* previous_of_path = nullptr;
  Watch* next_of_path = nullptr;
  Watch* previous_of_watcher = nullptr;
  Watch* next_of_watcher = nullptr;
};

// A path that is watched: kept once, however many watch it.
struct Path {
  std::string text;
  std::array<Watch*, 2> first = {nullptr, nullptr};  // by kind

  Watch*& first_of(WatchKind kind) { return first[kind == WatchKind::kData ? 0 : 1]; }
  bool unwatched() const { return first[0] == nullptr && first[1] == nullptr; }
};

struct Watcher {
  WatcherId id = 0;
  Watch* first = nullptr;
};

struct WatchKey {
  const Path* path = nullptr;
  const Watcher* watcher = nullptr;
  WatchKind kind = WatchKind::kData;
  friend bool operator==(const WatchKey&, const WatchKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const WatchKey& key) {
    return H::combine(std::move(h), key.path, key.watcher, key.kind);
  }
};

WatchKey KeyOf(const Watch& watch) { return {watch.path, watch.watcher, watch.kind}; }

}  // namespace

class WatchTable::Impl {
 public:
  void Add(WatcherId id, std::string_view text, WatchKind kind) {
    ASSERT(kind == WatchKind::kData || kind == WatchKind::kChild, "these two tables");
    Path* path = FindPath(text);
    if (path == nullptr) {
      auto created = std::make_unique<Path>();
      created->text = text;
      path = created.get();
      paths_.emplace(path->text, std::move(created));
    }
    std::unique_ptr<Watcher>& watcher = watchers_[id];
    if (watcher == nullptr) watcher = std::make_unique<Watcher>(Watcher{id, nullptr});
    std::unique_ptr<Watch>& watch = watches_[WatchKey{path, watcher.get(), kind}];
    if (watch != nullptr) return;
    watch = std::make_unique<Watch>();
    watch->path = path;
    watch->watcher = watcher.get();
    watch->kind = kind;
    Watch*& first_of_path = path->first_of(kind);
    watch->next_of_path = first_of_path;
    if (first_of_path != nullptr) first_of_path->previous_of_path = watch.get();
    first_of_path = watch.get();
    watch->next_of_watcher = watcher->first;
    if (watcher->first != nullptr) watcher->first->previous_of_watcher = watch.get();
    watcher->first = watch.get();
  }

  void RemoveWatcher(WatcherId id) {
    const auto found = watchers_.find(id);
    if (found == watchers_.end()) return;
    Watcher* watcher = found->second.get();
    ASSERT(watcher->first != nullptr, "a watcher without watches is forgotten");
    // The last watch takes the watcher with it.
    for (Watch* watch = watcher->first; watch != nullptr;) {
      Watch* next = watch->next_of_watcher;
      Remove(watch);
      watch = next;
    }
  }

  // Removes the watches of one kind on a path, and appends who had them.
  void Take(std::string_view text, WatchKind kind, std::vector<WatcherId>* ids) {
    Path* path = FindPath(text);
    if (path == nullptr) return;
    // The last watch takes the path with it.
    for (Watch* watch = path->first_of(kind); watch != nullptr;) {
      Watch* next = watch->next_of_path;
      ids->push_back(watch->watcher->id);
      Remove(watch);
      watch = next;
    }
  }

  size_t watch_count() const { return watches_.size(); }
  size_t path_count() const { return paths_.size(); }
  size_t watcher_count() const { return watchers_.size(); }

 private:
  Path* FindPath(std::string_view text) const {
    const auto found = paths_.find(text);
    return found == paths_.end() ? nullptr : found->second.get();
  }

  void Remove(Watch* watch) {
    Path* path = watch->path;
    Watcher* watcher = watch->watcher;
    if (watch->next_of_path != nullptr) {
      watch->next_of_path->previous_of_path = watch->previous_of_path;
    }
    (watch->previous_of_path == nullptr ? path->first_of(watch->kind)
                                        : watch->previous_of_path->next_of_path) =
        watch->next_of_path;
    if (watch->next_of_watcher != nullptr) {
      watch->next_of_watcher->previous_of_watcher = watch->previous_of_watcher;
    }
    (watch->previous_of_watcher == nullptr ? watcher->first
                                           : watch->previous_of_watcher->next_of_watcher) =
        watch->next_of_watcher;
    const size_t erased = watches_.erase(KeyOf(*watch));
    ASSERT(erased == 1, "the watch was in the table");
    if (path->unwatched()) paths_.erase(paths_.find(std::string_view(path->text)));
    if (watcher->first == nullptr) watchers_.erase(watcher->id);
  }

  absl::flat_hash_map<std::string_view, std::unique_ptr<Path>, StringViewHash, std::equal_to<>>
      paths_;  // by Path::text
  absl::flat_hash_map<WatcherId, std::unique_ptr<Watcher>> watchers_;
  absl::flat_hash_map<WatchKey, std::unique_ptr<Watch>> watches_;
};

WatchTable::WatchTable() : impl_(std::make_unique<Impl>()) {}
WatchTable::~WatchTable() = default;

void WatchTable::Add(WatcherId watcher, std::string_view path, WatchKind kind) {
  impl_->Add(watcher, path, kind);
}

void WatchTable::RemoveWatcher(WatcherId watcher) { impl_->RemoveWatcher(watcher); }

void WatchTable::Fire(
    EventType type, std::string_view path,
    const std::function<void(WatcherId, EventType, std::string_view path)>& tell) {
  ASSERT(type != EventType::kNodeChildrenChanged, "it follows from the creation or deletion");
  const bool deleted = type == EventType::kNodeDeleted;
  const bool children_changed = deleted || type == EventType::kNodeCreated;
  std::vector<WatcherId> of_path;
  impl_->Take(path, WatchKind::kData, &of_path);
  if (deleted) impl_->Take(path, WatchKind::kChild, &of_path);
  std::sort(of_path.begin(), of_path.end());
  of_path.erase(std::unique(of_path.begin(), of_path.end()), of_path.end());
  for (WatcherId watcher : of_path) tell(watcher, type, path);

  if (!children_changed) return;
  const std::string_view parent = ParentPath(path);
  std::vector<WatcherId> of_parent;
  impl_->Take(parent, WatchKind::kChild, &of_parent);
  std::sort(of_parent.begin(), of_parent.end());
  for (WatcherId watcher : of_parent) tell(watcher, EventType::kNodeChildrenChanged, parent);
}

bool WatchTable::empty() const { return impl_->watch_count() == 0; }
size_t WatchTable::watch_count() const { return impl_->watch_count(); }
size_t WatchTable::path_count() const { return impl_->path_count(); }
size_t WatchTable::watcher_count() const { return impl_->watcher_count(); }

}  // namespace quorate::tree
