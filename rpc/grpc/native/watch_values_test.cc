// SPDX-License-Identifier: Apache-2.0

// Watches of the Tree service that filter events, show the data of znodes, or report progress.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rpc/frontend/listing.h"
#include "rpc/grpc/native/testing/fixture.h"
#include "rpc/grpc/native/value_history.h"
#include "rpc/grpc/native/watch_stream.h"

namespace quorate::rpc::native {
namespace {

using Story = std::vector<std::string>;

v1::WatchRequest WatchOf(const std::string& path, bool with_values = true) {
  v1::WatchRequest request;
  request.set_path(path);
  request.set_scope(v1::WATCH_SCOPE_SUBTREE);
  request.set_with_value(with_values);
  request.set_with_previous_value(with_values);
  return request;
}

uint32_t Begin(Fixture* f, const v1::WatchRequest& request) {
  const uint32_t tag = f->transport.Open(Method::kWatch);
  f->transport.Write(tag, request.SerializeAsString());
  f->Settle();
  return tag;
}

std::vector<v1::WatchResponse> ReceivedOf(Fixture* f, uint32_t tag) {
  std::vector<v1::WatchResponse> messages;
  for (const std::string& bytes : std::exchange(f->transport.received(tag), {})) {
    REQUIRE(messages.emplace_back().ParseFromString(bytes));
  }
  return messages;
}

// Returns "/a: 1 -> 2" for each event.
Story StoryOf(Fixture* f, uint32_t tag) {
  Story story;
  for (const v1::WatchResponse& message : ReceivedOf(f, tag)) {
    for (const v1::Event& event : message.events()) {
      story.push_back(event.path() + ": " +
                      (event.has_previous_value() ? event.previous_value() : "none") + " -> " +
                      (event.has_value() ? event.value() : "none") +
                      (event.values_lost() ? ", lost" : ""));
    }
  }
  return story;
}

v1::Acl AclOf(int32_t permissions) {
  v1::Acl acl;
  acl.set_permissions(permissions);
  acl.set_scheme("world");
  acl.set_id("anyone");
  return acl;
}

TEST_CASE("a watch sends the data before and after each change if they were asked for") {
  Fixture f;
  const uint32_t both = Begin(&f, WatchOf("/"));
  v1::WatchRequest request = WatchOf("/", false);
  const uint32_t none = Begin(&f, request);
  request.set_with_previous_value(true);
  const uint32_t previous = Begin(&f, request);
  f.Change(CreateOp("/a", "1"));
  f.Change(SetOp("/a", "2"));
  f.Change(DeleteOp("/a"));
  CHECK(StoryOf(&f, both) == Story{"/a: none -> 1", "/a: 1 -> 2", "/a: 2 -> none"});
  CHECK(StoryOf(&f, previous) == Story{"/a: none -> none", "/a: 1 -> none", "/a: 2 -> none"});
  CHECK(StoryOf(&f, none) == Story{"/a: none -> none", "/a: none -> none", "/a: none -> none"});
}

TEST_CASE("data are kept only while a watch that covers the znode asks for them") {
  Fixture f;
  const uint32_t plain = Begin(&f, WatchOf("/", false));
  f.Change(CreateOp("/a", "1"));
  CHECK_FALSE(f.frontend.WantsNodeValues());
  CHECK(f.frontend.values().bytes() == 0);
  const uint32_t tag = Begin(&f, WatchOf("/b"));
  CHECK(f.frontend.WantsNodeValues());
  f.Change(SetOp("/a", "2"));
  CHECK(f.frontend.values().bytes() == 0);
  f.Change(CreateOp("/b", "3"));
  CHECK(f.frontend.values().bytes() > 0);
  f.transport.Cancel(tag);
  f.Settle();
  CHECK_FALSE(f.frontend.WantsNodeValues());
  f.Change(SetOp("/b", "4"));
  CHECK(f.frontend.values().bytes() == 0);
  CHECK(f.service.memory().used(MemoryUse::kUnsent) == 0);
  CHECK(ReceivedOf(&f, plain).size() > 1);
}

TEST_CASE("a watch that resumes gets the data that are kept, and is told that others are lost") {
  Fixture f;
  const int64_t begin = f.zxid();
  f.Change(CreateOp("/a", "1"));
  const uint32_t first = Begin(&f, WatchOf("/a"));
  f.Change(SetOp("/a", "2"));
  v1::WatchRequest request = WatchOf("/a");
  request.set_after_zxid(begin == 0 ? 1 : begin);
  f.Change(SetOp("/a", "3"));
  const uint32_t second = Begin(&f, request);
  const Story story = StoryOf(&f, second);
  REQUIRE(story.size() >= 2);
  CHECK(story[story.size() - 2] == "/a: 1 -> 2");
  CHECK(story.back() == "/a: 2 -> 3");
  if (story.size() == 3) CHECK(story.front() == "/a: none -> none, lost");
  CHECK(StoryOf(&f, first) == Story{"/a: 1 -> 2", "/a: 2 -> 3"});
}

TEST_CASE("a client that reads slowly takes bounded memory, and is told which data are lost") {
  Fixture f;
  f.Change(CreateOp("/a"));
  const uint32_t tag = Begin(&f, WatchOf("/a"));
  f.transport.SetReads(tag, false);
  constexpr size_t kChanges = 60;
  const std::string data(900'000, 'x');
  for (size_t i = 0; i < kChanges; ++i) f.Change(SetOp("/a", data));
  CHECK(f.frontend.values().bytes() < 20u << 20);
  CHECK(f.loop.unsent_bytes() < 8u << 20);
  f.transport.SetReads(tag, true);
  while (f.transport.ReadOne(tag)) f.Settle();
  size_t events = 0, lost = 0;
  bool last_is_lost = true;
  for (const std::string& bytes : f.transport.received(tag)) {
    v1::WatchResponse message;
    REQUIRE(message.ParseFromString(bytes));
    // Two values of one event are the most that a message has.
    CHECK(bytes.size() < 2 * data.size() + 1000);
    for (const v1::Event& event : message.events()) {
      ++events;
      lost += event.values_lost() ? 1 : 0;
      last_is_lost = event.values_lost();
      CHECK(event.has_value() != event.values_lost());
    }
  }
  CHECK(events == kChanges);
  CHECK(lost > 0);
  CHECK(lost < kChanges);
  CHECK_FALSE(last_is_lost);
}

TEST_CASE("the data of an event for very many watches are copied in short holds of the tree") {
  Fixture f;
  f.Change(CreateOp("/a"));
  std::vector<uint32_t> tags;
  for (int i = 0; i < 40; ++i) tags.push_back(Begin(&f, WatchOf("/a")));
  for (const uint32_t tag : tags) f.transport.received(tag).clear();
  const std::string data(500'000, 'x');
  f.Change(SetOp("/a", data));
  for (const uint32_t tag : tags) {
    const Story story = StoryOf(&f, tag);
    REQUIRE(story.size() == 1);
    CHECK(story[0] == "/a:  -> " + data);
  }
  CHECK(f.loop.longest_hold() <= 3 * kNodesPerHold);
}

TEST_CASE("data that the caller may not or might not have been allowed to read are not sent") {
  Fixture f;
  v1::WatchRequest request = WatchOf("/p");
  request.set_scope(v1::WATCH_SCOPE_CHILDREN);
  const uint32_t tag = Begin(&f, request);
  f.Change(CreateOp("/p"));
  v1::Operation secret = CreateOp("/p/s", "secret");
  *secret.mutable_create()->add_acl() = AclOf(30);  // all but read
  f.Change(secret);
  // The transaction opens the znode, and replaces the secret.
  v1::TxnRequest txn;
  v1::Operation::SetAcl* acl = txn.add_operations()->mutable_set_acl();
  acl->set_path("/p/s");
  *acl->add_acl() = AclOf(31);
  *txn.add_operations() = SetOp("/p/s", "open");
  v1::TxnResponse response;
  REQUIRE(f.Unary(Method::kTxn, txn, &response).ok());
  CHECK(StoryOf(&f, tag) ==
        Story{"/p: none -> ", "/p/s: none -> none, lost", "/p/s: none -> open, lost"});
}

TEST_CASE("a watch sends only events of the types and the prefix that were asked for") {
  Fixture f;
  v1::WatchRequest request = WatchOf("/t", false);
  request.set_prefix("a");
  request.add_types(v1::EVENT_TYPE_NODE_DELETED);
  const uint32_t deletions = Begin(&f, request);
  request.add_types(v1::EVENT_TYPE_NODE_DATA_CHANGED);
  request.clear_prefix();
  const uint32_t others = Begin(&f, request);
  for (const char* path : {"/t", "/t/a", "/t/a/b", "/t/ab", "/t/b"}) f.Change(CreateOp(path));
  f.Change(SetOp("/t/ab", "x"));
  f.Change(SetOp("/t", "x"));
  f.Change(DeleteOp("/t", /*recursive=*/true));
  const auto paths_of = [&](uint32_t tag) {
    Story paths;
    for (const v1::WatchResponse& message : ReceivedOf(&f, tag)) {
      for (const v1::Event& event : message.events()) paths.push_back(event.path());
    }
    return paths;
  };
  CHECK(paths_of(deletions) == Story{"/t/a/b", "/t/a", "/t/ab"});
  CHECK(paths_of(others) == Story{"/t/ab", "/t", "/t/a/b", "/t/a", "/t/ab", "/t/b", "/t"});
}

TEST_CASE("a watch with an interval reports the zxid also when nothing happens") {
  Fixture f;
  v1::WatchRequest request = WatchOf("/a", false);
  const uint32_t quiet = Begin(&f, request);
  *request.mutable_progress_interval() = v1::DurationOfMs(200);
  const uint32_t tag = Begin(&f, request);
  CHECK(ReceivedOf(&f, tag).size() == 1);
  CHECK(ReceivedOf(&f, quiet).size() == 1);
  f.Pass(150);
  CHECK(ReceivedOf(&f, tag).empty());
  f.Pass(60);
  std::vector<v1::WatchResponse> reports = ReceivedOf(&f, tag);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].events_size() == 0);
  CHECK(reports[0].zxid() == f.zxid());
  f.Change(CreateOp("/elsewhere"));
  f.Pass(210);
  reports = ReceivedOf(&f, tag);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].zxid() == f.zxid());
  f.Pass(4000);
  CHECK(ReceivedOf(&f, quiet).empty());
}

