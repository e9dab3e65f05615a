// SPDX-License-Identifier: Apache-2.0

// Tests the services of locks and elections: the queue, its sessions, and what contenders are told.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/frontend/listing.h"
#include "rpc/grpc/native/contender_queue.h"
#include "rpc/grpc/native/testing/fixture.h"
#include "rpc/proto/quorate/v1/lock.pb.h"

namespace quorate::rpc::native {
namespace {

// The clients of a fixture that use locks.
class Locks : public Fixture {
 public:
  explicit Locks(const Config& c = TestConfig()) : Fixture(c) {}

  int64_t NewSession() {
    v1::SessionOpened opened;
    session_tags[opened.session_id()] = OpenSession(&opened);
    return opened.session_id();
  }
  static v1::Contender ContenderOf(int64_t session, const std::string& id,
                                   const std::string& path = "/q") {
    v1::Contender contender;
    contender.set_path(path);
    contender.set_id(id);
    contender.set_session_id(session);
    contender.set_session_password(kPassword);
    return contender;
  }
  uint32_t Begin(Method method, const google::protobuf::MessageLite& request) {
    const uint32_t tag = transport.Open(method);
    transport.Write(tag, request.SerializeAsString());
    return tag;
  }
  uint32_t Acquire(int64_t session, const std::string& id, const std::string& path = "/q") {
    v1::AcquireRequest request;
    *request.mutable_contender() = ContenderOf(session, id, path);
    const uint32_t tag = Begin(Method::kAcquire, request);
    Settle();
    return tag;
  }
  bool Release(int64_t session, const std::string& id, const std::string& path = "/q") {
    v1::ReleaseRequest request;
    *request.mutable_contender() = ContenderOf(session, id, path);
    v1::ReleaseResponse response;
    REQUIRE(Unary(Method::kRelease, request, &response).ok());
    return response.released();
  }
  // Returns "waiting N", "held" or "lost N" for each message since the last call.
  std::vector<std::string> Told(uint32_t tag) {
    std::vector<std::string> told;
    for (const std::string& bytes : std::exchange(transport.received(tag), {})) {
      v1::AcquireResponse response;
      REQUIRE(response.ParseFromString(bytes));
      CHECK(response.zxid() > 0);
      if (response.has_waiting())
        told.push_back(absl::StrCat("waiting ", response.waiting().ahead()));
      if (response.has_held()) {
        told.emplace_back("held");
        token = response.held().token();
        node = response.held().node();
      }
      if (response.has_lost()) told.push_back(absl::StrCat("lost ", int{response.lost().reason()}));
    }
    return told;
  }
  std::vector<std::string> Children(const std::string& path = "/q") {
    std::vector<std::string> names;
    tree::Stat stat;
    const auto guard = service.ReadTree();
    guard->GetChildren(
        path, {}, [&](std::string_view name) { names.emplace_back(name); }, &stat);
    std::sort(names.begin(), names.end());
    return names;
  }
  // Creates a queue of so many contenders, a multiple of 1024.
  void Fill(const std::string& path, int contenders) {
    Change(CreateOp(path));
    for (int i = 0; i < contenders;) {
      v1::TxnRequest request;
      for (int j = 0; j < 1024; ++j, ++i) {
        *request.add_operations() =
            CreateOp(path + "/lock-", "", v1::CREATE_MODE_PERSISTENT_SEQUENTIAL);
      }
      v1::TxnResponse response;
      REQUIRE(Unary(Method::kTxn, request, &response).ok());
    }
  }
  void CloseSession(uint32_t tag) {
    v1::Request close;
    close.set_id(99);
    close.mutable_close();
    CallOne(tag, close);
  }

