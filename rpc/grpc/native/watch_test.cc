// SPDX-License-Identifier: Apache-2.0

// Tests watches of sessions and of the unary service.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/frontend/listing.h"
#include "rpc/frontend/service.h"
#include "rpc/grpc/native/session_stream.h"
#include "rpc/grpc/native/testing/fixture.h"

namespace quorate::rpc::native {
namespace {

// Returns "created /a 5 [1,2]" for each event, and "answer 7" for each response.
std::vector<std::string> StoryOf(const v1::SessionResponse& response) {
  std::vector<std::string> story;
  for (const v1::SessionItem& item : response.items()) {
    if (item.has_response()) {
      story.push_back("answer " + std::to_string(item.response().id()));
      continue;
    }
    const v1::Event& event = item.event().event();
    std::string text = event.type() == v1::EVENT_TYPE_NODE_CREATED   ? "created "
                       : event.type() == v1::EVENT_TYPE_NODE_DELETED ? "deleted "
                                                                     : "changed ";
    text += event.path();
    for (uint64_t id : item.event().watch_ids()) text += " " + std::to_string(id);
    story.push_back(text);
  }
  return story;
}

using Story = std::vector<std::string>;

TEST_CASE("watches get the events in their scope, each event once for all of them") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  f.Call(tag, {WatchRequestOf(1, 1, "/a", v1::WATCH_SCOPE_NODE),
               WatchRequestOf(2, 2, "/a", v1::WATCH_SCOPE_CHILDREN),
               WatchRequestOf(3, 3, "/a", v1::WATCH_SCOPE_SUBTREE)});
  f.Change(CreateOp("/a"));
  f.Change(CreateOp("/a/b"));
  f.Change(CreateOp("/a/b/c"));
  f.Change(SetOp("/a/b", "x"));
  f.Change(CreateOp("/ab"));
  f.Change(DeleteOp("/a", true));
  CHECK(StoryOf(f.Received(tag)) ==
        Story{"created /a 1 2 3", "created /a/b 2 3", "created /a/b/c 3", "changed /a/b 2 3",
              "deleted /a/b/c 3", "deleted /a/b 2 3", "deleted /a 1 2 3"});
  v1::Request unwatch;
  unwatch.set_id(4);
  unwatch.mutable_unwatch()->set_watch_id(3);
  CHECK(f.CallOne(tag, unwatch).error() == v1::ERROR_CODE_UNSPECIFIED);
  // The answer is the same if the watch does not exist any more or never did.
  CHECK(f.CallOne(tag, unwatch).error() == v1::ERROR_CODE_UNSPECIFIED);
  unwatch.mutable_unwatch()->set_watch_id(77);
  CHECK(f.CallOne(tag, unwatch).error() == v1::ERROR_CODE_UNSPECIFIED);
  f.Change(CreateOp("/a"));
  CHECK(StoryOf(f.Received(tag)) == Story{"created /a 1 2"});
}

TEST_CASE("an event is sent before any response that could show its change") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  f.Call(tag, {WatchRequestOf(1, 1, "/", v1::WATCH_SCOPE_SUBTREE)});
  // The read arrives before the loop receives the events.
  f.Send(tag, MessageOf({WriteRequest(2, 1, {CreateOp("/mine")}), GetRequestOf(3, "/mine")}));
  f.transport.RunIterations();
  CHECK(StoryOf(f.Call(tag, {})) == Story{"created /mine 1", "answer 2", "answer 3"});
}

TEST_CASE("a watch resumes after the last zxid seen, without gaps or duplicates") {
  Fixture f;
  f.Change(CreateOp("/a"));
  const int64_t seen = f.zxid();
  f.Change(CreateOp("/a/1"));
  f.Change(CreateOp("/b"));
  f.Change(CreateOp("/a/2"));
  const uint32_t tag = f.OpenSession();
  f.Send(tag, MessageOf({WatchRequestOf(1, 1, "/a", v1::WATCH_SCOPE_CHILDREN, seen)}));
  f.transport.RunIterations();
  f.Change(CreateOp("/a/3"));
  CHECK(StoryOf(f.Received(tag)) ==
        Story{"created /a/1 1", "created /a/2 1", "answer 1", "created /a/3 1"});
}

