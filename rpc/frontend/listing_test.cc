// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/listing.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <string>

#include "tree/testing/tree_test_util.h"

namespace quorate::rpc {
namespace {

using tree::ErrorCode;
using tree::MakeCreate;
using tree::MakeDelete;

constexpr size_t kNoLimit = 64u << 20;

// A tree whose changes are reported to the listings.
class Fixture {
 public:
  Fixture() {
    server.OpenSession();
    server.computes_digest = false;  // it would cover thousands of znodes after each command
    Make("/d");
  }
  void Make(const std::string& path) { Apply(MakeCreate(path), tree::EventType::kNodeCreated); }
  void Remove(const std::string& path) { Apply(MakeDelete(path), tree::EventType::kNodeDeleted); }
  std::set<std::string> Children() const {
    std::set<std::string> names;
    tree::Stat found;
    server.tree().GetChildren(
        "/d", {}, [&](std::string_view name) { names.emplace(name); }, &found);
    return names;
  }
  std::unique_ptr<Listing> Begin(size_t bytes_max = kNoLimit) {
    Listing::Names names;
    REQUIRE(Listing::Read(server.tree(), "/d", {}, bytes_max, &names, &stat) == ErrorCode::kOk);
    REQUIRE_FALSE(names.place.at_end);
    return std::make_unique<Listing>(&listings, "/d", bytes_max, std::move(names));
  }
  ErrorCode Next(Listing* listing) { return listing->ReadNext(server.tree(), {}, &stat); }

  tree::Server server;
  Listings listings;
  tree::Stat stat;

 private:
  void Apply(const tree::Op& op, tree::EventType type) {
    REQUIRE(server.Do(op).error == ErrorCode::kOk);
    listings.OnNodeEvent(type, op.path);
  }
};

std::set<std::string> NamesOf(Listing* listing) {
  const Listing::Names names = listing->Finish();
  std::set<std::string> set;
  ForEachName(names, [&](std::string_view name) { REQUIRE(set.emplace(name).second); });
  REQUIRE(set.size() == names.count);
  return set;
}

TEST_CASE("a list that is read in pieces is what the children are at its last piece") {
  Fixture f;
  for (int i = 0; i < 20'000; ++i) f.Make("/d/" + std::to_string(i));
  std::mt19937_64 random(1);
  const auto first = f.Begin();
  const auto second = f.Begin();
  int pieces = 0;
  while (!first->done()) {
    REQUIRE(f.Next(first.get()) == ErrorCode::kOk);
    if (first->done()) break;
    ++pieces;
    for (int i = 0; i < 500; ++i) {
      const std::string path = "/d/" + std::to_string(random() % 40'000);
      if (f.server.Has(path)) {
        f.Remove(path);
      } else {
        f.Make(path);
      }
    }
    f.Make("/" + std::to_string(pieces));  // in another directory
  }
  CHECK(pieces >= 3);
  CHECK(NamesOf(first.get()) == f.Children());
  f.Make("/d/later");
  while (!second->done()) REQUIRE(f.Next(second.get()) == ErrorCode::kOk);
  CHECK(NamesOf(second.get()) == f.Children());
}

TEST_CASE("a list of a znode that goes and comes again is of the new one") {
  Fixture f;
  for (int i = 0; i < 10'000; ++i) f.Make("/d/" + std::to_string(i));
  const auto listing = f.Begin();
  for (int i = 0; i < 10'000; ++i) f.Remove("/d/" + std::to_string(i));
  f.Remove("/d");
  SECTION("gone") { CHECK(f.Next(listing.get()) == ErrorCode::kNoNode); }
  SECTION("there again") {
    f.Make("/d");
    f.Make("/d/new");
    while (!listing->done()) REQUIRE(f.Next(listing.get()) == ErrorCode::kOk);
    CHECK(NamesOf(listing.get()) == std::set<std::string>{"new"});
  }
}

TEST_CASE("changes that were taken are not copied, and stay as they were while more come") {
  Listings listings;
  size_t first = 0;
  const std::shared_ptr<Listings::Log> log = listings.Begin("/d", &first);
  const auto record = [&listings](int i) {
    listings.OnNodeEvent(i % 2 == 0 ? tree::EventType::kNodeCreated : tree::EventType::kNodeDeleted,
                         "/d/" + std::to_string(i));
  };
  for (int i = 0; i < 1000; ++i) record(i);
  size_t second = 0;
  CHECK(listings.Begin("/d", &second) == log);
  for (int i = 1000; i < 1500; ++i) record(i);
  Listings::Changes changes;
  REQUIRE(listings.Take(*log, second, &changes));
  CHECK(changes.chunks.front() == log->chunks.front());
  for (int i = 1500; i < 200'000; ++i) record(i);
  listings.End("/d", log);
  REQUIRE(changes.first == 1000);
  REQUIRE(changes.end == 1500);
  for (size_t i = changes.first; i < changes.end; ++i) {
    REQUIRE(changes[i].name == std::to_string(i));
    REQUIRE(changes[i].exists == (i % 2 == 0));
  }
  Listings::Changes all;
  CHECK_FALSE(listings.Take(*log, first, &all));  // there are too many changes
  listings.End("/d", log);
}

TEST_CASE("a list is given up above its limit, and when changes outrun it again and again") {
  Fixture f;
  for (int i = 0; i < 10'000; ++i) f.Make("/d/" + std::to_string(i));
  Listing::Names names;
  CHECK(Listing::Read(f.server.tree(), "/d", {}, 39'999, &names, &f.stat) == ErrorCode::kTooLarge);
  CHECK(names.count < 6000);
  const auto large = f.Begin(60'000);
  ErrorCode error = ErrorCode::kOk;
  while (error == ErrorCode::kOk && !large->done()) error = f.Next(large.get());
  CHECK(error == ErrorCode::kTooLarge);

  const auto outrun = f.Begin();
  const std::string path = "/d/" + std::string(10'000, 'x');
  int pieces = 0;
  for (error = ErrorCode::kOk; error == ErrorCode::kOk; ++pieces) {
    REQUIRE(pieces < 100);
    REQUIRE_FALSE(outrun->done());
    for (int i = 0; i < 250; ++i) {
      f.Make(path);
      f.Remove(path);
    }
    error = f.Next(outrun.get());
  }
  CHECK(error == ErrorCode::kTooLarge);
  CHECK(pieces > 3);
}

}  // namespace
}  // namespace quorate::rpc