TEST_CASE("a bad filter or interval of a watch is refused") {
  Fixture f;
  const auto code_of = [&](const auto& change) {
    v1::WatchRequest request = WatchOf("/a");
    change(&request);
    const uint32_t tag = Begin(&f, request);
    return f.CodeOf(tag);
  };
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  CHECK(code_of([](v1::WatchRequest* r) { r->add_types(v1::EVENT_TYPE_UNSPECIFIED); }) == kBad);
  CHECK(code_of([](v1::WatchRequest* r) { r->add_types(static_cast<v1::EventType>(40)); }) == kBad);
  CHECK(code_of([](v1::WatchRequest* r) { r->add_types(static_cast<v1::EventType>(-1)); }) == kBad);
  CHECK(code_of([](v1::WatchRequest* r) {
          for (int i = 0; i < 17; ++i) r->add_types(v1::EVENT_TYPE_NODE_CREATED);
        }) == kBad);
  for (const int64_t ms : {int64_t{-1}, int64_t{0}, int64_t{99}, int64_t{3'600'001}}) {
    CHECK(code_of([&](v1::WatchRequest* r) {
            *r->mutable_progress_interval() = v1::DurationOfMs(ms);
          }) == kBad);
  }
  CHECK(code_of([](v1::WatchRequest* r) {
          r->mutable_progress_interval()->set_nanos(2'000'000'000);
        }) == kBad);
}

TEST_CASE("values of events are kept up to a size, and those of the newest event always") {
  MemoryBudget memory;
  ValueHistory values(1000, &memory);
  const std::string data(300, 'x');
  tree::EventValues each;
  each.value = data;
  for (uint64_t number = 5; number < 20; number += 2)
    values.Add(number, tree::Zxid(static_cast<int64_t>(number)), each);
  CHECK(values.bytes() <= 1000);
  CHECK(memory.used(MemoryUse::kUnsent) == static_cast<int64_t>(values.bytes()));
  CHECK(values.Find(5) == nullptr);
  CHECK(values.Find(18) == nullptr);
  REQUIRE(values.Find(19) != nullptr);
  CHECK(values.Find(19)->value == data);
  CHECK_FALSE(values.Find(19)->previous.has_value());
  const std::string large(5000, 'y');
  each.previous = large;
  values.Add(20, tree::Zxid(20), each);
  CHECK(values.Find(19) == nullptr);
  CHECK(values.Find(20)->previous == large);
  values.Clear();
  CHECK(values.Find(20) == nullptr);
  CHECK(memory.used(MemoryUse::kUnsent) == 0);
}

TEST_CASE("of one transaction, no more values are taken than are kept") {
  MemoryBudget memory;
  ValueHistory values(1000, &memory);
  const std::string data(300, 'x');
  tree::EventValues each;
  each.previous = data;
  for (uint64_t number = 1; number < 20; ++number) values.Add(number, tree::Zxid(7), each);
  CHECK(values.Find(1) != nullptr);
  CHECK(values.Find(2) != nullptr);
  for (uint64_t number = 3; number < 20; ++number) CHECK(values.Find(number) == nullptr);
  each.previous = "";
  values.Add(20, tree::Zxid(7), each);
  CHECK(values.Find(20) == nullptr);
  values.Add(21, tree::Zxid(8), each);
  CHECK(values.Find(21) != nullptr);
}

TEST_CASE("values take a small part of the memory, and none while replies take too much") {
  MemoryBudget memory;
  memory.SetLimit(32'000);
  ValueHistory values(1 << 20, &memory);
  const std::string data(300, 'x');
  tree::EventValues each;
  each.value = data;
  for (uint64_t number = 1; number < 20; ++number) {
    values.Add(number, tree::Zxid(static_cast<int64_t>(number)), each);
  }
  CHECK(values.bytes() <= 1000);
  CHECK(values.Find(19) != nullptr);
  memory.Add(MemoryUse::kReads, 8000);
  values.Add(20, tree::Zxid(20), each);
  CHECK(values.bytes() == 0);
  CHECK(values.Find(20) == nullptr);
  memory.Add(MemoryUse::kReads, -8000);
  values.Add(21, tree::Zxid(21), each);
  CHECK(values.Find(21) != nullptr);
}

TEST_CASE("nothing is applied inline while a watch asks for data") {
  Fixture f;
  Begin(&f, WatchOf("/a", false));
  CHECK(f.frontend.AllowsInlineApply());
  const uint32_t tag = Begin(&f, WatchOf("/a"));
  CHECK_FALSE(f.frontend.AllowsInlineApply());
  f.transport.Cancel(tag);
  f.Settle();
  CHECK(f.frontend.AllowsInlineApply());
}

TEST_CASE("data of a znode that became private after the event are not sent") {
  Fixture f;
  f.Change(CreateOp("/p"));
  f.Change(CreateOp("/p/a", "1"));
  f.Change(CreateOp("/p/b", "1"));
  const int64_t begin = f.zxid();
  const uint32_t live = Begin(&f, WatchOf("/p"));
  f.Change(SetOp("/p/a", "2"));
  f.Change(SetOp("/p/b", "2"));
  v1::Operation acl;
  acl.mutable_set_acl()->set_path("/p/a");
  *acl.mutable_set_acl()->add_acl() = AclOf(30);  // all but read
  f.Change(acl);
  v1::WatchRequest request = WatchOf("/p");
  request.set_after_zxid(begin);
  CHECK(StoryOf(&f, Begin(&f, request)) == Story{"/p/a: none -> none, lost", "/p/b: 1 -> 2"});
  CHECK(StoryOf(&f, live) == Story{"/p/a: 1 -> 2", "/p/b: 1 -> 2"});
  // Nobody can be asked about a znode that is gone.
  f.Change(DeleteOp("/p/b"));
  CHECK(StoryOf(&f, Begin(&f, request)) ==
        Story{"/p/a: none -> none, lost", "/p/b: 1 -> 2", "/p/b: 2 -> none"});
}

TEST_CASE("data are lost only if the event would have had them") {
  Fixture f;
  f.Change(CreateOp("/p"));
  const int64_t begin = f.zxid();
  f.Change(CreateOp("/p/a", "1"));
  f.Change(SetOp("/p/a", "2"));
  f.Change(DeleteOp("/p/a"));
  v1::WatchRequest request = WatchOf("/p", false);
  request.set_after_zxid(begin);
  request.set_with_value(true);
  CHECK(StoryOf(&f, Begin(&f, request)) ==
        Story{"/p/a: none -> none, lost", "/p/a: none -> none, lost", "/p/a: none -> none"});
  request.set_with_value(false);
  request.set_with_previous_value(true);
  CHECK(StoryOf(&f, Begin(&f, request)) ==
        Story{"/p/a: none -> none", "/p/a: none -> none, lost", "/p/a: none -> none, lost"});
}

TEST_CASE("the first message of a watch has the zxid from which it begins, also if it lags") {
  Fixture f;
  f.Change(CreateOp("/a"));
  const int64_t begin = f.zxid();
  const std::string data(900'000, 'x');
  v1::WatchRequest request = WatchOf("/a");
  request.set_after_zxid(begin);
  const uint32_t live = Begin(&f, WatchOf("/a"));
  for (int i = 0; i < 8; ++i) f.Change(SetOp("/a", data));
  const uint32_t tag = f.transport.Open(Method::kWatch);
  f.transport.SetReads(tag, false);
  f.transport.Write(tag, request.SerializeAsString());
  f.Settle();
  REQUIRE(f.transport.ReadOne(tag));
  const std::vector<v1::WatchResponse> first = ReceivedOf(&f, tag);
  REQUIRE(first.size() == 1);
  CHECK(first[0].zxid() == begin);
  CHECK(ReceivedOf(&f, live).size() > 1);
}

TEST_CASE("a watch keeps little of its request") {
  Fixture f;
  v1::WatchRequest request = WatchOf("/a", false);
  request.set_prefix(std::string(5'000'000, 'a'));
  CHECK(f.CodeOf(Begin(&f, request)) == absl::StatusCode::kInvalidArgument);
  request.set_prefix(std::string(10'000, 'a'));
  request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(
      1000, std::string(5'000'000, 'x'));
  WatchStream stream(&f.loop, 1, "10.0.0.1");
  REQUIRE(stream.SetProof(Fixture::Digests({})).ok());
  REQUIRE(stream.OnMessage(request.SerializeAsString()).ok());
  CHECK(stream.kept_bytes() > 20'000);
  CHECK(stream.kept_bytes() < 100'000);
}

}  // namespace
}  // namespace quorate::rpc::native
