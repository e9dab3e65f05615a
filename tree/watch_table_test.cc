#include "tree/watch_table.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
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

TEST_CASE("creation tells data watchers of the path and child watchers of the parent") {
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

TEST_CASE("deletion tells each watcher of the path once, then child watchers of the parent") {
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

TEST_CASE("a change of data tells data watchers alone") {
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

TEST_CASE("a watch that is set twice is one") {
  WatchTable table;
  table.Add(1, "/a", WatchKind::kData);
  table.Add(1, "/a", WatchKind::kData);
  CHECK(table.watch_count() == 1);
  CHECK(Fire(&table, EventType::kNodeDataChanged, "/a") == Strings{"1 data /a"});
  CHECK(table.empty());
  table.Add(1, "/a", WatchKind::kData);
  CHECK(Fire(&table, EventType::kNodeDataChanged, "/a") == Strings{"1 data /a"});
}

TEST_CASE("a connection that is gone takes its watches with it") {
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

TEST_CASE("the watch table agrees with a set of triples") {
  using Triple = std::tuple<std::string, WatchKind, WatcherId>;
  const std::vector<std::string> paths = {"/", "/a", "/a/b", "/a/c", "/d", "/d/e"};
  std::mt19937_64 random(7);
  WatchTable table;
  std::set<Triple> expected;
  const auto take = [&expected](const std::string& path, WatchKind kind) {
    std::set<WatcherId> watchers;
    std::erase_if(expected, [&](const Triple& triple) {
      if (std::get<0>(triple) != path || std::get<1>(triple) != kind) return false;
      watchers.insert(std::get<2>(triple));
      return true;
    });
    return watchers;
  };
  for (int step = 0; step < 50'000; ++step) {
    const std::string& path = paths[random() % paths.size()];
    const WatcherId watcher = random() % 20;
    const uint64_t what = random() % 10;
    if (what < 7) {
      const WatchKind kind = random() % 2 == 0 ? WatchKind::kData : WatchKind::kChild;
      table.Add(watcher, path, kind);
      expected.emplace(path, kind, watcher);
    } else if (what == 7) {
      table.RemoveWatcher(watcher);
      std::erase_if(expected, [&](const Triple& t) { return std::get<2>(t) == watcher; });
    } else if (path != "/") {
      const bool deleted = what == 8;
      std::set<WatcherId> of_path = take(path, WatchKind::kData);
      if (deleted) of_path.merge(take(path, WatchKind::kChild));
      const size_t slash = path.rfind('/');
      const std::string parent = slash == 0 ? "/" : path.substr(0, slash);
      Strings told;
      for (WatcherId id : of_path) {
        told.push_back(std::to_string(id) + (deleted ? " deleted " : " created ") + path);
      }
      for (WatcherId id : take(parent, WatchKind::kChild)) {
        told.push_back(std::to_string(id) + " children " + parent);
      }
      const EventType type = deleted ? EventType::kNodeDeleted : EventType::kNodeCreated;
      REQUIRE(Fire(&table, type, path) == told);
    }
    REQUIRE(table.watch_count() == expected.size());
    std::set<std::string> watched;
    std::set<WatcherId> watchers;
    for (const auto& [at, kind, id] : expected) {
      watched.insert(at);
      watchers.insert(id);
    }
    REQUIRE(table.path_count() == watched.size());
    REQUIRE(table.watcher_count() == watchers.size());
    REQUIRE(table.empty() == expected.empty());
  }
}

}  // namespace
}  // namespace quorate::tree
