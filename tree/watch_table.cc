// SPDX-License-Identifier: Apache-2.0

#include "tree/watch_table.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/strings.h"
#include "tree/path.h"
#include "tree/sharded_map.h"

namespace quorate::tree {
namespace {

struct Path;
struct Watcher;

// The lists of watches of a path. Recursive watches have a list of their own, so that the search
// for them on the way to the root visits no other watches.
enum class List : uint8_t { kNode, kChildren, kRecursive };
constexpr size_t kLists = 3;
// Approximate memory of a watch in bytes, without the text of its path. It includes the path and
// the watcher, because the watch may be their only one.
constexpr size_t kWatchBytes = 300;

// The modes of a watch: one-shot, lasting, or both if it was set in both ways.
using Modes = uint8_t;
constexpr Modes kOneShot = 1;
constexpr Modes kLasting = 2;

// One watch. It is an element of a list of its path, and of the list of its watcher.
struct Watch {
  Path* path = nullptr;
  Watcher* watcher = nullptr;
  List list = List::kNode;
  Modes modes = 0;
  Watch* previous_of_path = nullptr;
  Watch* next_of_path = nullptr;
  Watch* previous_of_watcher = nullptr;
  Watch* next_of_watcher = nullptr;
};

// A watched path, stored once for all its watches.
struct Path {
  std::string text;
  std::array<Watch*, kLists> first = {};
  size_t watches = 0;  // in all of the lists

  Watch*& first_of(List list) { return first[static_cast<size_t>(list)]; }
  bool unwatched() const { return watches == 0; }
  bool node_watched() const {
    return first[static_cast<size_t>(List::kNode)] != nullptr ||
           first[static_cast<size_t>(List::kRecursive)] != nullptr;
  }
};

struct Watcher {
  WatcherId id = 0;
  Watch* first = nullptr;
  size_t bytes = 0;  // memory of the watches
  size_t watches = 0;
  size_t node_watches = 0;
};

struct WatchKey {
  const Path* path = nullptr;
  const Watcher* watcher = nullptr;
  List list = List::kNode;
  friend bool operator==(const WatchKey&, const WatchKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const WatchKey& key) {
    return H::combine(std::move(h), key.path, key.watcher, key.list);
  }
};

WatchKey KeyOf(const Watch& watch) { return {watch.path, watch.watcher, watch.list}; }

// A part of the watches that a watcher type means: those in one list and with one mode.
struct Selection {
  List list;
  Modes modes;
};

void SortAndUnite(std::vector<WatcherId>* ids) {
  std::sort(ids->begin(), ids->end());
  ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
}

}  // namespace

class WatchTable::Impl {
 public:
  void Add(WatcherId id, std::string_view text, List list, Modes modes) {
    Path* path = FindPath(text);
    if (path == nullptr) {
      auto created = std::make_unique<Path>();
      created->text = text;
      path = created.get();
      paths_.FindOrMake(path->text) = std::move(created);
    }
    std::unique_ptr<Watcher>& watcher = watchers_.FindOrMake(id);
    if (watcher == nullptr) watcher = std::make_unique<Watcher>(Watcher{.id = id});
    std::unique_ptr<Watch>& watch = watches_.FindOrMake(WatchKey{path, watcher.get(), list});
    if (watch != nullptr) {
      watch->modes |= modes;
      return;
    }
    watch = std::make_unique<Watch>();
    watch->path = path;
    watch->watcher = watcher.get();
    watch->list = list;
    watch->modes = modes;
    if (list != List::kChildren) {
      ++node_watch_count_;
      if (!path->node_watched()) ++node_path_count_;
      if (watcher->node_watches++ == 0) ++node_watcher_count_;
    }
    Watch*& first_of_path = path->first_of(list);
    watch->next_of_path = first_of_path;
    if (first_of_path != nullptr) first_of_path->previous_of_path = watch.get();
    first_of_path = watch.get();
    watch->next_of_watcher = watcher->first;
    if (watcher->first != nullptr) watcher->first->previous_of_watcher = watch.get();
    watcher->first = watch.get();
    watcher->bytes += kWatchBytes + path->text.size();
    ++watcher->watches;
    bytes_ += kWatchBytes + path->text.size();
    if (list == List::kRecursive) ++recursive_count_;
    if (++path->watches == kCrowdedWatchesMin) ++crowded_path_count_;
  }

