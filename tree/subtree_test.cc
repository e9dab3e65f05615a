// SPDX-License-Identifier: Apache-2.0

#include "tree/subtree.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tree/testing/tree_test_util.h"
#include "tree/tree.h"

namespace quorate::tree {
namespace {

using Strings = std::vector<std::string>;

Strings SplitOf(const std::string& path) {
  Strings parts;
  size_t begin = 0;
  for (size_t slash; (slash = path.find('/', begin)) != std::string::npos; begin = slash + 1) {
    parts.push_back(path.substr(begin, slash - begin));
  }
  parts.push_back(path.substr(begin));
  return parts;
}

// Reads to the end, or until `max` znodes, with pieces of `steps_max`.
struct ReadAll {
  Strings paths;
  Strings data;
  size_t pieces = 0;
  size_t longest_piece = 0;
  size_t bytes_max = 0;
  ErrorCode error = ErrorCode::kOk;

  void Run(const Tree& tree, const SubtreeQuery& query, SubtreePlace* place, size_t steps_max,
           size_t max = SIZE_MAX, std::span<const Identity> identities = {}) {
    while (!place->done() && !place->is_too_deep() && paths.size() < max) {
      place->SortNames(query);
      size_t steps = 0;
      error = tree.ReadSubtree(
          query, identities, steps_max,
          [&](const SubtreeEntry& entry) {
            if (paths.size() == max) return false;
            paths.emplace_back(entry.path);
            data.emplace_back(entry.may_read ? entry.data : "(refused)");
            return true;
          },
          place, &steps);
      if (error != ErrorCode::kOk) return;
      ++pieces;
      longest_piece = std::max(longest_piece, steps);
      bytes_max = std::max(bytes_max, place->bytes());
    }
  }
};

Strings Read(const Tree& tree, const SubtreeQuery& query) {
  SubtreePlace place;
  ReadAll all;
  all.Run(tree, query, &place, 1000);
  REQUIRE(all.error == ErrorCode::kOk);
  return all.paths;
}

SubtreeQuery MakeQuery(const std::string& top, SubtreeOrder order) {
  SubtreeQuery query;
  query.top = top;
  query.order = order;
  return query;
}

void CreateAll(Server* server, const Strings& paths) {
  for (const std::string& path : paths) {
    REQUIRE(server->Do(MakeCreate(path, "data of " + path)).error == ErrorCode::kOk);
  }
}

TEST_CASE("a subtree is read in the order of its paths or of its levels") {
  Server server;
  server.OpenSession();
  CreateAll(&server,
            {"/t", "/t/b", "/t/a", "/t/a-b", "/t/a/y", "/t/a/x", "/t/a/x/1", "/t/b/z", "/u"});
  CHECK(Read(server.tree(), MakeQuery("/t", SubtreeOrder::kPaths)) ==
        Strings{"a", "a/x", "a/x/1", "a/y", "a-b", "b", "b/z"});
  CHECK(Read(server.tree(), MakeQuery("/t", SubtreeOrder::kLevels)) ==
        Strings{"a", "a-b", "b", "a/x", "a/y", "b/z", "a/x/1"});
  CHECK(Read(server.tree(), MakeQuery("/t/b/z", SubtreeOrder::kLevels)).empty());
  for (const SubtreeOrder order : {SubtreeOrder::kPaths, SubtreeOrder::kLevels}) {
    SubtreeQuery query = MakeQuery("/t", order);
    query.depth_max = 1;
    CHECK(Read(server.tree(), query) == Strings{"a", "a-b", "b"});
    query.depth_max = 2;
    query.prefix = "a/";
    CHECK(Read(server.tree(), query) == Strings{"a/x", "a/y"});
    query.prefix = "a";
    query.depth_max = 1;
    CHECK(Read(server.tree(), query) == Strings{"a", "a-b"});
    query = MakeQuery("/", order);
    query.prefix = "t/a/x";
    CHECK(Read(server.tree(), query) == Strings{"t/a/x", "t/a/x/1"});
  }
}

TEST_CASE("a read of a subtree shows the kinds that were asked for") {
  Server server;
  server.OpenSession();
  CreateAll(&server, {"/t", "/t/p", "/t/p/q"});
  server.Do(MakeCreate("/t/p/e", "", CreateMode::kEphemeral));
  server.Do(MakeCreateContainer("/t/c"));
  server.Do(MakeCreateTtl("/t/ttl", 1000));
  const auto of = [&](std::vector<NodeKind> kinds) {
    SubtreeQuery query = MakeQuery("/t", SubtreeOrder::kPaths);
    for (const NodeKind kind : kinds) query.kinds |= 1u << static_cast<uint32_t>(kind);
    return Read(server.tree(), query);
  };
  CHECK(of({}) == Strings{"c", "p", "p/e", "p/q", "ttl"});
  CHECK(of({NodeKind::kPersistent}) == Strings{"p", "p/q"});
  CHECK(of({NodeKind::kEphemeral}) == Strings{"p/e"});
  CHECK(of({NodeKind::kContainer, NodeKind::kTtl}) == Strings{"c", "ttl"});
}

TEST_CASE("a znode that may not be read is shown without its data and without what is below it") {
  Server server;
  server.OpenSession();
  CreateAll(&server, {"/t", "/t/a", "/t/a/b"});
  server.Do(MakeCreate("/t/s", "secret"));
  server.Do(MakeCreate("/t/s/hidden", "secret"));
  server.Do(MakeSetAcl("/t/s", {MakeAcl(31, "digest", "u:p")}));
  for (const SubtreeOrder order : {SubtreeOrder::kPaths, SubtreeOrder::kLevels}) {
    SubtreeQuery query = MakeQuery("/t", order);
    query.with_data = true;
    SubtreePlace place;
    ReadAll all;
    all.Run(server.tree(), query, &place, 1);
    Strings paths = all.paths;
    std::sort(paths.begin(), paths.end());
    CHECK(paths == Strings{"a", "a/b", "s"});
    const auto at =
        static_cast<size_t>(std::find(all.paths.begin(), all.paths.end(), "s") - all.paths.begin());
    CHECK(all.data[at] == "(refused)");
    CHECK(all.data[0] == "data of /t/a");
    // Nor does a place lead below it.
    std::optional<SubtreePlace> below = SubtreePlace::Behind(query, "s/a");
    REQUIRE(below.has_value());
    ReadAll rest;
    rest.Run(server.tree(), query, &*below, 1);
    CHECK(std::find(rest.paths.begin(), rest.paths.end(), "s/hidden") == rest.paths.end());
    const Identity user{"digest", "u:p"};
    SubtreePlace again;
    ReadAll permitted;
    permitted.Run(server.tree(), query, &again, 1, SIZE_MAX, std::span(&user, 1));
    CHECK(permitted.paths.size() == 4);
  }
  SubtreePlace place;
  ReadAll refused;
  refused.Run(server.tree(), MakeQuery("/t/s", SubtreeOrder::kPaths), &place, 10);
  CHECK(refused.error == ErrorCode::kNoAuth);
  SubtreePlace other;
  refused.Run(server.tree(), MakeQuery("/none", SubtreeOrder::kPaths), &other, 10);
  CHECK(refused.error == ErrorCode::kNoNode);
}

TEST_CASE("a text that is no relative path within the depth is no place in a subtree") {
  SubtreeQuery query;
  query.depth_max = 2;
  CHECK(SubtreePlace::Behind(query, "a/b").has_value());
  for (const char* last : {"", "/", "/a", "a/", "a//b", "a/../b", ".", "a/b/c", "a\x01"}) {
    CAPTURE(last);
    CHECK_FALSE(SubtreePlace::Behind(query, last).has_value());
  }
}

// A random tree, and the paths in it relative to "/t".
struct RandomTree {
  Server first;
  Server second;  // another member
  Strings paths;