  std::map<int64_t, uint32_t> session_tags;
  std::vector<CommandBatch> held_back;
  int64_t token = 0;  // of the last `held`
  std::string node;
};

using Told = std::vector<std::string>;

TEST_CASE("the names of contenders are those of Curator, the C++ client and Kazoo") {
  CHECK(ContenderNumber("_c_ab-lock-0000000012", "lock-") == 12);
  CHECK(ContenderNumber("lock-0000000012", "lock-") == 12);
  CHECK(ContenderNumber("lock-lock--000000012", "lock-") == -12);
  CHECK(ContenderNumber("x-lock--2147483648", "lock-") == INT32_MIN);
  CHECK(ContenderNumber("4f5__lock__0000000003", "lock-") == 3);
  CHECK(ContenderNumber("4f5__lock__0000000003", "latch-") == std::nullopt);
  CHECK(ContenderNumber("_c_ab-lock-000000012", "lock-") == std::nullopt);
  CHECK(ContenderNumber("_c_ab-lock-00000000120", "lock-") == std::nullopt);
  CHECK(ContenderNumber("_c_ab-lock-+000000012", "lock-") == std::nullopt);
  CHECK(ContenderNumber("other", "lock-") == std::nullopt);
  CHECK(ContenderId("_c_a-b-lock-0000000001", "lock-") == "a-b");
  CHECK(ContenderId("lock-0000000001", "lock-").empty());
  // Numbers wrap around.
  CHECK(QueuedContender{"a", INT32_MAX}.IsBefore("b", INT32_MIN));
  CHECK_FALSE(QueuedContender{"a", INT32_MIN}.IsBefore("b", INT32_MAX));
  CHECK(QueuedContender{"a", 7}.IsBefore("b", 7));
}

TEST_CASE("contenders get the lock in the order in which they came, with growing tokens") {
  Locks f;
  const int64_t first = f.NewSession();
  const int64_t second = f.NewSession();
  const uint32_t a = f.Acquire(first, "a");
  CHECK(f.Told(a) == Told{"held"});
  const int64_t token = f.token;
  CHECK(f.node == "/q/_c_a-lock-0000000000");
  const uint32_t b = f.Acquire(second, "b");
  const uint32_t c = f.Acquire(first, "c");
  CHECK(f.Told(b) == Told{"waiting 1"});
  CHECK(f.Told(c) == Told{"waiting 2"});
  CHECK(f.Release(first, "a"));
  CHECK(f.Told(a) == Told{"lost 1"});
  CHECK(f.transport.outcome(a)->ok());
  CHECK(f.Told(b) == Told{"held"});
  CHECK(f.token > token);
  CHECK(f.Told(c).empty());  // a release wakes one contender
  CHECK(f.Release(second, "b"));
  CHECK(f.Told(c) == Told{"held"});
  CHECK(f.Release(first, "c"));
  CHECK_FALSE(f.Release(first, "c"));
  CHECK(f.Children().empty());
}

TEST_CASE("a contender in the middle of the queue that goes moves those behind it up") {
  Locks f;
  const int64_t session = f.NewSession();
  f.Acquire(session, "a");
  f.Acquire(session, "b");
  const uint32_t c = f.Acquire(session, "c");
  CHECK(f.Told(c) == Told{"waiting 2"});
  f.Release(session, "b");
  CHECK(f.Told(c) == Told{"waiting 1"});
  f.Release(session, "a");
  CHECK(f.Told(c) == Told{"held"});
}

TEST_CASE("contenders of other clients stand in the same queue") {
  Locks f;
  v1::SessionOpened opened;
  const uint32_t session = f.OpenSession(&opened);
  f.Change(CreateOp("/q", "", v1::CREATE_MODE_CONTAINER));
  const auto create = [&](uint64_t sequence, const std::string& path) {
    f.CallOne(session, WriteRequest(sequence, sequence,
                                    {CreateOp(path, "", v1::CREATE_MODE_EPHEMERAL_SEQUENTIAL)}));
  };
  create(1, "/q/_c_0d1f4f5e-1b4f-4f0e-8a51-0123456789ab-lock-");
  create(2, "/q/4f5e__lock__");
  create(3, "/q/other-");
  const uint32_t tag = f.Acquire(opened.session_id(), "a");
  CHECK(f.Told(tag) == Told{"waiting 2"});
  f.Change(DeleteOp("/q/_c_0d1f4f5e-1b4f-4f0e-8a51-0123456789ab-lock-0000000000"));
  CHECK(f.Told(tag).empty());
  f.Change(DeleteOp("/q/4f5e__lock__0000000001"));
  CHECK(f.Told(tag) == Told{"held"});
}

TEST_CASE("a contender that calls again finds its place, and its znode is created once") {
  Locks f;
  const int64_t session = f.NewSession();
  f.Acquire(session, "a");
  const uint32_t broken = f.Acquire(session, "b");
  f.Acquire(session, "c");
  f.transport.Cancel(broken);
  f.Settle();
  CHECK(f.Children().size() == 3);
  const uint32_t b = f.Acquire(session, "b");
  CHECK(f.Told(b) == Told{"waiting 1"});
  CHECK(f.Children().size() == 3);
  f.Release(session, "a");
  CHECK(f.Told(b) == Told{"held"});
  const int64_t token = f.token;
  f.transport.Cancel(b);
  f.Settle();
  const uint32_t again = f.Acquire(session, "b");
  CHECK(f.Told(again) == Told{"held"});
  CHECK(f.token == token);
  // The same id of another session is another contender.
  const uint32_t other = f.Acquire(f.NewSession(), "b");
  CHECK(f.Told(other) == Told{"waiting 2"});
}

TEST_CASE("a contender that is found is confirmed by a barrier") {
  Locks f;
  const int64_t session = f.NewSession();
  f.Acquire(session, "a");
  v1::AcquireRequest request;
  *request.mutable_contender() = Locks::ContenderOf(session, "a");
  const uint32_t tag = f.Begin(Method::kAcquire, request);
  f.transport.RunIterations();
  CHECK(f.service.syncs.size() == 1);
  CHECK(f.Told(tag).empty());
  // Until then the member may not know that the contender has gone.
  f.service.batches.clear();
  f.Change(DeleteOp("/q/_c_a-lock-0000000000"));
  CHECK(f.Told(tag) == Told{"held"});
  CHECK(f.node == "/q/_c_a-lock-0000000001");
}

TEST_CASE("of two znodes that repeated calls have created, the first one counts") {
  Locks f;
  const int64_t session = f.NewSession();
  f.Acquire(session, "first");
  // The first stream breaks while its creation is on its way, and the second one does not see it.
  v1::AcquireRequest request;
  *request.mutable_contender() = Locks::ContenderOf(session, "a");
  const uint32_t broken = f.Begin(Method::kAcquire, request);
  f.transport.RunIterations();
  REQUIRE(f.service.batches.size() == 1);
  f.transport.Cancel(broken);
  const uint32_t tag = f.Begin(Method::kAcquire, request);
  f.transport.RunIterations();
  REQUIRE(f.service.batches.size() == 2);
  f.Settle();
  CHECK(f.Children() == Told{"_c_a-lock-0000000001", "_c_first-lock-0000000000"});
  CHECK(f.Told(tag) == Told{"waiting 1"});
  f.Release(session, "first");
  CHECK(f.Told(tag) == Told{"held"});
  CHECK(f.node == "/q/_c_a-lock-0000000001");
}

TEST_CASE("a release removes a znode whose creation was on its way when its stream broke") {
  Locks f;
  const int64_t session = f.NewSession();
  v1::AcquireRequest request;
  *request.mutable_contender() = Locks::ContenderOf(session, "a");
  const uint32_t broken = f.Begin(Method::kAcquire, request);
  f.transport.RunIterations();
  REQUIRE(f.service.batches.size() == 1);
  f.transport.Cancel(broken);
  CHECK(f.Release(session, "a"));
  CHECK(f.Children().empty());
}

TEST_CASE("a contender goes with its session") {
  Locks f;
  v1::SessionOpened opened;
  const uint32_t session = f.OpenSession(&opened);
  const uint32_t a = f.Acquire(opened.session_id(), "a");
  const uint32_t b = f.Acquire(f.NewSession(), "b");
  CHECK(f.Told(a) == Told{"held"});
  CHECK(f.Told(b) == Told{"waiting 1"});
  f.CloseSession(session);
  CHECK(f.Told(a) == Told{"lost 2"});
  CHECK(f.transport.outcome(a)->ok());
  CHECK(f.Told(b) == Told{"held"});
  const uint32_t again = f.Acquire(opened.session_id(), "a");
  CHECK(DetailOf(*f.transport.outcome(again)).code() == v1::ERROR_CODE_SESSION_EXPIRED);
}

TEST_CASE("a call needs the password of the session, and the member to which it is attached") {
  Locks f;
  const int64_t session = f.NewSession();
  v1::AcquireRequest request;
  *request.mutable_contender() = Locks::ContenderOf(session, "a");
  request.mutable_contender()->set_session_password("another password");
  const uint32_t wrong = f.Begin(Method::kAcquire, request);
  f.Settle();
  CHECK(DetailOf(*f.transport.outcome(wrong)).code() == v1::ERROR_CODE_SESSION_EXPIRED);
  f.service.member += 1;  // as if the session were attached to another member
  const uint32_t moved = f.Acquire(session, "a");
  CHECK(DetailOf(*f.transport.outcome(moved)).code() == v1::ERROR_CODE_SESSION_MOVED);
  f.service.member -= 1;
  CHECK(f.Told(f.Acquire(session, "a")) == Told{"held"});
}

TEST_CASE("a znode is not created for a session that has moved in the meantime") {
  Locks f;
  const int64_t session = f.NewSession();
  v1::AcquireRequest request;
  *request.mutable_contender() = Locks::ContenderOf(session, "a");
  const uint32_t tag = f.Begin(Method::kAcquire, request);
  f.transport.RunIterations();
  REQUIRE(f.service.batches.size() == 1);
  std::swap(f.held_back, f.service.batches);  // the creation is late
  v1::SessionOpened opened;
  f.OpenSession(&opened, session);
  std::swap(f.held_back, f.service.batches);
  f.Settle();
  CHECK(DetailOf(*f.transport.outcome(tag)).code() == v1::ERROR_CODE_SESSION_MOVED);
  CHECK(f.Children().empty());
}

TEST_CASE("a contender that does not get the lock in time is removed") {
  Locks f;
  const int64_t session = f.NewSession();
  f.Acquire(session, "a");
  v1::AcquireRequest request;
  *request.mutable_contender() = Locks::ContenderOf(session, "b");
  *request.mutable_wait() = v1::DurationOfMs(1000);
  const uint32_t b = f.Begin(Method::kAcquire, request);
  *request.mutable_contender() = Locks::ContenderOf(session, "c");
  *request.mutable_wait() = v1::DurationOfMs(0);
  f.Settle();
  const uint32_t c = f.Begin(Method::kAcquire, request);
  f.Settle();
  CHECK(f.Told(b) == Told{"waiting 1"});
  CHECK(f.Told(c) == Told{"lost 3"});
  f.Pass(900);
  CHECK(f.Told(b).empty());
  f.Pass(200);
  CHECK(f.Told(b) == Told{"lost 3"});
  CHECK(f.Children().size() == 1);
  // A lock that is free is held, whatever the wait.
  f.Release(session, "a");
  const uint32_t again = f.Begin(Method::kAcquire, request);
  f.Settle();
  f.Pass(1000);
  CHECK(f.Told(again) == Told{"held"});
}

TEST_CASE("a contender that gets the lock in the moment in which its wait is over keeps it") {
  Locks f;
  const int64_t holder = f.NewSession();
  f.Acquire(holder, "a");
  v1::AcquireRequest request;
  *request.mutable_contender() = Locks::ContenderOf(f.NewSession(), "b");
  *request.mutable_wait() = v1::DurationOfMs(1000);
  const uint32_t b = f.Begin(Method::kAcquire, request);
  f.Settle();
  CHECK(f.Told(b) == Told{"waiting 1"});
  f.clock.Advance(1100);
  f.loop.OnTimer();
  f.transport.RunIterations();
  REQUIRE(f.service.batches.size() == 1);
  std::swap(f.held_back, f.service.batches);  // its withdrawal is late
  CHECK(f.Release(holder, "a"));
  std::swap(f.held_back, f.service.batches);
  f.Settle();
  CHECK(f.Told(b) == Told{"held"});
  CHECK(f.Children() == Told{"_c_b-lock-0000000001"});
}

TEST_CASE("a newer call for a contender ends the older stream, and its wait") {
  Locks f;
  const int64_t session = f.NewSession();
  f.Acquire(f.NewSession(), "a");
  v1::AcquireRequest request;
  *request.mutable_contender() = Locks::ContenderOf(session, "b");
  *request.mutable_wait() = v1::DurationOfMs(1000);
  const uint32_t older = f.Begin(Method::kAcquire, request);
  f.Settle();
  CHECK(f.Told(older) == Told{"waiting 1"});
  // Whoever does not know the password ends nothing.
  request.mutable_contender()->set_session_password("another password");
  f.Begin(Method::kAcquire, request);
  f.Settle();
  CHECK_FALSE(f.transport.outcome(older).has_value());
  const uint32_t newer = f.Acquire(session, "b");
  REQUIRE(f.transport.outcome(older).has_value());
  CHECK(DetailOf(*f.transport.outcome(older)).code() == v1::ERROR_CODE_BAD_ARGUMENTS);
  f.Pass(1100);
  CHECK(f.Told(newer) == Told{"waiting 1"});
  CHECK(f.Children().size() == 2);
}

TEST_CASE("a call with a token continues only that contender") {
  Locks f;
  const int64_t session = f.NewSession();
  const uint32_t first = f.Acquire(session, "a");
  CHECK(f.Told(first) == Told{"held"});
  v1::AcquireRequest request;
  *request.mutable_contender() = Locks::ContenderOf(session, "a");
  request.set_only_token(f.token);
  const auto call = [&] {
    const uint32_t tag = f.Begin(Method::kAcquire, request);
    f.Settle();
    return tag;
  };
  const uint32_t second = call();
  CHECK(f.Told(second) == Told{"held"});
  CHECK(f.token == request.only_token());
  f.transport.Cancel(second);
  f.Change(DeleteOp(f.node));
  // It does not come into the queue a second time.
  const uint32_t third = call();
  CHECK(f.Told(third) == Told{"lost 1"});
  CHECK(f.transport.outcome(third)->ok());
  CHECK(f.Children().empty());
  // A later contender with the same id is another one.
  f.transport.Cancel(f.Acquire(session, "a"));
  f.Settle();
  CHECK(f.Told(call()) == Told{"lost 1"});
  request.set_only_token(-1);
  CHECK(DetailOf(*f.transport.outcome(call())).code() == v1::ERROR_CODE_BAD_ARGUMENTS);
}

TEST_CASE("a contender is not lost while a znode of it stands in the queue") {
  Locks f;
  v1::SessionOpened opened;
  const uint32_t session = f.OpenSession(&opened);
  const uint32_t tag = f.Acquire(opened.session_id(), "a");
  CHECK(f.Told(tag) == Told{"held"});
  const int64_t token = f.token;
  f.CallOne(
      session,
      WriteRequest(1, 1, {CreateOp("/q/_c_a-lock-", "", v1::CREATE_MODE_EPHEMERAL_SEQUENTIAL)}));
  f.Change(DeleteOp(f.node));
  CHECK(f.Told(tag) == Told{"held"});
  CHECK(f.token > token);
  CHECK(f.node == "/q/_c_a-lock-0000000001");
  f.Change(DeleteOp(f.node));
  CHECK(f.Told(tag) == Told{"lost 1"});
}

TEST_CASE("a release leaves a contender that came after it") {
  Locks f;
  v1::SessionOpened opened;
  const uint32_t session = f.OpenSession(&opened);
  f.Change(CreateOp("/q"));
  v1::ReleaseRequest request;
  *request.mutable_contender() = Locks::ContenderOf(opened.session_id(), "a");
  const uint32_t release = f.Begin(Method::kRelease, request);
  f.transport.RunIterations();
  REQUIRE(f.service.batches.size() == 1);
  f.Send(session,
         MessageOf({WriteRequest(
             1, 1, {CreateOp("/q/_c_a-lock-", "", v1::CREATE_MODE_EPHEMERAL_SEQUENTIAL)})}));
  f.transport.RunIterations();
  while (!f.service.batches.empty()) f.service.Apply(f.listener);
  f.Settle();
  CHECK(f.transport.outcome(release)->ok());
  CHECK(f.Children() == Told{"_c_a-lock-0000000000"});
}

TEST_CASE("a release succeeds although the session is attached again here in the meantime") {
  Locks f;
  const int64_t session = f.NewSession();
  f.Acquire(session, "a");
  v1::ReleaseRequest request;
  *request.mutable_contender() = Locks::ContenderOf(session, "a");
  const uint32_t release = f.Begin(Method::kRelease, request);
  f.transport.RunIterations();
  std::swap(f.held_back, f.service.batches);  // the deletion is late
  v1::SessionOpened opened;
  f.OpenSession(&opened, session);
  std::swap(f.held_back, f.service.batches);
  while (!f.service.batches.empty()) f.service.Apply(f.listener);
  CHECK(f.Children().size() == 1);  // it was of the earlier attachment
  f.Settle();
  CHECK(f.transport.outcome(release)->ok());
  CHECK(f.Children().empty());
}

TEST_CASE("an earlier call that still looks for its contender creates nothing after a release") {
  Locks f;
  const int64_t session = f.NewSession();
  f.Fill("/q", 4 * static_cast<int>(kNodesPerHold));
  v1::AcquireRequest request;
  *request.mutable_contender() = Locks::ContenderOf(session, "a");
  const uint32_t tag = f.Begin(Method::kAcquire, request);
  f.transport.RunIteration();
  CHECK(f.service.batches.empty());
  CHECK_FALSE(f.Release(session, "a"));
  CHECK(f.Told(tag) == Told{"lost 1"});
  CHECK(f.Children().size() == 4 * kNodesPerHold);
}

TEST_CASE("a queue is created with its ancestors, as containers") {
  Locks f;
  const int64_t session = f.NewSession();
  f.Change(CreateOp("/top"));
  CHECK(f.Told(f.Acquire(session, "a", "/top/b/c")) == Told{"held"});
  CHECK(f.node == "/top/b/c/_c_a-lock-0000000000");
  // Containers are deleted some time after their last child was.
  CHECK(f.Release(session, "a", "/top/b/c"));
  CHECK(f.service.ReadTree()->FindExpired(kStartMs, 10) == Told{"/top/b/c"});
  std::string deep = "/deep";
  for (int i = 0; i < 40; ++i) deep += "/x";
  const uint32_t refused = f.Acquire(session, "a", deep);
  CHECK(DetailOf(*f.transport.outcome(refused)).code() == v1::ERROR_CODE_NO_NODE);
}

TEST_CASE("a queue that is deleted while a contender comes is created again") {
  Locks f;
  const int64_t session = f.NewSession();
  f.Change(CreateOp("/q"));
  v1::AcquireRequest request;
  *request.mutable_contender() = Locks::ContenderOf(session, "a");
  const uint32_t tag = f.Begin(Method::kAcquire, request);
  f.transport.RunIterations();
  REQUIRE(f.service.batches.size() == 1);
  std::swap(f.held_back, f.service.batches);
  f.Change(DeleteOp("/q"));
  std::swap(f.held_back, f.service.batches);
  f.Settle();
  CHECK(f.Told(tag) == Told{"held"});
}

TEST_CASE("requests of locks that are not valid are refused") {
  Locks f;
  const int64_t session = f.NewSession();
  const auto code_of = [&](const v1::Contender& contender) {
    v1::AcquireRequest request;
    *request.mutable_contender() = contender;
    const uint32_t tag = f.Begin(Method::kAcquire, request);
    f.Settle();
    REQUIRE(f.transport.outcome(tag).has_value());
    return DetailOf(*f.transport.outcome(tag)).code();
  };
  for (const std::string path : {"", "/", "q", "/q/", "/zookeeper/../q"}) {
    CHECK(code_of(Locks::ContenderOf(session, "a", path)) == v1::ERROR_CODE_BAD_ARGUMENTS);
  }
  for (const std::string& id : {std::string(), std::string("a/b"), std::string("a b"),
                                std::string(65, 'a'), std::string("\xc3\xa4")}) {
    CHECK(code_of(Locks::ContenderOf(session, id)) == v1::ERROR_CODE_BAD_ARGUMENTS);
  }
  v1::Contender layout = Locks::ContenderOf(session, "a");
  layout.set_layout(static_cast<v1::QueueLayout>(77));
  CHECK(code_of(layout) == v1::ERROR_CODE_BAD_ARGUMENTS);
  v1::AcquireRequest request;
  *request.mutable_contender() = Locks::ContenderOf(session, "a");
  request.mutable_wait()->set_seconds(-1);
  const uint32_t tag = f.Begin(Method::kAcquire, request);
  f.Settle();
  CHECK(DetailOf(*f.transport.outcome(tag)).code() == v1::ERROR_CODE_BAD_ARGUMENTS);
  const uint32_t twice = f.Acquire(session, "a");
  f.transport.Write(twice, request.SerializeAsString());
  f.Settle();
  CHECK(f.CodeOf(twice) == absl::StatusCode::kInvalidArgument);
  const uint32_t garbage = f.transport.Open(Method::kAcquire);
  f.transport.Write(garbage, "\xff\xff\xff");
  f.Settle();
  CHECK(f.CodeOf(garbage) == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("access control lists decide about locks as about the same operations on the tree") {
  Locks f;
  const int64_t session = f.NewSession();
  const auto queue = [&](const std::string& path, int32_t permissions) {
    v1::Operation operation = CreateOp(path);
    v1::Acl* acl = operation.mutable_create()->add_acl();
    acl->set_scheme("world");
    acl->set_id("anyone");
    acl->set_permissions(permissions);
    f.Change(operation);
  };
  queue("/unreadable", 4 | 8);
  queue("/full", 1 | 8);
  queue("/kept", 1 | 4);
  for (const char* path : {"/unreadable", "/full"}) {
    const uint32_t tag = f.Acquire(session, "a", path);
    CHECK(DetailOf(*f.transport.outcome(tag)).code() == v1::ERROR_CODE_NO_AUTH);
    CHECK(DetailOf(*f.transport.outcome(tag)).path() == path);
  }
  CHECK(f.Children("/unreadable").empty());
  CHECK(f.Told(f.Acquire(session, "a", "/kept")) == Told{"held"});
  v1::ReleaseRequest release;
  *release.mutable_contender() = Locks::ContenderOf(session, "a", "/kept");
  v1::ReleaseResponse released;
  CHECK(f.Unary(Method::kRelease, release, &released).code() ==
        absl::StatusCode::kPermissionDenied);
  v1::ObserveRequest observe;
  observe.set_path("/unreadable");
  const uint32_t observer = f.Begin(Method::kObserve, observe);
  f.Settle();
  CHECK(f.CodeOf(observer) == absl::StatusCode::kPermissionDenied);
}

TEST_CASE("a queue of many is read in pieces, and other clients are served in between") {
  Locks f;
  const int64_t session = f.NewSession();
  constexpr int kOthers = 3 * static_cast<int>(kNodesPerHold);
  f.Fill("/q", kOthers);
  const uint32_t tag = f.Acquire(session, "a");
  CHECK(f.Told(tag) == Told{absl::StrCat("waiting ", kOthers)});
  CHECK(f.loop.longest_hold() <= 2 * kNodesPerHold);
}

TEST_CASE("the contender before goes while a long queue is read, whatever was read then") {
  Locks f;
  const int64_t session = f.NewSession();
  int others = 2 * static_cast<int>(kNodesPerHold);
  f.Fill("/q", others);
  const auto last_but = [&](int count) {
    return DeleteOp(absl::StrCat("/q/lock-", absl::Dec(others - 1 - count, absl::kZeroPad10)));
  };
  for (int iterations = 1; iterations < 12; ++iterations) {
    CAPTURE(iterations);
    const std::string id = absl::StrCat("c", iterations);
    v1::AcquireRequest request;
    *request.mutable_contender() = Locks::ContenderOf(session, id);
    const uint32_t tag = f.Begin(Method::kAcquire, request);
    for (int i = 0; i < iterations; ++i) {
      f.transport.RunIteration();
      if (!f.service.batches.empty()) f.service.Apply(f.listener);
    }
    v1::TxnRequest change;
    *change.add_operations() = last_but(0);
    f.Begin(Method::kTxn, change);
    f.transport.RunIteration();
    REQUIRE_FALSE(f.service.batches.empty());
    f.service.Apply(f.listener);
    f.Settle();
    const Told told = f.Told(tag);
    REQUIRE_FALSE(told.empty());
    CHECK(told.back() == absl::StrCat("waiting ", others - 1));
    f.Change(last_but(1));
    CHECK(f.Told(tag) == Told{absl::StrCat("waiting ", others - 2)});
    others -= 2;
    CHECK(f.Release(session, id));
  }
}

TEST_CASE("a client that does not read receives the newest state of its contender") {
  Locks f;
  const int64_t session = f.NewSession();
  for (const char* id : {"a", "b", "c", "d"}) f.Acquire(session, id);
  v1::AcquireRequest request;
  *request.mutable_contender() = Locks::ContenderOf(session, "z");
  const uint32_t tag = f.transport.Open(Method::kAcquire);
  f.transport.SetReads(tag, false);
  f.transport.Write(tag, request.SerializeAsString());
  f.Settle();
  for (const char* id : {"d", "c", "b", "a"}) f.Release(session, id);
  CHECK(f.Told(tag) == Told{"waiting 4"});
  while (f.transport.ReadOne(tag)) f.Settle();
  const Told told = f.Told(tag);
  REQUIRE_FALSE(told.empty());
  CHECK(told.size() <= 2);
  CHECK(told.back() == "held");
}

TEST_CASE("a stream without contact with a leader ends, and its contender stays") {
  Locks f;
  const int64_t session = f.NewSession();
  const uint32_t a = f.Acquire(session, "a");
  f.service.current.leader_contact_age_ms = 3'000'000;
  f.Pass(100);
  CHECK(f.CodeOf(a) == absl::StatusCode::kUnavailable);
  CHECK(f.Told(a) == Told{"held"});
  CHECK(f.Children().size() == 1);
}

TEST_CASE("streams end when the tree was replaced by a snapshot, and contenders stay") {
  Locks f;
  const int64_t session = f.NewSession();
  const uint32_t held = f.Acquire(session, "a");
  v1::ObserveRequest observe;
  observe.set_path("/q");
  const uint32_t observer = f.Begin(Method::kObserve, observe);
  f.Settle();
  v1::AcquireRequest request;
  *request.mutable_contender() = Locks::ContenderOf(session, "b");
  const uint32_t creating = f.Begin(Method::kAcquire, request);
  v1::ReleaseRequest release;
  *release.mutable_contender() = Locks::ContenderOf(session, "nobody");
  const uint32_t releasing = f.Begin(Method::kRelease, release);
  f.transport.RunIterations();
  f.service.ReplaceTree(f.listener);
  f.frontend.OnBatchApplied();
  f.Settle();
  for (const uint32_t tag : {held, observer, creating, releasing}) {
    CHECK(f.CodeOf(tag) == absl::StatusCode::kUnavailable);
  }
  CHECK(f.frontend.watch_totals().count == 0);
  v1::SessionOpened opened;
  f.OpenSession(&opened, session);
  CHECK(f.Told(f.Acquire(session, "a")) == Told{"held"});
  CHECK(f.Told(f.Acquire(session, "b")) == Told{"waiting 1"});
  CHECK(f.Children().size() == 2);
}

TEST_CASE("a lock counts among the watches and the ephemerals of its client") {
  Config config = TestConfig();
  config.watches_max = 3;
  config.ephemerals_max = 2;
  Locks f(config);
  const int64_t session = f.NewSession();
  f.Acquire(session, "a", "/1");
  f.Acquire(session, "a", "/2");
  const uint32_t third = f.Acquire(session, "a", "/3");
  CHECK(DetailOf(*f.transport.outcome(third)).code() == v1::ERROR_CODE_QUOTA_EXCEEDED);
  f.Release(session, "a", "/1");
  f.Pass(3000);  // the count of ephemerals is corrected
  const uint32_t again = f.Acquire(session, "a", "/3");
  CHECK(f.Told(again) == Told{"held"});
  f.Release(session, "a", "/2");
  f.Pass(3000);
  const uint32_t waits = f.Acquire(session, "b", "/3");
  CHECK(f.Told(waits) == Told{"waiting 1"});  // with this, there are three watches
  f.Release(session, "b", "/3");
  f.Pass(3000);
  v1::ObserveRequest observe;
  observe.set_path("/3");
  for (int i = 0; i < 2; ++i) {
    f.Begin(Method::kObserve, observe);
    f.Settle();
  }
  const uint32_t refused = f.Begin(Method::kObserve, observe);
  f.Settle();
  CHECK(DetailOf(*f.transport.outcome(refused)).code() == v1::ERROR_CODE_TOO_MANY_STREAMS);
}

TEST_CASE("the ephemerals of contenders count while their session has no stream") {
  Config config = TestConfig();
  config.ephemerals_max = 2;
  Locks f(config);
  const int64_t session = f.NewSession();
  f.transport.Cancel(f.session_tags[session]);
  f.Settle();
  for (int i = 0; i < 5; ++i) {
    const uint32_t tag = f.Acquire(session, absl::StrCat("x", i));
    CHECK(f.transport.outcome(tag).has_value() == (i >= 2));
    if (i < 2) f.transport.Cancel(tag);
    f.Settle();
  }
  CHECK(f.Children().size() == 2);
  for (int i = 0; i < 3; ++i) {
    CHECK(f.Release(session, "x1"));
    f.transport.Cancel(f.Acquire(session, "x1"));
    f.Settle();
    CHECK(f.Children().size() == 2);
  }
}

TEST_CASE("a client with as many streams as it may have can release") {
  Config config = TestConfig();
  config.max_client_connections = 2;
  Locks f(config);
  const int64_t session = f.NewSession();
  const uint32_t tag = f.Acquire(session, "a");
  CHECK(f.Told(tag) == Told{"held"});
  CHECK(f.transport.Open(Method::kAcquire) == ManualTransport::kRefused);
  CHECK(f.Release(session, "a"));
  f.Acquire(session, "a");
  // Not without a limit.
  CHECK(f.transport.Open(Method::kRelease) != ManualTransport::kRefused);
  CHECK(f.transport.Open(Method::kResign) != ManualTransport::kRefused);
  CHECK(f.transport.Open(Method::kRelease) == ManualTransport::kRefused);
}

TEST_CASE("many that read a long queue share each iteration") {
  Config config = TestConfig();
  config.max_client_connections = 0;
  Locks f(config);
  const int64_t session = f.NewSession();
  f.Fill("/q", 2 * static_cast<int>(kNodesPerHold));
  std::vector<uint32_t> tags;
  for (int i = 0; i < 40; ++i) {
    v1::AcquireRequest request;
    *request.mutable_contender() = Locks::ContenderOf(session, absl::StrCat("c", i));
    tags.push_back(f.Begin(Method::kAcquire, request));
  }
  const auto reads = f.service.tree_reads;
  f.transport.RunIteration();
  CHECK(f.service.tree_reads - reads < 8);
  f.Settle();
  for (const uint32_t tag : tags) CHECK_FALSE(f.Told(tag).empty());
}

TEST_CASE("the copies of the data of contenders count as work on the tree") {
  Config config = TestConfig();
  config.max_client_connections = 0;
  Locks f(config);
  const int64_t session = f.NewSession();
  f.Change(CreateOp("/q"));
  v1::AcquireRequest request;
  request.set_data(std::string(100'000, 'x'));
  for (int i = 0; i < 100; ++i) {
    *request.mutable_contender() = Locks::ContenderOf(session, absl::StrCat("c", i));
    f.Begin(Method::kAcquire, request);
  }
  const auto reads = f.service.tree_reads;
  f.transport.RunIteration();
  CHECK(f.service.tree_reads - reads >= 8);
}

TEST_CASE("closed streams of locks leave no watch behind") {
  Locks f;
  const int64_t session = f.NewSession();
  const uint32_t a = f.Acquire(session, "a");
  const uint32_t b = f.Acquire(session, "b");
  v1::ObserveRequest request;
  request.set_path("/q");
  const uint32_t observer = f.Begin(Method::kObserve, request);
  f.Settle();
  CHECK(f.frontend.watch_totals().count == 4);
  for (const uint32_t tag : {a, b, observer}) f.transport.Cancel(tag);
  f.Settle();
  CHECK(f.frontend.watch_totals().count == 0);
}

// --- Elections -----------------------------------------------------------------------------------

// Returns "ID DATA" or "none" for each message since the last call.
Told Observed(Locks& f, uint32_t tag) {
  Told told;
  for (const std::string& bytes : std::exchange(f.transport.received(tag), {})) {
    v1::ObserveResponse response;
    REQUIRE(response.ParseFromString(bytes));
    told.push_back(response.has_leader()
                       ? absl::StrCat(response.leader().id(), " ", response.leader().data())
                       : "none");
  }
  return told;
}

TEST_CASE("observers receive each leader and its data") {
  Locks f;
  v1::ObserveRequest observe;
  observe.set_path("/e");
  const uint32_t observer = f.Begin(Method::kObserve, observe);
  f.Settle();
  CHECK(Observed(f, observer) == Told{"none"});
  f.Change(CreateOp("/e"));
  f.Change(CreateOp("/e/other"));
  CHECK(Observed(f, observer).empty());
  v1::SessionOpened opened;
  const uint32_t session = f.OpenSession(&opened);
  const auto campaign = [&](const std::string& id) {
    v1::CampaignRequest request;
    *request.mutable_contender() = Locks::ContenderOf(opened.session_id(), id, "/e");
    request.set_data("of " + id);
    const uint32_t tag = f.Begin(Method::kCampaign, request);
    f.Settle();
    return tag;
  };
  const uint32_t a = campaign("a");
  CHECK(f.Told(a) == Told{"held"});  // `leading` has the same number
  CHECK(Observed(f, observer) == Told{"a of a"});
  const uint32_t b = campaign("b");
  CHECK(Observed(f, observer).empty());
  v1::ProclaimRequest proclaim;
  *proclaim.mutable_contender() = Locks::ContenderOf(opened.session_id(), "a", "/e");
  proclaim.set_data("new");
  v1::ProclaimResponse proclaimed;
  REQUIRE(f.Unary(Method::kProclaim, proclaim, &proclaimed).ok());
  CHECK(proclaimed.zxid() > 0);
  CHECK(Observed(f, observer) == Told{"a new"});
  // The data of a candidate that waits are shown when it leads.
  *proclaim.mutable_contender() = Locks::ContenderOf(opened.session_id(), "b", "/e");
  REQUIRE(f.Unary(Method::kProclaim, proclaim, &proclaimed).ok());
  CHECK(Observed(f, observer).empty());
  v1::ResignRequest resign;
  *resign.mutable_contender() = Locks::ContenderOf(opened.session_id(), "a", "/e");
  v1::ResignResponse resigned;
  REQUIRE(f.Unary(Method::kResign, resign, &resigned).ok());
  CHECK(resigned.resigned());
  CHECK(Observed(f, observer) == Told{"b new"});
  CHECK(f.Told(b) == Told{"waiting 1", "held"});
  f.CloseSession(session);
  CHECK(Observed(f, observer) == Told{"none"});
  CHECK(f.Unary(Method::kProclaim, proclaim, &proclaimed).code() ==
        absl::StatusCode::kUnauthenticated);
  *proclaim.mutable_contender() = Locks::ContenderOf(f.NewSession(), "nobody", "/e");
  CHECK(f.Unary(Method::kProclaim, proclaim, &proclaimed).code() == absl::StatusCode::kNotFound);
}

TEST_CASE("an observer of a queue that is created again while it is read receives its leader") {
  for (int k = 0; k < 12; ++k) {
    CAPTURE(k);
    Locks f;
    f.Fill("/q", 2 * static_cast<int>(kNodesPerHold));
    // The first contenders have gone, as in a queue that has been in use.
    f.Change(DeleteOp("/q/lock-0000000000"));
    f.Change(DeleteOp("/q/lock-0000000001"));
    v1::ObserveRequest observe;
    observe.set_path("/q");
    const uint32_t observer = f.Begin(Method::kObserve, observe);
    f.transport.RunIteration();
    std::vector<v1::TxnRequest> changes(1);
    for (const std::string& name : f.Children()) {
      if (changes.back().operations_size() == 1000) changes.emplace_back();
      *changes.back().add_operations() = DeleteOp("/q/" + name);
    }
    v1::TxnRequest& last = changes.emplace_back();
    const std::string first = absl::StrCat("/q/_c_", k, "x-lock-");
    *last.add_operations() = DeleteOp("/q");
    *last.add_operations() = CreateOp("/q");
    *last.add_operations() = CreateOp(first, "", v1::CREATE_MODE_PERSISTENT_SEQUENTIAL);
    *last.add_operations() =
        CreateOp(absl::StrCat("/q/_c_", k, "y-lock-"), "", v1::CREATE_MODE_PERSISTENT_SEQUENTIAL);
    for (const v1::TxnRequest& change : changes) f.Begin(Method::kTxn, change);
    f.transport.RunIteration();
    while (!f.service.batches.empty()) f.service.Apply(f.listener);
    f.Settle();
    REQUIRE_FALSE(f.transport.received(observer).empty());
    v1::ObserveResponse response;
    REQUIRE(response.ParseFromString(f.transport.received(observer).back()));
    CHECK(response.leader().node() == first + "0000000000");
  }
}

TEST_CASE("latches have a queue of their own") {
  Locks f;
  const int64_t session = f.NewSession();
  f.Acquire(session, "a", "/e");
  v1::CampaignRequest request;
  *request.mutable_contender() = Locks::ContenderOf(session, "a", "/e");
  request.mutable_contender()->set_layout(v1::QUEUE_LAYOUT_LATCH);
  const uint32_t tag = f.Begin(Method::kCampaign, request);
  f.Settle();
  CHECK(f.Told(tag) == Told{"held"});
  CHECK(f.node == "/e/_c_a-latch-0000000001");
}

TEST_CASE("an observer that does not read receives the newest leader") {
  Locks f;
  const int64_t session = f.NewSession();
  v1::ObserveRequest observe;
  observe.set_path("/e");
  const uint32_t observer = f.transport.Open(Method::kObserve);
  f.transport.SetReads(observer, false);
  f.transport.Write(observer, observe.SerializeAsString());
  f.Settle();
  for (const char* id : {"a", "b", "c", "d"}) f.Acquire(session, id, "/e");
  for (const char* id : {"a", "b", "c"}) f.Release(session, id, "/e");
  while (f.transport.ReadOne(observer)) f.Settle();
  const Told told = Observed(f, observer);
  REQUIRE(told.size() <= 3);
  CHECK(told.front() == "none");
  CHECK(told.back() == "d ");
}

}  // namespace
}  // namespace quorate::rpc::native