  Watch* Find(WatcherId id, std::string_view text, const Selection& selection) const {
    Path* path = FindPath(text);
    const auto* watcher = watchers_.Find(id);
    if (path == nullptr || watcher == nullptr) return nullptr;
    const auto* found = watches_.Find(WatchKey{path, watcher->get(), selection.list});
    if (found == nullptr || ((*found)->modes & selection.modes) == 0) return nullptr;
    return found->get();
  }

  void Remove(Watch* watch, Modes modes) {
    watch->modes &= static_cast<Modes>(~modes);
    if (watch->modes == 0) Erase(watch);
  }

  bool RemoveWatcher(WatcherId id, size_t max) {
    const auto* found = watchers_.Find(id);
    if (found == nullptr) return true;
    Watcher* watcher = found->get();
    ASSERT(watcher->first != nullptr, "a watcher without watches is erased");
    // Erasing the last watch of the watcher also deletes the watcher.
    for (Watch* watch = watcher->first; watch != nullptr;) {
      if (max-- == 0) return false;
      Watch* next = watch->next_of_watcher;
      Erase(watch);
      watch = next;
    }
    return true;
  }

  // Appends the watchers in a list of a path to `*ids`, and removes their one-shot watches.
  void Take(std::string_view text, List list, std::vector<WatcherId>* ids) {
    Path* path = FindPath(text);
    if (path == nullptr) return;
    // Erasing the last watch of the path also deletes the path.
    for (Watch* watch = path->first_of(list); watch != nullptr;) {
      Watch* next = watch->next_of_path;
      ids->push_back(watch->watcher->id);
      Remove(watch, kOneShot);
      watch = next;
    }
  }

  // Appends the recursive watchers of `path` and of all paths above it to `*ids`.
  void TakeRecursive(std::string_view path, std::vector<WatcherId>* ids) {
    while (recursive_count_ > 0) {
      Take(path, List::kRecursive, ids);
      if (path == "/") return;
      path = ParentPath(path);
    }
  }

  bool ForEachNodeWatch(size_t part,
                        const std::function<bool(WatcherId, std::string_view)>& function) const {
    static_assert(kParts == decltype(paths_)::kParts);
    return paths_.ForEachOfPart(
        part, [&function](std::string_view text, const std::unique_ptr<Path>& path) {
          for (List list : {List::kNode, List::kRecursive}) {
            for (const Watch* watch = path->first_of(list); watch != nullptr;
                 watch = watch->next_of_path) {
              if (!function(watch->watcher->id, text)) return false;
            }
          }
          return true;
        });
  }

  void ForEachWatchAt(std::string_view text,
                      const std::function<bool(WatcherId, WatchOf)>& function) const {
    Path* path = FindPath(text);
    if (path == nullptr) return;
    for (const auto& [list, of] :
         {std::pair(List::kNode, WatchOf::kNode), std::pair(List::kChildren, WatchOf::kChildren),
          std::pair(List::kRecursive, WatchOf::kSubtree)}) {
      for (const Watch* watch = path->first_of(list); watch != nullptr;
           watch = watch->next_of_path) {
        if (!function(watch->watcher->id, of)) return;
      }
    }
  }

  size_t watch_count() const { return watches_.size(); }
  size_t path_count() const { return paths_.size(); }
  size_t watcher_count() const { return watchers_.size(); }
  size_t BytesOf(WatcherId id) const {
    const auto* watcher = watchers_.Find(id);
    return watcher == nullptr ? 0 : (*watcher)->bytes;
  }
  size_t CountOf(WatcherId id) const {
    const auto* watcher = watchers_.Find(id);
    return watcher == nullptr ? 0 : (*watcher)->watches;
  }
  size_t bytes() const { return bytes_; }
  size_t node_watch_count() const { return node_watch_count_; }
  size_t node_path_count() const { return node_path_count_; }
  size_t node_watcher_count() const { return node_watcher_count_; }
  size_t crowded_path_count() const { return crowded_path_count_; }