TEST_CASE("watches that resume together read the history once, each from its zxid") {
  Fixture f;
  f.Change(CreateOp("/a"));
  const int64_t seen = f.zxid();
  f.Change(CreateOp("/a/1"));
  f.Change(CreateOp("/a/2"));
  const int64_t seen_later = f.zxid();
  f.Change(CreateOp("/a/3"));
  const uint32_t tag = f.OpenSession();
  f.Send(tag, MessageOf({WatchRequestOf(1, 1, "/a", v1::WATCH_SCOPE_CHILDREN, seen_later),
                         WatchRequestOf(2, 2, "b", v1::WATCH_SCOPE_NODE), GetRequestOf(3, "/a"),
                         WatchRequestOf(4, 3, "/a", v1::WATCH_SCOPE_CHILDREN, seen_later),
                         WatchRequestOf(5, 4, "/a", v1::WATCH_SCOPE_SUBTREE, seen),
                         WatchRequestOf(6, 3, "/a", v1::WATCH_SCOPE_NODE, seen),
                         WatchRequestOf(7, 5, "/a/3", v1::WATCH_SCOPE_NODE)}));
  f.transport.RunIterations();
  f.Change(CreateOp("/a/4"));
  f.Change(SetOp("/a/3", ""));
  CHECK(StoryOf(f.Received(tag)) == Story{"created /a/3 1", "answer 1", "answer 2", "answer 3",
                                          "created /a/1 4", "created /a/2 4", "created /a/3 3 4",
                                          "answer 4", "answer 5", "answer 6", "answer 7",
                                          "created /a/4 1 3 4", "changed /a/3 1 3 4 5"});
}

TEST_CASE("a long history is sent in several iterations, and other clients are served in between") {
  Config config = TestConfig();
  config.event_history_bytes = 64 << 20;
  Fixture f(config);
  f.Change(CreateOp("/a"));
  f.Change(CreateOp("/b"));
  const int64_t seen = f.zxid();
  constexpr int kChanges = 25'000;
  for (int i = 0; i < kChanges; ++i) f.Change(SetOp("/b", ""));
  f.Change(SetOp("/a", ""));
  const uint32_t tag = f.OpenSession();
  const uint32_t other = f.OpenSession();
  f.Send(tag, MessageOf({WatchRequestOf(1, 1, "/c", v1::WATCH_SCOPE_NODE),
                         WatchRequestOf(2, 2, "/a", v1::WATCH_SCOPE_NODE, seen),
                         GetRequestOf(3, "/a")}));
  f.Send(other, MessageOf({GetRequestOf(1, "/a")}));
  REQUIRE(f.transport.RunIteration());
  CHECK(StoryOf(f.Received(other)) == Story{"answer 1"});
  CHECK(StoryOf(f.Received(tag)).empty());
  v1::TxnRequest change;
  *change.add_operations() = SetOp("/a", "");
  const uint32_t changing = f.transport.Open(Method::kTxn);
  f.transport.Write(changing, change.SerializeAsString());
  REQUIRE(f.transport.RunIteration());
  REQUIRE(StoryOf(f.Received(tag)).empty());
  REQUIRE_FALSE(f.service.batches.empty());
  f.service.Apply(f.listener);
  f.Settle();
  CHECK(StoryOf(f.Received(tag)) ==
        Story{"changed /a 2", "changed /a 2", "answer 1", "answer 2", "answer 3"});
}

// Sets watches on /n1, /n2, ... that resume from `after`, without waiting for the responses.
void SendWatches(Fixture& f, uint32_t tag, uint64_t count, int64_t after) {
  for (uint64_t begin = 0; begin < count; begin += 1000) {
    std::vector<v1::Request> requests;
    for (uint64_t id = begin + 1; id <= std::min(count, begin + 1000); ++id) {
      requests.push_back(
          WatchRequestOf(id, id, absl::StrCat("/n", id), v1::WATCH_SCOPE_NODE, after));
    }
    f.Send(tag, MessageOf(requests));
  }
}

