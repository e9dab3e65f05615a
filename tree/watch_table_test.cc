// SPDX-License-Identifier: Apache-2.0

#include "tree/watch_table.h"

#include <array>
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace quorate::tree {
namespace {

using Strings = std::vector<std::string>;

Strings Fire(WatchTable* table, EventType type, std::string_view path) {
  Strings told;
  table->Fire(type, path, [&told](WatcherId watcher, EventType event, std::string_view at) {
    static constexpr std::string_view kNames[] = {"created", "deleted", "data", "children"};
    told.push_back(std::to_string(watcher) + " " +
                   std::string(kNames[static_cast<size_t>(event) - 1]) + " " + std::string(at));
  });
  return told;
}

TEST_CASE("creation notifies data watchers of the path and child watchers of the parent") {
  WatchTable table;
  table.Add(1, "/p/c", WatchKind::kData);
  table.Add(2, "/p/c", WatchKind::kChild);
  table.Add(3, "/p", WatchKind::kChild);
  table.Add(4, "/p", WatchKind::kData);
  CHECK(table.watch_count() == 4);
  CHECK(table.path_count() == 2);
  CHECK(table.watcher_count() == 4);
  CHECK(Fire(&table, EventType::kNodeCreated, "/p/c") ==
        Strings{"1 created /p/c", "3 children /p"});
  CHECK(table.watch_count() == 2);
  CHECK(Fire(&table, EventType::kNodeCreated, "/p/c").empty());
}

TEST_CASE("deletion notifies each watcher of the path once, then child watchers of the parent") {
  WatchTable table;
  table.Add(5, "/p/c", WatchKind::kData);
  table.Add(5, "/p/c", WatchKind::kChild);
  table.Add(2, "/p/c", WatchKind::kChild);
  table.Add(9, "/p/c", WatchKind::kData);
  table.Add(5, "/p", WatchKind::kChild);
  table.Add(1, "/p", WatchKind::kData);
  CHECK(Fire(&table, EventType::kNodeDeleted, "/p/c") ==
        Strings{"2 deleted /p/c", "5 deleted /p/c", "9 deleted /p/c", "5 children /p"});
  CHECK(table.watch_count() == 1);
  CHECK(table.path_count() == 1);
  CHECK(table.watcher_count() == 1);
}

TEST_CASE("a path with many watches counts as crowded until they are removed") {
  constexpr auto kFew = static_cast<WatcherId>(WatchTable::kCrowdedWatchesMin) - 1;
  WatchTable table;
  for (WatcherId watcher = 1; watcher <= 10 * kFew; ++watcher) {
    table.Add(watcher, "/of_its_own/" + std::to_string(watcher), WatchKind::kPersistentRecursive);
  }
  for (WatcherId watcher = 1; watcher <= kFew; ++watcher) {
    table.Add(watcher, "/p/c", WatchKind::kData);
    table.Add(watcher, "/p/c", WatchKind::kData);
  }
  CHECK(table.crowded_path_count() == 0);
  table.Add(1, "/p/c", WatchKind::kChild);
  table.Add(2, "/p/c", WatchKind::kChild);
  CHECK(table.crowded_path_count() == 1);
  SECTION("one by one") {
    CHECK(table.Remove(7, "/p/c", WatcherType::kAny));
    CHECK(table.crowded_path_count() == 1);
    table.RemoveWatcher(8);
    CHECK(table.crowded_path_count() == 0);
  }
  SECTION("by an event") {
    CHECK(Fire(&table, EventType::kNodeDataChanged, "/p/c").size() == kFew);
    CHECK(table.crowded_path_count() == 0);
  }
}

TEST_CASE("a change of data notifies only data watchers") {
  WatchTable table;
  table.Add(1, "/a", WatchKind::kData);
  table.Add(1, "/a", WatchKind::kChild);
  table.Add(2, "/", WatchKind::kChild);
  table.Add(3, "/a/b", WatchKind::kData);
  CHECK(Fire(&table, EventType::kNodeDataChanged, "/a") == Strings{"1 data /a"});
  CHECK(table.watch_count() == 3);
  table.Add(4, "/", WatchKind::kData);
  CHECK(Fire(&table, EventType::kNodeDataChanged, "/") == Strings{"4 data /"});
  CHECK(Fire(&table, EventType::kNodeDeleted, "/a") == Strings{"1 deleted /a", "2 children /"});
}

TEST_CASE("a watch that is set twice counts once") {
  WatchTable table;
  table.Add(1, "/a", WatchKind::kData);
  table.Add(1, "/a", WatchKind::kData);
  CHECK(table.watch_count() == 1);
  CHECK(Fire(&table, EventType::kNodeDataChanged, "/a") == Strings{"1 data /a"});
  CHECK(table.empty());
  table.Add(1, "/a", WatchKind::kData);
  CHECK(Fire(&table, EventType::kNodeDataChanged, "/a") == Strings{"1 data /a"});
}

TEST_CASE("the watches of a closed connection are removed") {
  WatchTable table;
  table.Add(1, "/a", WatchKind::kData);
  table.Add(1, "/a", WatchKind::kChild);
  table.Add(1, "/b", WatchKind::kData);
  table.Add(2, "/a", WatchKind::kData);
  table.RemoveWatcher(1);
  table.RemoveWatcher(7);
  CHECK(table.watch_count() == 1);
  CHECK(table.path_count() == 1);
  CHECK(table.watcher_count() == 1);
  CHECK(Fire(&table, EventType::kNodeDeleted, "/a") == Strings{"2 deleted /a"});
  CHECK(table.empty());
}

TEST_CASE("a watch may be set again while it fires") {
  WatchTable table;
  table.Add(1, "/a", WatchKind::kData);
  table.Fire(EventType::kNodeDataChanged, "/a",
             [&table](WatcherId watcher, EventType, std::string_view path) {
               table.Add(watcher, path, WatchKind::kData);
             });
  CHECK(table.watch_count() == 1);
}

TEST_CASE("a persistent watch is notified of each event at its node, repeatedly") {
  WatchTable table;
  table.Add(1, "/p", WatchKind::kPersistent);
  CHECK(table.watch_count() == 2);
  for (int round = 0; round < 2; ++round) {
    CHECK(Fire(&table, EventType::kNodeCreated, "/p") == Strings{"1 created /p"});
    CHECK(Fire(&table, EventType::kNodeCreated, "/p/c") == Strings{"1 children /p"});
    CHECK(Fire(&table, EventType::kNodeDataChanged, "/p/c").empty());
    CHECK(Fire(&table, EventType::kNodeDataChanged, "/p") == Strings{"1 data /p"});
    CHECK(Fire(&table, EventType::kNodeDeleted, "/p/c") == Strings{"1 children /p"});
    CHECK(Fire(&table, EventType::kNodeDeleted, "/p") == Strings{"1 deleted /p"});
  }
}

TEST_CASE("a recursive watch is notified of events below its node, not of changes of children") {
  WatchTable table;
  table.Add(1, "/p", WatchKind::kPersistentRecursive);
  table.Add(2, "/", WatchKind::kPersistentRecursive);
  CHECK(Fire(&table, EventType::kNodeCreated, "/p") == Strings{"1 created /p", "2 created /p"});
  CHECK(Fire(&table, EventType::kNodeCreated, "/p/c/d") ==
        Strings{"1 created /p/c/d", "2 created /p/c/d"});
  CHECK(Fire(&table, EventType::kNodeDataChanged, "/pc") == Strings{"2 data /pc"});
  CHECK(Fire(&table, EventType::kNodeDataChanged, "/") == Strings{"2 data /"});
  CHECK(Fire(&table, EventType::kNodeDeleted, "/p") == Strings{"1 deleted /p", "2 deleted /p"});
  CHECK(table.watch_count() == 2);
}

TEST_CASE("watches of all kinds on a path: each event fires once, and lasting watches remain") {
  WatchTable table;
  for (WatchKind kind : {WatchKind::kPersistent, WatchKind::kPersistentRecursive, WatchKind::kData,
                         WatchKind::kChild}) {
    table.Add(1, "/p", kind);
  }
  table.Add(1, "/", WatchKind::kPersistentRecursive);
  CHECK(Fire(&table, EventType::kNodeDeleted, "/p") == Strings{"1 deleted /p"});
  CHECK_FALSE(table.Remove(1, "/p/c", WatcherType::kAny));
  CHECK(Fire(&table, EventType::kNodeCreated, "/p/c") ==
        Strings{"1 created /p/c", "1 children /p"});
  CHECK(table.Contains(1, "/p", WatcherType::kPersistent));
  CHECK(table.Contains(1, "/p", WatcherType::kPersistentRecursive));
}

TEST_CASE("Remove removes watches by their type") {
  WatchTable table;
  const auto add_all = [&table] {
    for (WatchKind kind : {WatchKind::kData, WatchKind::kChild, WatchKind::kPersistent,
                           WatchKind::kPersistentRecursive}) {
      table.Add(1, "/p", kind);
    }
  };
  add_all();
  CHECK_FALSE(table.Remove(2, "/p", WatcherType::kAny));
  CHECK_FALSE(table.Remove(1, "/q", WatcherType::kAny));
  CHECK(table.Remove(1, "/p", WatcherType::kAny));
  CHECK(table.empty());
  CHECK(table.path_count() == 0);
  CHECK_FALSE(table.Remove(1, "/p", WatcherType::kAny));

  add_all();
  CHECK(table.Remove(1, "/p", WatcherType::kPersistent));
  CHECK_FALSE(table.Contains(1, "/p", WatcherType::kPersistent));
  CHECK(table.Remove(1, "/p", WatcherType::kPersistentRecursive));
  CHECK_FALSE(table.Remove(1, "/p", WatcherType::kPersistentRecursive));
  CHECK(table.Remove(1, "/p", WatcherType::kData));
  CHECK_FALSE(table.Contains(1, "/p", WatcherType::kData));
  CHECK(table.Remove(1, "/p", WatcherType::kChildren));
  CHECK(table.empty());

  // Remove removes one-shot watches first, then the others.
  add_all();
  CHECK(table.Remove(1, "/p", WatcherType::kChildren));
  CHECK(Fire(&table, EventType::kNodeCreated, "/p/c") ==
        Strings{"1 created /p/c", "1 children /p"});
  CHECK(table.Remove(1, "/p", WatcherType::kChildren));
  CHECK_FALSE(table.Remove(1, "/p", WatcherType::kChildren));
  CHECK(Fire(&table, EventType::kNodeDeleted, "/p/c") == Strings{"1 deleted /p/c"});
  CHECK(table.Remove(1, "/p", WatcherType::kData));
  CHECK(table.Remove(1, "/p", WatcherType::kData));
  CHECK(Fire(&table, EventType::kNodeDeleted, "/p/c") == Strings{"1 deleted /p/c"});
  CHECK(table.Remove(1, "/p", WatcherType::kData));
  CHECK_FALSE(table.Remove(1, "/p", WatcherType::kAny));
  CHECK(table.empty());
}

TEST_CASE("ForEachNodeWatch lists the watches of nodes") {
  WatchTable table;
  table.Add(1, "/a", WatchKind::kData);
  table.Add(1, "/b", WatchKind::kChild);
  table.Add(2, "/c", WatchKind::kPersistent);
  table.Add(3, "/d", WatchKind::kPersistentRecursive);
  std::set<std::pair<WatcherId, std::string>> listed;
  CHECK(table.ForEachNodeWatch([&listed](WatcherId id, std::string_view path) {
    CHECK(listed.emplace(id, std::string(path)).second);
    return true;
  }));
  CHECK(listed == std::set<std::pair<WatcherId, std::string>>{{1, "/a"}, {2, "/c"}, {3, "/d"}});

  size_t shown = 0;
  CHECK_FALSE(table.ForEachNodeWatch([&shown](WatcherId, std::string_view) {
    ++shown;
    return shown < 2;
  }));
  CHECK(shown == 2);
}

TEST_CASE("the watches of nodes are counted") {
  WatchTable table;
  const auto counts = [&table] {
    return std::vector<size_t>{table.node_watch_count(), table.node_path_count(),
                               table.node_watcher_count()};
  };
  table.Add(1, "/a", WatchKind::kChild);
  CHECK(counts() == std::vector<size_t>{0, 0, 0});
  table.Add(1, "/a", WatchKind::kData);
  table.Add(2, "/a", WatchKind::kPersistentRecursive);
  table.Add(2, "/b", WatchKind::kPersistent);
  table.Add(2, "/b", WatchKind::kPersistentRecursive);
  CHECK(counts() == std::vector<size_t>{4, 2, 2});
  table.Fire(EventType::kNodeDataChanged, "/a", [](WatcherId, EventType, std::string_view) {});
  CHECK(counts() == std::vector<size_t>{3, 2, 1});
  CHECK(table.Remove(2, "/a", WatcherType::kAny));
  CHECK(counts() == std::vector<size_t>{2, 1, 1});
  table.RemoveWatcher(2);
  CHECK(counts() == std::vector<size_t>{0, 0, 0});
}

// A simple model of WatchTable: a list of all watches.
class Model {
 public:
  void Add(WatcherId id, const std::string& path, WatchKind kind) {
    switch (kind) {
      case WatchKind::kData:
      case WatchKind::kChild:
        watches_.insert({path, id, kind, true});
        return;
      case WatchKind::kPersistent:
        watches_.insert({path, id, WatchKind::kData, false});
        watches_.insert({path, id, WatchKind::kChild, false});
        return;
      case WatchKind::kPersistentRecursive:
        watches_.insert({path, id, kind, false});
        return;
    }
  }
  void RemoveWatcher(WatcherId id) {
    std::erase_if(watches_, [id](const Watch& watch) { return watch.id == id; });
  }
  bool Remove(WatcherId id, const std::string& path, WatcherType type) {
    const Watch data{path, id, WatchKind::kData, true};
    const Watch child{path, id, WatchKind::kChild, true};
    const Watch lasting_data{path, id, WatchKind::kData, false};
    const Watch lasting_child{path, id, WatchKind::kChild, false};
    const Watch recursive{path, id, WatchKind::kPersistentRecursive, false};
    const auto erase = [this](const Watch& watch) { return watches_.erase(watch) > 0; };
    switch (type) {
      case WatcherType::kChildren:
        return erase(child) || erase(lasting_child);
      case WatcherType::kData:
        return erase(data) || erase(lasting_data) || erase(recursive);
      case WatcherType::kAny:
        return std::erase_if(watches_, [&](const Watch& watch) {
                 return watch.id == id && watch.path == path;
               }) > 0;
      case WatcherType::kPersistent:
        return std::erase_if(watches_, [&](const Watch& watch) {
                 return watch == lasting_data || watch == lasting_child;
               }) > 0;
      case WatcherType::kPersistentRecursive:
        return erase(recursive);
    }
    return false;
  }
  Strings Fire(EventType type, const std::string& path) {
    const std::string event = type == EventType::kNodeCreated   ? " created "
                              : type == EventType::kNodeDeleted ? " deleted "
                                                                : " data ";
    std::set<WatcherId> told = Spend(path, WatchKind::kData);
    if (type == EventType::kNodeDeleted) told.merge(Spend(path, WatchKind::kChild));
    for (const Watch& watch : watches_) {
      if (watch.kind != WatchKind::kPersistentRecursive) continue;
      const std::string prefix = watch.path == "/" ? "/" : watch.path + "/";
      if (path == watch.path || path.starts_with(prefix)) told.insert(watch.id);
    }
    Strings lines;
    for (WatcherId id : told) lines.push_back(std::to_string(id) + event + path);
    if (type == EventType::kNodeDataChanged) return lines;
    const size_t slash = path.rfind('/');
    const std::string parent = slash == 0 ? "/" : path.substr(0, slash);
    for (WatcherId id : Spend(parent, WatchKind::kChild)) {
      lines.push_back(std::to_string(id) + " children " + parent);
    }
    return lines;
  }
  // Returns the numbers of distinct (watcher, path, list), of paths and of watchers.
  std::array<size_t, 3> Counts() const {
    std::set<std::tuple<std::string, WatcherId, WatchKind>> watches;
    std::set<std::string> paths;
    std::set<WatcherId> watchers;
    for (const Watch& watch : watches_) {
      watches.emplace(watch.path, watch.id, watch.kind);
      paths.insert(watch.path);
      watchers.insert(watch.id);
    }
    return {watches.size(), paths.size(), watchers.size()};
  }

 private:
  struct Watch {
    std::string path;
    WatcherId id;
    WatchKind kind;
    bool one_shot;
    auto operator<=>(const Watch&) const = default;
  };

  std::set<WatcherId> Spend(const std::string& path, WatchKind kind) {
    std::set<WatcherId> ids;
    for (const Watch& watch : watches_) {
      if (watch.path == path && watch.kind == kind) ids.insert(watch.id);
    }
    std::erase_if(watches_, [&](const Watch& watch) {
      return watch.path == path && watch.kind == kind && watch.one_shot;
    });
    return ids;
  }

  std::set<Watch> watches_;
};

TEST_CASE("the watch table agrees with a list of all watches") {
  const std::vector<std::string> paths = {"/", "/a", "/a/b", "/a/c", "/a/b/d", "/ab", "/d/e"};
  std::mt19937_64 random(7);
  WatchTable table;
  Model model;
  for (int step = 0; step < 20'000; ++step) {
    const std::string& path = paths[random() % paths.size()];
    const WatcherId watcher = random() % 12;
    const uint64_t what = random() % 20;
    if (what < 11) {
      const auto kind = static_cast<WatchKind>(random() % 4);
      table.Add(watcher, path, kind);
      model.Add(watcher, path, kind);
    } else if (what < 14) {
      const auto type = static_cast<WatcherType>(1 + random() % 5);
      const bool contained = table.Contains(watcher, path, type);
      REQUIRE(table.Remove(watcher, path, type) == contained);
      REQUIRE(model.Remove(watcher, path, type) == contained);
    } else if (what == 14) {
      table.RemoveWatcher(watcher);
      model.RemoveWatcher(watcher);
    } else {
      auto type = static_cast<EventType>(1 + random() % 3);
      if (path == "/") type = EventType::kNodeDataChanged;
      REQUIRE(Fire(&table, type, path) == model.Fire(type, path));
    }
    const std::array<size_t, 3> counts = model.Counts();
    REQUIRE(table.watch_count() == counts[0]);
    REQUIRE(table.path_count() == counts[1]);
    REQUIRE(table.watcher_count() == counts[2]);
    REQUIRE(table.empty() == (counts[0] == 0));
  }
}

TEST_CASE("the watches of a connection are removed in parts and listed in parts") {
  WatchTable table;
  for (int i = 0; i < 5000; ++i) table.Add(7, "/" + std::to_string(i), WatchKind::kData);
  table.Add(8, "/1", WatchKind::kData);
  std::set<std::string> shown;
  for (size_t part = 0; part < WatchTable::kParts; ++part) {
    size_t of_part = 0;
    CHECK(table.ForEachNodeWatch(part, [&](WatcherId, std::string_view path) {
      shown.emplace(path);
      ++of_part;
      return true;
    }));
    CHECK(of_part < 100);
  }
  CHECK(shown.size() == 5000);
  int parts = 1;
  for (; !table.RemoveWatcher(7, 1000); ++parts) REQUIRE(parts < 10);
  CHECK(parts == 5);
  CHECK(table.watch_count() == 1);
  CHECK(table.RemoveWatcher(7));
}

TEST_CASE("BytesOf a connection decreases when its watches are removed") {
  WatchTable table;
  CHECK(table.BytesOf(1) == 0);
  table.Add(1, "/a", WatchKind::kChild);
  const size_t one = table.BytesOf(1);
  CHECK(one > 2);
  for (int i = 0; i < 100; ++i) table.Add(1, "/a", WatchKind::kChild);  // the same one
  CHECK(table.BytesOf(1) == one);
  table.Add(1, "/b", WatchKind::kData);
  table.Add(2, "/a", WatchKind::kChild);
  CHECK(table.BytesOf(1) == 2 * one);
  CHECK(table.BytesOf(2) == one);
  CHECK(table.bytes() == 3 * one);
  table.Fire(EventType::kNodeDataChanged, "/b", [](WatcherId, EventType, std::string_view) {});
  CHECK(table.BytesOf(1) == one);
  CHECK(table.Remove(1, "/a", WatcherType::kChildren));
  CHECK(table.BytesOf(1) == 0);
  CHECK(table.RemoveWatcher(2));
  CHECK(table.BytesOf(2) == 0);
  CHECK(table.bytes() == 0);
}

TEST_CASE("the watches at one path are visited, and no others") {
  WatchTable table;
  table.Add(1, "/a", WatchKind::kData);
  table.Add(2, "/a", WatchKind::kChild);
  table.Add(3, "/a", WatchKind::kPersistent);
  table.Add(4, "/a", WatchKind::kPersistentRecursive);
  table.Add(5, "/a/b", WatchKind::kData);
  table.Add(6, "/", WatchKind::kPersistentRecursive);
  Strings seen;
  size_t max = SIZE_MAX;
  const auto visit = [&](WatcherId watcher, WatchTable::WatchOf of) {
    static constexpr std::string_view kNames[] = {"node", "children", "subtree"};
    seen.push_back(std::to_string(watcher) + " " + std::string(kNames[static_cast<size_t>(of)]));
    return seen.size() < max;
  };
  table.ForEachWatchAt("/a", visit);
  CHECK(std::set<std::string>(seen.begin(), seen.end()) ==
        std::set<std::string>{"1 node", "2 children", "3 node", "3 children", "4 subtree"});
  CHECK(seen.size() == 5);
  seen.clear();
  max = 2;
  table.ForEachWatchAt("/a", visit);
  CHECK(seen.size() == 2);
  seen.clear();
  table.ForEachWatchAt("/none", visit);
  CHECK(seen.empty());
}

}  // namespace
}  // namespace quorate::tree