 private:
  Path* FindPath(std::string_view text) const {
    const auto* found = paths_.Find(text);
    return found == nullptr ? nullptr : found->get();
  }

  void Erase(Watch* watch) {
    Path* path = watch->path;
    Watcher* watcher = watch->watcher;
    watcher->bytes -= kWatchBytes + path->text.size();
    --watcher->watches;
    bytes_ -= kWatchBytes + path->text.size();
    if (watch->list == List::kRecursive) --recursive_count_;
    if (path->watches-- == kCrowdedWatchesMin) --crowded_path_count_;
    if (watch->next_of_path != nullptr) {
      watch->next_of_path->previous_of_path = watch->previous_of_path;
    }
    (watch->previous_of_path == nullptr ? path->first_of(watch->list)
                                        : watch->previous_of_path->next_of_path) =
        watch->next_of_path;
    if (watch->next_of_watcher != nullptr) {
      watch->next_of_watcher->previous_of_watcher = watch->previous_of_watcher;
    }
    (watch->previous_of_watcher == nullptr ? watcher->first
                                           : watch->previous_of_watcher->next_of_watcher) =
        watch->next_of_watcher;
    if (watch->list != List::kChildren) {
      --node_watch_count_;
      if (!path->node_watched()) --node_path_count_;
      if (--watcher->node_watches == 0) --node_watcher_count_;
    }
    const bool erased = watches_.Erase(KeyOf(*watch));
    ASSERT(erased, "the watch was in the table");
    if (path->unwatched()) paths_.Erase(path->text);
    if (watcher->first == nullptr) watchers_.Erase(watcher->id);
  }