TEST_CASE("very many watches resume in several iterations, without gaps or duplicates") {
  Config config = TestConfig();
  config.event_history_bytes = 64 << 20;
  Fixture f(config);
  constexpr uint64_t kWatches = 4000;
  const auto path = [](uint64_t change) { return absl::StrCat("/n", 1 + change * 7 % kWatches); };
  for (uint64_t i = 1; i <= kWatches; ++i) f.Change(CreateOp(absl::StrCat("/n", i)));
  const int64_t seen = f.zxid();
  constexpr uint64_t kPast = 10'000;
  std::map<std::string, std::vector<int64_t>> expected;
  for (uint64_t i = 0; i < kPast; ++i) {
    f.Change(SetOp(path(i), ""));
    expected[path(i)].push_back(f.zxid());
  }
  const uint32_t tag = f.OpenSession();
  const uint32_t changing = f.OpenSession();
  f.Call(changing, {WatchRequestOf(1, 1, "/", v1::WATCH_SCOPE_SUBTREE)});
  const size_t locked = f.service.tree_reads;
  SendWatches(f, tag, kWatches, seen);
  uint64_t sequence = 0;
  std::map<std::string, std::vector<int64_t>> told;
  size_t answers = 0;
  for (bool is_busy = true; is_busy;) {
    is_busy = f.transport.RunIteration();
    if (answers < kWatches) {
      // There is a change after each iteration, and therefore in all phases.
      f.Send(changing, MessageOf({WriteRequest(1, ++sequence, {SetOp(path(sequence), "")})}));
    }
    is_busy |= !f.service.batches.empty();
    f.service.Apply(f.listener);
    const v1::SessionResponse seen_live = f.Received(changing);
    for (const v1::SessionItem& item : seen_live.items()) {
      if (!item.has_event()) continue;
      const v1::Event& event = item.event().event();
      expected[event.path()].push_back(event.zxid());
    }
    const v1::SessionResponse received = f.Received(tag);
    for (const v1::SessionItem& item : received.items()) {
      if (item.has_response()) {
        REQUIRE(item.response().error() == v1::ERROR_CODE_UNSPECIFIED);
        ++answers;
      } else {
        const v1::Event& event = item.event().event();
        REQUIRE(item.event().watch_ids_size() == 1);
        REQUIRE(absl::StrCat("/n", item.event().watch_ids(0)) == event.path());
        told[event.path()].push_back(event.zxid());
      }
    }
  }
  CHECK(answers == kWatches);
  CHECK(sequence >= 5);
  CHECK((told == expected));
  CHECK(f.service.tree_reads - locked >= (4 * kWatches + kPast) / kNodesPerHold);
  CHECK(f.loop.longest_hold() <= kNodesPerHold + 100);
}

TEST_CASE("very many watches whose events are lost end in several iterations") {
  Config config = TestConfig();
  config.event_history_bytes = 112 << 10;
  Fixture f(config);
  const std::string name(1000, 'n');
  f.Change(CreateOp("/" + name));
  const int64_t seen = f.zxid();
  for (int i = 0; i < 8000; ++i) f.Change(SetOp("/" + name, ""));
  const uint32_t tag = f.OpenSession();
  f.transport.SetReads(tag, false);
  f.Send(tag, MessageOf({WatchRequestOf(5000, 5000, "/", v1::WATCH_SCOPE_SUBTREE, seen)}));
  constexpr uint64_t kWatches = 3000;
  SendWatches(f, tag, kWatches, seen);
  f.Settle();
  for (int i = 0; i < 9000; ++i) f.Change(SetOp("/" + name, ""));
  const size_t locked = f.service.tree_reads;
  std::vector<uint64_t> lost;
  do {
    f.Settle();
    const v1::SessionResponse received = f.Received(tag);
    for (const v1::SessionItem& item : received.items()) {
      if (item.has_response() && item.response().error() == v1::ERROR_CODE_EVENTS_LOST) {
        lost.push_back(item.response().id());
      }
    }
  } while (f.transport.ReadOne(tag));
  REQUIRE(lost.size() == kWatches + 1);
  CHECK(lost[0] == 5000);
  for (uint64_t i = 1; i <= kWatches; ++i) REQUIRE(lost[i] == i);
  CHECK(f.service.tree_reads - locked >= 5 * kWatches / kNodesPerHold);
  CHECK(f.frontend.watch_totals().count == 0);
  CHECK(f.CallOne(tag, WatchRequestOf(1, 1, "/n1", v1::WATCH_SCOPE_NODE)).error() ==
        v1::ERROR_CODE_UNSPECIFIED);
}