  explicit RandomTree(std::mt19937_64* random) {
    static const Strings kNames = {"a", "a-", "a0", "ab", "abc", "b", "b.", "c", "zz", "~"};
    std::set<std::string> there;
    for (Server* server : {&first, &second}) {
      server->computes_digest = false;
      server->OpenSession();
      server->Do(MakeCreate("/t"));
    }
    for (int i = 0; i < 400; ++i) {
      std::string path = "/t";
      const size_t depth = 1 + (*random)() % 5;
      for (size_t k = 0; k < depth; ++k) {
        path += "/" + kNames[(*random)() % kNames.size()];
        if (!there.insert(path.substr(3)).second) continue;
        for (Server* server : {&first, &second}) {
          REQUIRE(server->Do(MakeCreate(path)).error == ErrorCode::kOk);
        }
      }
    }
    paths.assign(there.begin(), there.end());
  }

  Strings Expected(const SubtreeQuery& query) const {
    std::map<std::pair<size_t, Strings>, std::string> ordered;
    for (const std::string& path : paths) {
      const Strings parts = SplitOf(path);
      if (!path.starts_with(query.prefix) || parts.size() > query.depth_max) continue;
      ordered[{query.order == SubtreeOrder::kLevels ? parts.size() : 0, parts}] = path;
    }
    Strings expected;
    for (const auto& [key, path] : ordered) expected.push_back(path);
    return expected;
  }
};

TEST_CASE(
    "a read of a subtree in pieces, with few bytes and on changing members, shows each once") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const RandomTree trees(&random);
    SubtreeQuery query =
        MakeQuery("/t", random() % 2 == 0 ? SubtreeOrder::kPaths : SubtreeOrder::kLevels);
    static const Strings kPrefixes = {"", "", "a", "ab", "a/", "a-/b", "zz/a/", "b./"};
    query.prefix = kPrefixes[random() % kPrefixes.size()];
    if (random() % 2 == 0) query.depth_max = 1 + random() % 4;
    query.names_bytes_max = random() % 3 == 0 ? 8 + random() % 60 : 4096;
    ReadAll all;
    SubtreePlace place;
    const bool changes_member = random() % 2 == 0;
    const Tree* tree = &trees.first.tree();
    while (!place.done()) {
      all.Run(*tree, query, &place, 1 + random() % 20, all.paths.size() + 1 + random() % 40);
      if (!changes_member || place.last().empty()) continue;
      std::optional<SubtreePlace> other = SubtreePlace::Behind(query, place.last());
      REQUIRE(other.has_value());
      if (place.done()) break;
      place = *std::move(other);
      tree = tree == &trees.first.tree() ? &trees.second.tree() : &trees.first.tree();
    }
    CHECK(all.paths == trees.Expected(query));
  }
}