  ShardedMap<std::string_view, std::unique_ptr<Path>, StringViewHash> paths_;  // by Path::text
  ShardedMap<WatcherId, std::unique_ptr<Watcher>> watchers_;
  ShardedMap<WatchKey, std::unique_ptr<Watch>> watches_;
  size_t bytes_ = 0;
  size_t recursive_count_ = 0;
  size_t node_watch_count_ = 0;
  size_t node_path_count_ = 0;
  size_t node_watcher_count_ = 0;
  size_t crowded_path_count_ = 0;
};

namespace {

// Returns the watches that a type means, in groups. The first group that has an existing watch
// applies.
std::vector<std::vector<Selection>> Meaning(WatcherType type) {
  constexpr Selection kOneShotData{List::kNode, kOneShot};
  constexpr Selection kOneShotChild{List::kChildren, kOneShot};
  constexpr Selection kLastingData{List::kNode, kLasting};
  constexpr Selection kLastingChild{List::kChildren, kLasting};
  constexpr Selection kRecursive{List::kRecursive, kLasting};
  switch (type) {
    case WatcherType::kChildren:
      return {{kOneShotChild}, {kLastingChild}};
    case WatcherType::kData:
      return {{kOneShotData}, {kLastingData}, {kRecursive}};
    case WatcherType::kAny:
      return {{kOneShotData, kOneShotChild, kLastingData, kLastingChild, kRecursive}};
    case WatcherType::kPersistent:
      return {{kLastingData, kLastingChild}};
    case WatcherType::kPersistentRecursive:
      return {{kRecursive}};
  }
  ASSERT(false, "unknown type: the front end refuses it");
}

}  // namespace

WatchTable::WatchTable() : impl_(std::make_unique<Impl>()) {}
WatchTable::~WatchTable() = default;

void WatchTable::Add(WatcherId watcher, std::string_view path, WatchKind kind) {
  switch (kind) {
    case WatchKind::kData:
      impl_->Add(watcher, path, List::kNode, kOneShot);
      return;
    case WatchKind::kChild:
      impl_->Add(watcher, path, List::kChildren, kOneShot);
      return;
    case WatchKind::kPersistent:
      impl_->Add(watcher, path, List::kNode, kLasting);
      impl_->Add(watcher, path, List::kChildren, kLasting);
      return;
    case WatchKind::kPersistentRecursive:
      impl_->Add(watcher, path, List::kRecursive, kLasting);
      return;
  }
  ASSERT(false, "unknown kind of watch");
}

bool WatchTable::Remove(WatcherId watcher, std::string_view path, WatcherType type) {
  for (const std::vector<Selection>& group : Meaning(type)) {
    bool removed = false;
    for (const Selection& selection : group) {
      Watch* watch = impl_->Find(watcher, path, selection);
      if (watch == nullptr) continue;
      impl_->Remove(watch, selection.modes);
      removed = true;
    }
    if (removed) return true;
  }
  return false;
}

bool WatchTable::Contains(WatcherId watcher, std::string_view path, WatcherType type) const {
  for (const std::vector<Selection>& group : Meaning(type)) {
    for (const Selection& selection : group) {
      if (impl_->Find(watcher, path, selection) != nullptr) return true;
    }
  }
  return false;
}

bool WatchTable::RemoveWatcher(WatcherId watcher, size_t max) {
  return impl_->RemoveWatcher(watcher, max);
}

void WatchTable::Fire(
    EventType type, std::string_view path,
    const std::function<void(WatcherId, EventType, std::string_view path)>& tell) {
  ASSERT(type != EventType::kNodeChildrenChanged,
         "a change of children follows from a creation or deletion");
  const bool deleted = type == EventType::kNodeDeleted;
  std::vector<WatcherId> of_path;
  impl_->Take(path, List::kNode, &of_path);
  impl_->TakeRecursive(path, &of_path);
  if (deleted) impl_->Take(path, List::kChildren, &of_path);
  SortAndUnite(&of_path);
  for (WatcherId watcher : of_path) tell(watcher, type, path);

  if (type == EventType::kNodeDataChanged) return;
  const std::string_view parent = ParentPath(path);
  std::vector<WatcherId> of_parent;
  impl_->Take(parent, List::kChildren, &of_parent);
  SortAndUnite(&of_parent);
  for (WatcherId watcher : of_parent) tell(watcher, EventType::kNodeChildrenChanged, parent);
}

bool WatchTable::ForEachNodeWatch(
    const std::function<bool(WatcherId, std::string_view path)>& watch) const {
  for (size_t part = 0; part < kParts; ++part) {
    if (!ForEachNodeWatch(part, watch)) return false;
  }
  return true;
}

bool WatchTable::ForEachNodeWatch(
    size_t part, const std::function<bool(WatcherId, std::string_view path)>& watch) const {
  return impl_->ForEachNodeWatch(part, watch);
}

void WatchTable::ForEachWatchAt(std::string_view path,
                                const std::function<bool(WatcherId, WatchOf)>& watch) const {
  impl_->ForEachWatchAt(path, watch);
}

bool WatchTable::empty() const { return impl_->watch_count() == 0; }
size_t WatchTable::BytesOf(WatcherId watcher) const { return impl_->BytesOf(watcher); }
size_t WatchTable::CountOf(WatcherId watcher) const { return impl_->CountOf(watcher); }
size_t WatchTable::bytes() const { return impl_->bytes(); }
size_t WatchTable::watch_count() const { return impl_->watch_count(); }
size_t WatchTable::path_count() const { return impl_->path_count(); }
size_t WatchTable::watcher_count() const { return impl_->watcher_count(); }
size_t WatchTable::node_watch_count() const { return impl_->node_watch_count(); }
size_t WatchTable::node_path_count() const { return impl_->node_path_count(); }
size_t WatchTable::node_watcher_count() const { return impl_->node_watcher_count(); }
size_t WatchTable::crowded_path_count() const { return impl_->crowded_path_count(); }

}  // namespace quorate::tree