TEST_CASE("the number of watches of a stream with one path and scope is limited") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  constexpr size_t kMax = SessionStream::kWatchesOfPathMax;
  for (uint64_t id = 1; id <= kMax; id += 1000) {
    std::vector<v1::Request> requests;
    for (uint64_t i = id; i < id + 1000; ++i) {
      requests.push_back(WatchRequestOf(i, i, "/a", v1::WATCH_SCOPE_NODE));
    }
    f.Call(tag, requests);
  }
  CHECK(f.CallOne(tag, WatchRequestOf(1, kMax + 1, "/a", v1::WATCH_SCOPE_NODE)).error() ==
        v1::ERROR_CODE_TOO_LARGE);
  CHECK(f.CallOne(tag, WatchRequestOf(1, kMax + 1, "/a", v1::WATCH_SCOPE_CHILDREN)).error() ==
        v1::ERROR_CODE_UNSPECIFIED);
  CHECK(f.CallOne(tag, WatchRequestOf(1, kMax + 2, "/b", v1::WATCH_SCOPE_NODE)).error() ==
        v1::ERROR_CODE_UNSPECIFIED);
}

TEST_CASE("a watch whose events are lost while the history is sent gets an error") {
  Config config = TestConfig();
  config.event_history_bytes = 112 << 10;  // large enough for the first 8000 changes
  Fixture f(config);
  const std::string name(1000, 'n');
  f.Change(CreateOp("/" + name));
  f.Change(CreateOp("/b"));
  const int64_t seen = f.zxid();
  for (int i = 0; i < 8000; ++i) f.Change(SetOp("/" + name, ""));
  const int64_t seen_later = f.zxid();
  const uint32_t tag = f.OpenSession();
  f.transport.SetReads(tag, false);
  f.Send(tag, MessageOf({WatchRequestOf(1, 1, "/", v1::WATCH_SCOPE_SUBTREE, seen),
                         WatchRequestOf(2, 2, "/b", v1::WATCH_SCOPE_NODE, seen_later)}));
  f.Settle();
  for (int i = 0; i < 9000; ++i) f.Change(SetOp("/" + name, ""));
  f.Change(SetOp("/b", ""));
  std::vector<v1::Response> answers;
  size_t events = 0;
  do {
    f.Settle();
    const v1::SessionResponse response = f.Received(tag);
    for (const v1::SessionItem& item : response.items()) {
      if (item.has_response()) answers.push_back(item.response());
      if (item.has_event()) ++events;
    }
  } while (f.transport.ReadOne(tag));
  REQUIRE(answers.size() == 2);
  CHECK(answers[0].error() == v1::ERROR_CODE_EVENTS_LOST);
  CHECK(answers[0].watch().oldest_zxid() > seen);
  CHECK(answers[1].error() == (answers[0].watch().oldest_zxid() > seen_later
                                   ? v1::ERROR_CODE_EVENTS_LOST
                                   : v1::ERROR_CODE_UNSPECIFIED));
  CHECK(events >= 4000);
  // The watch id can be used again.
  CHECK(f.CallOne(tag, WatchRequestOf(3, 1, "/b", v1::WATCH_SCOPE_NODE)).error() ==
        v1::ERROR_CODE_UNSPECIFIED);
}