TEST_CASE("a znode that exists throughout a read of a changing subtree is shown exactly once") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    RandomTree trees(&random);
    SubtreeQuery query =
        MakeQuery("/t", random() % 2 == 0 ? SubtreeOrder::kPaths : SubtreeOrder::kLevels);
    query.names_bytes_max = 64;
    std::set<std::string> changed;
    ReadAll all;
    SubtreePlace place;
    while (!place.done()) {
      all.Run(trees.first.tree(), query, &place, 5, all.paths.size() + 10);
      const bool creates = random() % 2 == 0;
      const std::string path = creates ? "new" + std::to_string(random() % 50)
                                       : trees.paths[random() % trees.paths.size()];
      const std::string full = "/t/" + path;
      const Op op = creates ? MakeCreate(full) : MakeDelete(full);
      if (trees.first.Do(op).error == ErrorCode::kOk) changed.insert(path);
    }
    const std::set<std::string> shown(all.paths.begin(), all.paths.end());
    CHECK(shown.size() == all.paths.size());
    for (const std::string& path : trees.paths) {
      CAPTURE(path);
      CHECK((changed.contains(path) || shown.contains(path)));
    }
    CHECK_FALSE(changed.empty());
  }
}

// Returns "a/a/a" for 3.
std::string ChainOf(size_t depth) {
  std::string path = "a";
  for (size_t i = 1; i < depth; ++i) path += "/a";
  return path;
}

void CreateChain(Server* server, size_t depth) {
  server->computes_digest = false;
  server->OpenSession();
  REQUIRE(server->Do(MakeCreate("/t")).error == ErrorCode::kOk);
  std::string path = "/t";
  for (size_t i = 0; i < depth; ++i) {
    REQUIRE(server->Do(MakeCreate(path.append("/a"))).error == ErrorCode::kOk);
  }
}

TEST_CASE("no place is deeper than a read goes, however long the text is") {
  for (const SubtreeOrder order : {SubtreeOrder::kPaths, SubtreeOrder::kLevels}) {
    const SubtreeQuery query = MakeQuery("/t", order);
    const size_t max = SubtreeDepthMax(order);
    const std::optional<SubtreePlace> deepest = SubtreePlace::Behind(query, ChainOf(max));
    REQUIRE(deepest.has_value());
    CHECK(deepest->bytes() > max * 100);
    CHECK(deepest->bytes() < max * 1000);
    CHECK_FALSE(SubtreePlace::Behind(query, ChainOf(max + 1)).has_value());
    CHECK_FALSE(SubtreePlace::Behind(query, ChainOf(4'000'000)).has_value());
  }
}

TEST_CASE("the work of a piece at a deep place is counted, and each piece goes on") {
  Server server;
  constexpr size_t kDepth = 2000;
  CreateChain(&server, kDepth);
  for (const char* name : {"/t/b", "/t/c"}) server.Do(MakeCreate(name));
  SubtreePlace place;
  ReadAll all;
  all.Run(server.tree(), MakeQuery("/t", SubtreeOrder::kPaths), &place, 100);
  CHECK(place.done());
  CHECK(all.paths.size() == kDepth + 2);
  CHECK(all.paths.back() == "c");
  CHECK(all.longest_piece > kDepth);
  CHECK(all.longest_piece < 2 * kDepth);
}

