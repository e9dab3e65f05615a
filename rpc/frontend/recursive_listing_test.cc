// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/recursive_listing.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "rpc/frontend/listing.h"
#include "tree/testing/tree_test_util.h"

namespace quorate::rpc {
namespace {

using tree::ErrorCode;
using tree::EventType;
using Strings = std::vector<std::string>;

constexpr size_t kNoLimit = 64u << 20;

class Fixture {
 public:
  Fixture() {
    server.OpenSession();
    server.computes_digest = false;  // it would cover thousands of znodes after each command
    Make("/r");
  }
  void Make(const std::string& path) {
    REQUIRE(server.Do(tree::MakeCreate(path)).error == ErrorCode::kOk);
  }
  // Creates a znode with `count` children.
  void MakeMany(const std::string& path, size_t count) {
    Make(path);
    for (size_t i = 0; i < count; ++i) Make(path + "/" + std::to_string(i));
  }
  // Reads the list to its end. Returns the number of pieces.
  size_t ReadAll(RecursiveListing* listing) {
    size_t pieces = 0;
    for (; !listing->done(); ++pieces) REQUIRE(Read(listing) == ErrorCode::kOk);
    return pieces;
  }
  ErrorCode Read(RecursiveListing* listing) {
    size_t spent = 0;
    const ErrorCode error = listing->ReadNext(server.tree(), {}, &spent);
    CHECK(spent <= 2 * kNodesPerHold);
    return error;
  }

  tree::Server server;
};

Strings PathsOf(RecursiveListing* listing) {
  const RecursiveListing::Result result = listing->Finish();
  Strings paths;
  BigEndianReader reader(result.paths);
  while (!reader.empty()) paths.emplace_back(reader.String());
  CHECK(reader.ok());
  CHECK(paths.size() == result.count);
  return paths;
}

TEST_CASE("the paths of a level come before those of the next one, and end at the maximum") {
  Fixture f;
  for (const char* path : {"/r/a", "/r/a/x", "/r/a/x/y", "/r/b", "/r/b/z", "/s"}) f.Make(path);
  for (size_t max = 0; max <= 6; ++max) {
    CAPTURE(max);
    RecursiveListing listing("/r", max, kNoLimit);
    CHECK(f.ReadAll(&listing) == 1);
    const Strings paths = PathsOf(&listing);
    REQUIRE(paths.size() == std::min<size_t>(max, 5));
    const auto level = [](const std::string& path) {
      return std::count(path.begin(), path.end(), '/');
    };
    CHECK(std::is_sorted(paths.begin(), paths.end(), [&](const auto& one, const auto& other) {
      return level(one) < level(other);
    }));
  }
  RecursiveListing root("", 100, kNoLimit);
  f.ReadAll(&root);
  CHECK(PathsOf(&root).size() == 10);
}

TEST_CASE(
    "a recursive list needs a top that may be read, and shows nothing below unreadable ones") {
  Fixture f;
  const std::vector<tree::Acl> no_read = {
      tree::MakeAcl(tree::permission::kAll & ~tree::permission::kRead, "world", "anyone")};
  f.server.Do(tree::MakeCreate("/r/secret", "", tree::CreateMode::kPersistent, no_read));
  f.Make("/r/secret/below");
  RecursiveListing whole("/r", 100, kNoLimit);
  f.ReadAll(&whole);
  CHECK(PathsOf(&whole) == Strings{"/r/secret"});
  RecursiveListing secret("/r/secret", 100, kNoLimit);
  CHECK(f.Read(&secret) == ErrorCode::kNoAuth);
  RecursiveListing missing("/none", 100, kNoLimit);
  CHECK(f.Read(&missing) == ErrorCode::kNoNode);
}

TEST_CASE("a recursive list that is too large is refused, at once or in a later piece") {
  Fixture f;
  f.MakeMany("/r/a", 2 * kNodesPerHold);
  RecursiveListing small("/r", SIZE_MAX, 1000);
  CHECK(f.Read(&small) == ErrorCode::kTooLarge);
  RecursiveListing large("/r", SIZE_MAX, 15 * kNodesPerHold);
  CHECK(f.Read(&large) == ErrorCode::kOk);
  CHECK(f.Read(&large) == ErrorCode::kTooLarge);
  // Events take memory, too.
  RecursiveListing told("/r", SIZE_MAX, 18 * 2 * kNodesPerHold);
  CHECK(f.Read(&told) == ErrorCode::kOk);
  for (int i = 0; i < 2000; ++i) {
    told.OnEvent(EventType::kNodeCreated, "/r/" + std::to_string(i));
  }
  CHECK(told.bytes() > 2000 * 80);
  CHECK(f.Read(&told) == ErrorCode::kTooLarge);
}

TEST_CASE("a recursive list is corrected by the events that its client was sent meanwhile") {
  Fixture f;
  f.MakeMany("/r/a", 2 * kNodesPerHold);
  RecursiveListing listing("/r", SIZE_MAX, kNoLimit);
  REQUIRE(f.Read(&listing) == ErrorCode::kOk);
  REQUIRE_FALSE(listing.done());
  const std::pair<EventType, const char*> events[] = {
      {EventType::kNodeDeleted, "/r/a/1"},      {EventType::kNodeDeleted, "/r/a/2"},
      {EventType::kNodeCreated, "/r/a/2"},      {EventType::kNodeCreated, "/r/b"},
      {EventType::kNodeCreated, "/r/gone"},     {EventType::kNodeDeleted, "/r/gone"},
      {EventType::kNodeCreated, "/rest"},       {EventType::kNodeCreated, "/r"},
      {EventType::kNodeDataChanged, "/r/data"}, {EventType::kNodeChildrenChanged, "/r/children"},
  };
  for (const auto& [type, path] : events) listing.OnEvent(type, path);
  f.ReadAll(&listing);
  const Strings paths = PathsOf(&listing);
  CHECK(paths.size() == 2 * kNodesPerHold + 1);  // with /r/a, without /r/a/1, with /r/b
  const auto count = [&](const char* path) { return std::count(paths.begin(), paths.end(), path); };
  CHECK(count("/r/a/1") == 0);
  CHECK(count("/r/a/2") == 1);
  CHECK(count("/r/b") == 1);
  for (const char* path : {"/r", "/r/gone", "/rest", "/r/data", "/r/children"}) {
    CAPTURE(path);
    CHECK(count(path) == 0);
  }
}

TEST_CASE("a list that ends at its maximum gets no more paths by events") {
  Fixture f;
  f.MakeMany("/r/a", 2 * kNodesPerHold);
  RecursiveListing listing("/r", kNodesPerHold + 1000, kNoLimit);
  REQUIRE(f.Read(&listing) == ErrorCode::kOk);
  REQUIRE_FALSE(listing.done());
  listing.OnEvent(EventType::kNodeCreated, "/r/b");
  f.ReadAll(&listing);
  CHECK(PathsOf(&listing).size() == kNodesPerHold + 1000);
}

}  // namespace
}  // namespace quorate::rpc