TEST_CASE("a watch that cannot be set gets the reason") {
  Config config = TestConfig();
  config.event_history_bytes = 300;
  Fixture f(config);
  f.Change(CreateOp("/a"));
  const int64_t seen = f.zxid();
  for (int i = 0; i < 10; ++i) f.Change(SetOp("/a", ""));
  const uint32_t tag = f.OpenSession();
  const v1::Response lost = f.CallOne(tag, WatchRequestOf(1, 1, "/a", v1::WATCH_SCOPE_NODE, seen));
  CHECK(lost.error() == v1::ERROR_CODE_EVENTS_LOST);
  CHECK(lost.watch().oldest_zxid() > seen);
  // A watch can resume from oldest_zxid.
  CHECK(f.CallOne(tag, WatchRequestOf(2, 1, "/a", v1::WATCH_SCOPE_NODE, lost.watch().oldest_zxid()))
            .error() == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(f.CallOne(tag, WatchRequestOf(3, 1, "/b", v1::WATCH_SCOPE_NODE)).error() ==
        v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(f.CallOne(tag, WatchRequestOf(4, 2, "b", v1::WATCH_SCOPE_NODE)).error() ==
        v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(f.CallOne(tag, WatchRequestOf(5, 2, "/b", static_cast<v1::WatchScope>(9))).error() ==
        v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(f.CallOne(tag, WatchRequestOf(6, 2, "/b", v1::WATCH_SCOPE_NODE, f.zxid() + 1)).error() ==
        v1::ERROR_CODE_UNAVAILABLE);
}

TEST_CASE("a client gets no events of znodes that it may not read") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  f.Call(tag, {WatchRequestOf(1, 1, "/", v1::WATCH_SCOPE_SUBTREE)});
  const int64_t before = f.zxid();
  v1::Operation create = CreateOp("/secret");
  v1::Acl* acl = create.mutable_create()->add_acl();
  acl->set_permissions(31);
  acl->set_scheme("ip");
  acl->set_id("10.9.9.9");
  f.Change(create);
  f.Change(CreateOp("/open"));
  CHECK(StoryOf(f.Received(tag)) == Story{"created /open 1"});
  CHECK(StoryOf(f.Call(tag, {WatchRequestOf(2, 2, "/", v1::WATCH_SCOPE_SUBTREE, before)})) ==
        Story{"created /open 2", "answer 2"});
}

TEST_CASE("a watch on children sends the events of children that the client may list") {
  Fixture f;
  const auto create = [](const std::string& path, int32_t permissions, const std::string& address) {
    v1::Operation operation = CreateOp(path);
    v1::Acl* acl = operation.mutable_create()->add_acl();
    acl->set_permissions(permissions);
    acl->set_scheme("ip");
    acl->set_id(address);
    return operation;
  };
  constexpr int32_t kAll = 31;
  f.Change(CreateOp("/open"));
  v1::Operation closed =
      create("/closed", kAll, "10.9.9.9");  // other clients may create and delete
  v1::Acl* others = closed.mutable_create()->add_acl();
  others->set_permissions(4 | 8);
  others->set_scheme("world");
  others->set_id("anyone");
  f.Change(closed);
  const int64_t before = f.zxid();
  const uint32_t tag = f.OpenSession();
  const std::vector<v1::Request> watches = {
      WatchRequestOf(1, 1, "/open", v1::WATCH_SCOPE_CHILDREN, before),
      WatchRequestOf(2, 2, "/closed", v1::WATCH_SCOPE_CHILDREN, before),
      WatchRequestOf(3, 3, "/", v1::WATCH_SCOPE_SUBTREE, before)};
  f.Call(tag, watches);
  const uint32_t stream = f.transport.Open(Method::kWatch);
  v1::WatchRequest watch;
  watch.set_path("/open");
  watch.set_scope(v1::WATCH_SCOPE_CHILDREN);
  f.transport.Write(stream, watch.SerializeAsString());
  f.Settle();
  f.transport.received(stream).clear();

  f.Change(create("/open/secret", kAll, "10.9.9.9"));
  f.Change(DeleteOp("/open/secret"));
  f.Change(CreateOp("/closed/known"));
  f.Change(SetOp("/closed/known", "1"));
  f.Change(DeleteOp("/closed/known"));

  const Story story = {"created /open/secret 1", "deleted /open/secret 1",
                       "created /closed/known 3", "changed /closed/known 2 3",
                       "deleted /closed/known 3"};
  CHECK(StoryOf(f.Received(tag)) == story);
  int told = 0;
  for (const std::string& bytes : f.transport.received(stream)) {
    v1::WatchResponse response;
    REQUIRE(response.ParseFromString(bytes));
    told += response.events_size();
  }
  CHECK(told == 2);
  // The same events are sent from the history.
  const uint32_t again = f.OpenSession();
  Story told_again = StoryOf(f.Call(again, watches));
  told_again.resize(story.size());
  CHECK(told_again == story);
}

TEST_CASE("a watch on a member that is cut off ends with the reason") {
  Fixture f;
  const uint32_t tag = f.transport.Open(Method::kWatch);
  v1::WatchRequest watch;
  watch.set_path("/");
  f.transport.Write(tag, watch.SerializeAsString());
  f.Settle();
  f.service.current.leader_contact_age_ms = f.config.ContactLimitMs();
  f.Pass(50);
  CHECK_FALSE(f.transport.outcome(tag).has_value());
  f.service.current.leader_contact_age_ms += 1;
  f.Pass(50);
  CHECK(f.CodeOf(tag) == absl::StatusCode::kUnavailable);
  CHECK(DetailOf(*f.transport.outcome(tag)).code() == v1::ERROR_CODE_UNAVAILABLE);
  // A watch that begins now, or before the member has caught up with a leader, ends at once.
  if (GENERATE(true, false)) {
    f.service.current.leader_contact_age_ms = 0;
    f.service.current.caught_up = false;
    f.clock.Advance(50);
  }
  const uint32_t late = f.transport.Open(Method::kWatch);
  f.transport.Write(late, watch.SerializeAsString());
  f.Settle();
  CHECK(f.CodeOf(late) == absl::StatusCode::kUnavailable);
}

TEST_CASE("a stream that ends does not claim the zxids of events that it did not receive") {
  Fixture f;
  f.Change(CreateOp("/a"));
  v1::SessionOpened opened;
  const uint32_t tag = f.OpenSession(&opened);
  f.Call(tag, {WatchRequestOf(1, 1, "/a", v1::WATCH_SCOPE_SUBTREE)});
  // All of this is applied before the loop's next iteration: a change, the end of the stream, and
  // another change.
  const auto change = [&f](const std::string& path) {
    v1::TxnRequest request;
    *request.add_operations() = CreateOp(path);
    f.transport.Write(f.transport.Open(Method::kTxn), request.SerializeAsString());
    f.transport.RunIterations();
  };
  change("/a/1");
  std::vector<CommandBatch> first;
  SECTION("the session is attached elsewhere") {
    f.Send(f.transport.Open(Method::kSession), OpenMessage(opened.session_id()));
    f.transport.RunIterations();
  }
  SECTION("the tree is replaced") { first.swap(f.service.batches); }
  change("/a/2");
  if (!first.empty()) {
    first.swap(f.service.batches);
    f.service.Apply(f.listener);
    f.service.ReplaceTree(f.listener);
    first.swap(f.service.batches);
  }
  f.service.Apply(f.listener);
  f.transport.RunIterations();
  REQUIRE(f.transport.outcome(tag).has_value());
  const v1::SessionResponse received = f.Received(tag);
  CHECK(StoryOf(received) == Story{"created /a/1 1"});
  REQUIRE(received.items_size() == 1);
  CHECK(received.zxid() <= received.items(0).event().event().zxid());
}

TEST_CASE("after a restart watches resume from before the checkpoint if it has the events") {
  Fixture f;
  f.Change(CreateOp("/a"));
  const int64_t seen = f.zxid();
  f.Change(SetOp("/a", ""));
  std::string events = f.frontends.TakeRecentEvents()->Encode(0);
  f.service.ReplaceTree(f.listener);
  const bool is_whole = GENERATE(true, false);
  if (!is_whole) events.pop_back();
  f.listener->OnRecentEvents({&events, 1}, f.service.ReadTree()->last_zxid());
  f.listener->OnBatchApplied();
  f.Settle();
  const uint32_t tag = f.OpenSession();
  const v1::SessionResponse response =
      f.Call(tag, {WatchRequestOf(1, 1, "/a", v1::WATCH_SCOPE_NODE, seen)});
  CHECK(StoryOf(response) == (is_whole ? Story{"changed /a 1", "answer 1"} : Story{"answer 1"}));
  CHECK(response.items(response.items_size() - 1).response().error() ==
        (is_whole ? v1::ERROR_CODE_UNSPECIFIED : v1::ERROR_CODE_EVENTS_LOST));
}

TEST_CASE("the watches of a stream are dropped when it ends") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  f.Call(tag, {WatchRequestOf(1, 1, "/", v1::WATCH_SCOPE_SUBTREE),
               WatchRequestOf(2, 2, "/", v1::WATCH_SCOPE_SUBTREE)});
  f.transport.Cancel(tag);
  f.Change(CreateOp("/a"));
  CHECK(f.loop.client_count() == 0);
}

// --- Slow readers --------------------------------------------------------------------------------

TEST_CASE("a client that does not read takes bounded memory, and misses no event") {
  Config config = TestConfig();
  config.event_history_bytes = 64 << 20;
  Fixture f(config);
  const std::string name(1000, 'n');
  f.Change(CreateOp("/" + name));
  const uint32_t tag = f.OpenSession();
  f.Call(tag, {WatchRequestOf(1, 1, "/", v1::WATCH_SCOPE_SUBTREE)});
  f.transport.SetReads(tag, false);
  constexpr int kChanges = 20'000;
  int64_t first = 0;
  for (int i = 0; i < kChanges; ++i) {
    f.Change(SetOp("/" + name, ""));
    if (i == 0) first = f.zxid();
    REQUIRE(f.loop.unsent_bytes() < (5u << 20));
  }
  // The response waits for the events before it.
  f.Send(tag, MessageOf({GetRequestOf(2, "/")}));
  f.Settle();
  std::vector<int64_t> zxids;
  bool answered = false;
  int64_t told = 0;
  do {
    f.Settle();
    const v1::SessionResponse response = f.Received(tag);
    for (const v1::SessionItem& item : response.items()) {
      REQUIRE_FALSE(answered);
      if (item.has_event()) zxids.push_back(item.event().event().zxid());
      answered = item.has_response();
    }
    // A response claims no zxid of which the client has not received the events.
    told = std::max(told, response.zxid());
    REQUIRE(told <= (answered ? f.zxid() : zxids.empty() ? told : zxids.back()));
  } while (f.transport.ReadOne(tag));
  CHECK(answered);
  REQUIRE(zxids.size() == kChanges);
  for (int i = 0; i < kChanges; ++i) REQUIRE(zxids[static_cast<size_t>(i)] == first + i);
}

TEST_CASE("a client that does not read until events are lost gets an error") {
  Config config = TestConfig();
  config.event_history_bytes = 16 << 10;
  Fixture f(config);
  const std::string name(1000, 'n');
  f.Change(CreateOp("/" + name));
  const uint32_t tag = f.OpenSession();
  f.Call(tag, {WatchRequestOf(1, 1, "/", v1::WATCH_SCOPE_SUBTREE)});
  f.transport.SetReads(tag, false);
  for (int i = 0; i < 8000; ++i) f.Change(SetOp("/" + name, ""));
  while (f.transport.ReadOne(tag)) f.Settle();
  CHECK(f.CodeOf(tag) == absl::StatusCode::kResourceExhausted);
  CHECK(DetailOf(*f.transport.outcome(tag)).code() == v1::ERROR_CODE_TOO_SLOW);
}

TEST_CASE("a client that does not read its responses is eventually not read from") {
  Fixture f;
  f.Change(CreateOp("/big", std::string(50'000, 'x')));
  const uint32_t tag = f.OpenSession();
  f.transport.SetReads(tag, false);
  for (uint64_t i = 1; i <= 6000; ++i) f.Send(tag, MessageOf({GetRequestOf(i, "/big")}));
  f.Settle();
  CHECK(f.loop.unsent_bytes() < (6u << 20));
  CHECK_FALSE(f.transport.receiving(tag));
  f.transport.SetReads(tag, true);
  std::vector<uint64_t> ids;
  do {
    f.Settle();
    const v1::SessionResponse response = f.Received(tag);
    for (const v1::SessionItem& item : response.items()) ids.push_back(item.response().id());
  } while (f.transport.ReadOne(tag));
  REQUIRE(ids.size() == 6000);
  for (uint64_t i = 0; i < 6000; ++i) REQUIRE(ids[i] == i + 1);
}

// --- Tree.Watch ----------------------------------------------------------------------------------

v1::WatchResponse Told(Fixture& f, uint32_t tag) {
  v1::WatchResponse all;
  for (const std::string& bytes : std::exchange(f.transport.received(tag), {})) {
    REQUIRE(all.MergeFromString(bytes));
  }
  return all;
}

uint32_t Watch(Fixture& f, const std::string& path, v1::WatchScope scope, int64_t after = 0) {
  const uint32_t tag = f.transport.Open(Method::kWatch);
  v1::WatchRequest request;
  request.set_path(path);
  request.set_scope(scope);
  request.set_after_zxid(after);
  f.transport.Write(tag, request.SerializeAsString());
  f.transport.HalfClose(tag);
  f.Settle();
  return tag;
}

TEST_CASE("a watch without a session first sends its start zxid, then events") {
  Fixture f;
  f.Change(CreateOp("/a"));
  const uint32_t tag = Watch(f, "/a", v1::WATCH_SCOPE_SUBTREE);
  CHECK(Told(f, tag).zxid() == f.zxid());
  f.Change(CreateOp("/a/b"));
  f.Change(CreateOp("/b"));
  const v1::WatchResponse told = Told(f, tag);
  REQUIRE(told.events_size() == 1);
  CHECK(told.events(0).path() == "/a/b");
  CHECK(told.zxid() >= told.events(0).zxid());
  // The zxid is sent even if the watch has no events.
  for (int i = 0; i < 200; ++i) f.Pass(50);
  CHECK(Told(f, tag).zxid() == f.zxid());
  f.Pass(60'000);
  CHECK(f.transport.received(tag).empty());
  CHECK_FALSE(f.transport.outcome(tag).has_value());
}

TEST_CASE("a watch without a session resumes after the last zxid seen") {
  Config config = TestConfig();
  config.event_history_bytes = 1000;
  Fixture f(config);
  f.Change(CreateOp("/a"));
  const int64_t seen = f.zxid();
  f.Change(SetOp("/a", ""));
  f.Change(SetOp("/a", ""));
  uint32_t tag = Watch(f, "/a", v1::WATCH_SCOPE_NODE, seen);
  CHECK(Told(f, tag).events_size() == 2);
  f.Change(SetOp("/a", ""));
  CHECK(Told(f, tag).events_size() == 1);
  for (int i = 0; i < 200; ++i) f.Change(SetOp("/a", ""));
  tag = Watch(f, "/a", v1::WATCH_SCOPE_NODE, seen);
  CHECK(f.CodeOf(tag) == absl::StatusCode::kOutOfRange);
  const v1::ErrorDetail detail = DetailOf(*f.transport.outcome(tag));
  CHECK(detail.code() == v1::ERROR_CODE_EVENTS_LOST);
  CHECK(detail.oldest_zxid() > seen);
  CHECK(f.CodeOf(Watch(f, "a", v1::WATCH_SCOPE_NODE)) == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quorate::rpc::native