TEST_CASE("a read ends where a subtree is too deep") {
  Server server;
  const size_t max = SubtreeDepthMax(SubtreeOrder::kPaths);
  CreateChain(&server, max);
  SubtreePlace place;
  ReadAll all;
  all.Run(server.tree(), MakeQuery("/t", SubtreeOrder::kPaths), &place, 10'000);
  CHECK(place.done());
  CHECK(all.paths.size() == max);
  REQUIRE(server.Do(MakeCreate("/t/" + ChainOf(max + 1))).error == ErrorCode::kOk);
  place = {};
  all.Run(server.tree(), MakeQuery("/t", SubtreeOrder::kPaths), &place, 10'000);
  CHECK(place.is_too_deep());
  CHECK_FALSE(place.done());
  SubtreeQuery query = MakeQuery("/t", SubtreeOrder::kLevels);
  place = {};
  ReadAll levels;
  levels.Run(server.tree(), query, &place, 10'000);
  CHECK(place.is_too_deep());
  CHECK(levels.paths.size() == SubtreeDepthMax(SubtreeOrder::kLevels));
  query.depth_max = SubtreeDepthMax(SubtreeOrder::kLevels);
  place = {};
  levels = {};
  levels.Run(server.tree(), query, &place, 10'000);
  CHECK(place.done());
}

TEST_CASE("the levels of a place that are gone are freed when the tree is not locked") {
  Server server;
  server.OpenSession();
  CreateAll(&server, {"/t", "/t/b"});
  const SubtreeQuery query = MakeQuery("/t", SubtreeOrder::kPaths);
  std::optional<SubtreePlace> place = SubtreePlace::Behind(query, ChainOf(4000));
  REQUIRE(place.has_value());
  const size_t before = place->bytes();
  size_t steps = 0;
  REQUIRE(server.tree().ReadSubtree(
              query, {}, 1, [](const SubtreeEntry&) { return true; }, &*place, &steps) ==
          ErrorCode::kOk);
  CHECK(place->has_names_to_sort());
  CHECK(place->bytes() >= before);
  place->SortNames(query);
  CHECK_FALSE(place->has_names_to_sort());
  CHECK(place->bytes() < before / 10);
  ReadAll all;
  all.Run(server.tree(), query, &*place, 10);
  CHECK(all.paths == Strings{"b"});
}

TEST_CASE("a read of a large directory takes bounded memory and short pieces") {
  Server server;
  server.computes_digest = false;
  server.OpenSession();
  server.Do(MakeCreate("/t"));
  constexpr int kChildren = 30'000;
  for (int i = 0; i < kChildren;) {
    std::vector<Op> ops;
    Strings paths;
    for (int end = std::min(kChildren, i + 1000); i < end; ++i) {
      paths.push_back("/t/" + std::to_string(i * 7919 % kChildren));
    }
    for (const std::string& path : paths) ops.push_back(MakeCreate(path));
    server.DoMulti(ops);
  }
  SubtreeQuery query = MakeQuery("/t", SubtreeOrder::kPaths);
  query.names_bytes_max = 40'000;
  ReadAll all;
  SubtreePlace place;
  all.Run(server.tree(), query, &place, 500);
  CHECK(all.paths.size() == kChildren);
  CHECK(std::is_sorted(all.paths.begin(), all.paths.end()));
  CHECK(all.bytes_max < 3 * query.names_bytes_max);
  // A piece of the directory's hash table has some hundred children.
  CHECK(all.longest_piece < 500 + 1000);
}

TEST_CASE("a read of many children with long names takes bounded memory") {
  Server server;
  server.computes_digest = false;
  server.OpenSession();
  server.Do(MakeCreate("/t"));
  constexpr int kChildren = 300;
  for (int i = 0; i < kChildren; ++i) {
    const std::string path =
        "/t/" + std::to_string(1000 + i * 7 % kChildren) + std::string(20'000, 'n');
    REQUIRE(server.Do(MakeCreate(path)).error == ErrorCode::kOk);
  }
  SubtreeQuery query = MakeQuery("/t", SubtreeOrder::kPaths);
  query.names_bytes_max = 200'000;
  ReadAll all;
  SubtreePlace place;
  all.Run(server.tree(), query, &place, 4096);
  CHECK(all.paths.size() == kChildren);
  CHECK(std::is_sorted(all.paths.begin(), all.paths.end()));
  CHECK(all.bytes_max < 5 * query.names_bytes_max);
}

}  // namespace
}  // namespace quorate::tree
