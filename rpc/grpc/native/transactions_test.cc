// SPDX-License-Identifier: Apache-2.0

// Transactions with branches and reads, and creates with their parents: in sessions and as calls.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rpc/frontend/counted_bytes.h"
#include "rpc/frontend/request_limits.h"
#include "rpc/grpc/native/session_stream.h"
#include "rpc/grpc/native/testing/fixture.h"
#include "tree/limits.h"

namespace quorate::rpc::native {
namespace {

v1::Operation GetOp(const std::string& path) {
  v1::Operation operation;
  operation.mutable_get()->set_path(path);
  return operation;
}

v1::Operation ExistsOp(const std::string& path) {
  v1::Operation operation;
  operation.mutable_exists()->set_path(path);
  return operation;
}

v1::Operation ListOp(const std::string& path) {
  v1::Operation operation;
  operation.mutable_list()->set_path(path);
  return operation;
}

v1::Compare HasData(const std::string& path, const std::string& data,
                    v1::CompareRelation relation = v1::COMPARE_RELATION_UNSPECIFIED) {
  v1::Compare compare;
  compare.set_path(path);
  compare.set_relation(relation);
  compare.set_data(data);
  return compare;
}

v1::Compare HasVersion(const std::string& path, int32_t version) {
  v1::Compare compare;
  compare.set_path(path);
  compare.set_version(version);
  return compare;
}

v1::TxnRequest Txn(const std::vector<v1::Compare>& compares,
                   const std::vector<v1::Operation>& operations,
                   const std::vector<v1::Operation>& otherwise = {}) {
  v1::TxnRequest txn;
  for (const v1::Compare& compare : compares) *txn.add_compares() = compare;
  for (const v1::Operation& operation : operations) *txn.add_operations() = operation;
  for (const v1::Operation& operation : otherwise) *txn.add_otherwise() = operation;
  return txn;
}

v1::Request InSession(uint64_t sequence, const v1::TxnRequest& txn) {
  v1::Request request;
  request.set_id(sequence);
  request.mutable_write()->set_sequence(sequence);
  *request.mutable_write()->mutable_operations() = txn.operations();
  *request.mutable_write()->mutable_compares() = txn.compares();
  *request.mutable_write()->mutable_otherwise() = txn.otherwise();
  return request;
}

v1::TxnResponse Do(Fixture* f, const v1::TxnRequest& txn) {
  v1::TxnResponse response;
  const absl::Status status = f->Unary(Method::kTxn, txn, &response);
  CAPTURE(status.message());
  REQUIRE(status.ok());
  return response;
}

// Does a transaction that must fail. Returns the details of the status.
v1::ErrorDetail Fail(Fixture* f, const v1::TxnRequest& txn) {
  v1::TxnResponse response;
  const absl::Status status = f->Unary(Method::kTxn, txn, &response);
  REQUIRE_FALSE(status.ok());
  return DetailOf(status);
}

TEST_CASE("a call makes the branch that its compares choose, and says which") {
  Fixture f;
  Do(&f, Txn({}, {CreateOp("/a", "1")}));
  const v1::TxnRequest txn = Txn({HasVersion("/a", 0), HasData("/a", "1")},
                                 {SetOp("/a", "2"), GetOp("/a")}, {GetOp("/a"), ListOp("/")});
  const v1::TxnResponse then = Do(&f, txn);
  CHECK(then.branch() == v1::BRANCH_OPERATIONS);
  CHECK(then.zxid() == f.zxid());
  REQUIRE(then.results_size() == 2);
  CHECK(then.results(0).stat().version() == 1);
  CHECK(then.results(1).data() == "2");
  CHECK(then.results(1).exists());
  CHECK(then.results(1).stat().modified_zxid() == then.zxid());
  const v1::TxnResponse otherwise = Do(&f, txn);
  CHECK(otherwise.branch() == v1::BRANCH_OTHERWISE);
  REQUIRE(otherwise.results_size() == 2);
  CHECK(otherwise.results(0).data() == "2");
  REQUIRE(otherwise.results(1).children_size() == 2);
  CHECK(otherwise.results(1).children(0) == "a");
  CHECK(otherwise.results(1).children(1) == "zookeeper");
  // Either branch may be empty, and so may be the compares.
  CHECK(Do(&f, Txn({HasVersion("/a", 1)}, {})).branch() == v1::BRANCH_OPERATIONS);
  CHECK(Do(&f, Txn({HasVersion("/a", 0)}, {GetOp("/a")})).results().empty());
  CHECK(Do(&f, Txn({}, {}, {DeleteOp("/a")})).branch() == v1::BRANCH_OPERATIONS);
  CHECK(Do(&f, Txn({}, {ExistsOp("/a"), ExistsOp("/b")})).results(0).exists());
  CHECK_FALSE(Do(&f, Txn({}, {ExistsOp("/a"), ExistsOp("/b")})).results(1).exists());
}

TEST_CASE("each target of a compare is that field of the stat") {
  Fixture f;
  const int64_t created = Do(&f, Txn({}, {CreateOp("/a")})).zxid();
  const int64_t modified = Do(&f, Txn({}, {SetOp("/a", "x")})).zxid();
  const int64_t child = Do(&f, Txn({}, {CreateOp("/a/b")})).zxid();
  v1::Compare compares[7];
  compares[0].set_exists(true);
  compares[1].set_created_zxid(created);
  compares[2].set_modified_zxid(modified);
  compares[3].set_children_modified_zxid(child);
  compares[4].set_version(1);
  compares[5].set_children_version(1);
  compares[6].set_acl_version(0);
  for (v1::Compare& compare : compares) {
    compare.set_path("/a");
    CAPTURE(compare.ShortDebugString());
    CHECK(Do(&f, Txn({compare}, {})).branch() == v1::BRANCH_OPERATIONS);
    compare.set_relation(v1::COMPARE_RELATION_NOT_EQUAL);
    CHECK(Do(&f, Txn({compare}, {})).branch() == v1::BRANCH_OTHERWISE);
    const bool is_ordered = compare.target_case() != v1::Compare::kExists;
    for (const v1::CompareRelation relation :
         {v1::COMPARE_RELATION_LESS, v1::COMPARE_RELATION_GREATER}) {
      compare.set_relation(relation);
      if (is_ordered) {
        CHECK(Do(&f, Txn({compare}, {})).branch() == v1::BRANCH_OTHERWISE);
      } else {
        CHECK(Fail(&f, Txn({compare}, {})).code() == v1::ERROR_CODE_BAD_ARGUMENTS);
      }
    }
  }
  CHECK(Do(&f, Txn({HasData("/a", "y", v1::COMPARE_RELATION_LESS)}, {})).branch() ==
        v1::BRANCH_OPERATIONS);
  CHECK(Do(&f, Txn({HasData("/a", "w", v1::COMPARE_RELATION_GREATER)}, {})).branch() ==
        v1::BRANCH_OPERATIONS);
}

TEST_CASE("a transaction that fails names the branch, the place and the path") {
  Fixture f;
  Do(&f, Txn({}, {CreateOp("/a", "1")}));
  const v1::ErrorDetail then =
      Fail(&f, Txn({HasVersion("/a", 0)}, {SetOp("/a", "2"), DeleteOp("/x")}, {DeleteOp("/y")}));
  CHECK(then.code() == v1::ERROR_CODE_NO_NODE);
  CHECK(then.branch() == v1::BRANCH_OPERATIONS);
  CHECK(then.operation_index() == 1);
  CHECK(then.path() == "/x");
  CHECK(then.results_size() == 2);
  const v1::ErrorDetail otherwise =
      Fail(&f, Txn({HasVersion("/a", 7)}, {SetOp("/a", "2")}, {GetOp("/a"), GetOp("/y")}));
  CHECK(otherwise.code() == v1::ERROR_CODE_NO_NODE);
  CHECK(otherwise.branch() == v1::BRANCH_OTHERWISE);
  CHECK(otherwise.operation_index() == 1);
  CHECK(otherwise.path() == "/y");
  const v1::ErrorDetail compare =
      Fail(&f, Txn({HasVersion("/a", 0), HasVersion("/b/", 0)}, {SetOp("/a", "2")}, {GetOp("/a")}));
  CHECK(compare.code() == v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(compare.branch() == v1::BRANCH_COMPARES);
  CHECK(compare.operation_index() == 1);
  CHECK(compare.path() == "/b/");
  CHECK(Do(&f, Txn({}, {GetOp("/a")})).results(0).data() == "1");
}

TEST_CASE("transactions that are not valid are refused as a whole") {
  Fixture f;
  CHECK(Fail(&f, Txn({}, {})).code() == v1::ERROR_CODE_BAD_ARGUMENTS);
  v1::Compare none;
  none.set_path("/");
  CHECK(Fail(&f, Txn({none}, {})).code() == v1::ERROR_CODE_BAD_ARGUMENTS);
  const v1::Compare unknown = HasData("/", "", static_cast<v1::CompareRelation>(77));
  CHECK(Fail(&f, Txn({unknown}, {})).code() == v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(Fail(&f, Txn({HasVersion("/", 0)}, {}, {v1::Operation()})).code() ==
        v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK_FALSE(Fail(&f, Txn({unknown}, {})).has_operation_index());
}

TEST_CASE("the data of both branches and of the compares count together") {
  Config config = TestConfig();
  config.jute_max_buffer_bytes = 1000;
  Fixture f(config);
  const std::string data(333, 'x');
  const auto txn = [&](const std::string& last) {
    return Txn({HasData("/a", data)}, {CreateOp("/a", data)}, {CreateOp("/a", last)});
  };
  CHECK(Fail(&f, txn(data + "xx")).code() == v1::ERROR_CODE_TOO_LARGE);
  CHECK(Fail(&f, txn(data + "xx")).data_bytes_max() == 1000);
  CHECK(Do(&f, txn(data + "x")).branch() == v1::BRANCH_OTHERWISE);
}

TEST_CASE("the parts of a transaction with branches are limited together") {
  Fixture f;
  std::vector<v1::Compare> compares(kBranchPartsMax - 2, HasVersion("/", -1));
  CHECK(Do(&f, Txn(compares, {DeleteOp("/a")}, {ExistsOp("/a")})).branch() == v1::BRANCH_OTHERWISE);
  const v1::ErrorDetail detail =
      Fail(&f, Txn(compares, {DeleteOp("/a")}, {ExistsOp("/a"), ExistsOp("/a")}));
  CHECK(detail.code() == v1::ERROR_CODE_TOO_LARGE);
  CHECK_FALSE(detail.has_operation_index());
  // One without branches is not.
  Do(&f, Txn({}, {CreateOp("/a")}));
  v1::Operation check;
  check.mutable_check()->set_path("/a");
  Do(&f, Txn({}, std::vector<v1::Operation>(kBranchPartsMax + 1, check)));
}

TEST_CASE("a transaction whose compares could have too many results is refused") {
  Config config = TestConfig();
  config.max_reply_bytes = 10'000;
  Fixture f(config);
  // The first one cannot be made, so that each has a result.
  CHECK(Fail(&f, Txn(std::vector<v1::Compare>(500, HasVersion("x", 0)), {})).code() ==
        v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(Fail(&f, Txn(std::vector<v1::Compare>(1000, HasVersion("x", 0)), {})).code() ==
        v1::ERROR_CODE_TOO_LARGE);
}

TEST_CASE("a transaction whose reads return too much changes nothing") {
  Fixture f;
  Do(&f, Txn({}, {CreateOp("/a", std::string(tree::kReadCostMax / 2, 'x'))}));
  const v1::ErrorDetail detail = Fail(&f, Txn({}, {CreateOp("/b"), GetOp("/a"), GetOp("/a")}));
  CHECK(detail.code() == v1::ERROR_CODE_TOO_LARGE);
  CHECK(detail.operation_index() == 2);
  CHECK_FALSE(Do(&f, Txn({}, {ExistsOp("/b")})).results(0).exists());
}

TEST_CASE("a session's transaction that is sent again has the same branch and the same reads") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  v1::Compare absent;
  absent.set_path("/a");
  absent.set_created_zxid(0);
  const v1::TxnRequest txn = Txn({absent}, {CreateOp("/a", "1"), GetOp("/a")}, {DeleteOp("/a")});
  const v1::Response first = f.CallOne(tag, InSession(1, txn));
  CHECK(first.error() == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(first.write().branch() == v1::BRANCH_OPERATIONS);
  REQUIRE(first.write().results_size() == 2);
  CHECK(first.write().results(1).data() == "1");
  CHECK(f.CallOne(tag, InSession(1, txn)).SerializeAsString() == first.SerializeAsString());
  const v1::Response second = f.CallOne(tag, InSession(2, txn));
  CHECK(second.write().branch() == v1::BRANCH_OTHERWISE);
  CHECK(second.write().results(0).removed() == 1);
  // A number that was used for a transaction, and is sent again with another write, has the answer
  // of the transaction.
  CHECK(f.CallOne(tag, InSession(2, Txn({}, {CreateOp("/b")}))).write().branch() ==
        v1::BRANCH_OTHERWISE);

  const v1::Response refused = f.CallOne(tag, InSession(3, Txn({HasVersion("b", 0)}, {})));
  CHECK(refused.error() == v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(refused.write().branch() == v1::BRANCH_COMPARES);
  CHECK(f.CallOne(tag, InSession(4, Txn({}, {CreateOp("/c")}))).write().branch() ==
        v1::BRANCH_UNSPECIFIED);
}

TEST_CASE("a session has few transactions with reads in flight, and all of them are answered") {
  Fixture f;
  Do(&f, Txn({}, {CreateOp("/a", std::string(60'000, 'x'))}));
  const uint32_t tag = f.OpenSession();
  v1::SessionRequest message;
  for (uint64_t i = 1; i <= 30; ++i) {
    *message.add_requests() = InSession(i, Txn({}, {i % 2 == 0 ? SetOp("/b", "") : GetOp("/a")}));
  }
  // The client says that it has received answers that it has not: the servers keep none of them.
  message.set_acknowledged_sequence(100);
  f.Send(tag, message);
  f.transport.RunIterations();
  size_t begun = 0;
  for (const CommandBatch& batch : f.service.batches) begun += batch.commands.size();
  CHECK(begun == 2 * SessionStream::kReadingWritesMax);
  int answered = 0;
  for (int i = 0; i < 100 && answered < 30; ++i) {
    f.Settle();
    const v1::SessionResponse received = f.Received(tag);
    for (const v1::SessionItem& item : received.items()) {
      ++answered;
      const bool is_read = answered % 2 == 1;
      CHECK(item.response().id() == static_cast<uint64_t>(answered));
      CHECK(item.response().error() ==
            (is_read ? v1::ERROR_CODE_UNSPECIFIED : v1::ERROR_CODE_NO_NODE));
      if (is_read) CHECK(item.response().write().results(0).data().size() == 60'000);
    }
  }
  CHECK(answered == 30);
}

TEST_CASE("a client that reads one answer before it asks for the next is never refused") {
  Fixture f;
  Do(&f, Txn({}, {CreateOp("/a", std::string(60'000, 'x'))}));
  const uint32_t tag = f.OpenSession();
  v1::SessionRequest message;
  for (uint64_t i = 1; i <= 30; ++i) {
    message.set_acknowledged_sequence(i - 1);
    message.clear_requests();
    *message.add_requests() = InSession(i, Txn({}, {GetOp("/a")}));
    f.Send(tag, message);
    f.Settle();
    const v1::SessionResponse received = f.Received(tag);
    REQUIRE(received.items_size() == 1);
    CHECK(received.items(0).response().write().results(0).data().size() == 60'000);
  }
  // Two at a time do not fit.
  message.set_acknowledged_sequence(30);
  message.clear_requests();
  *message.add_requests() = InSession(31, Txn({}, {GetOp("/a")}));
  *message.add_requests() = InSession(32, Txn({}, {GetOp("/a")}));
  f.Send(tag, message);
  f.Settle();
  const v1::SessionResponse both = f.Received(tag);
  REQUIRE(both.items_size() == 2);
  CHECK(both.items(0).response().error() == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(both.items(1).response().error() == v1::ERROR_CODE_TOO_MANY_UNACKNOWLEDGED);
}

TEST_CASE("a stream that sends one number again and again gets one answer after the other") {
  Fixture f;
  MemoryBudget& memory = f.service.memory();
  Do(&f, Txn({}, {CreateOp("/a", std::string(60'000, 'x'))}));
  const uint32_t tag = f.OpenSession();
  f.CallOne(tag, InSession(1, Txn({}, {GetOp("/a")})));
  v1::Operation check;
  check.mutable_check()->set_path("/");
  v1::SessionRequest message;
  for (int i = 0; i < 30; ++i) *message.add_requests() = InSession(1, Txn({}, {check}));
  f.Send(tag, message);
  f.transport.RunIterations();
  REQUIRE(f.service.batches.size() == 1);
  CHECK(f.service.batches[0].commands.size() == 1);
  CHECK(memory.used(MemoryUse::kReads) == static_cast<int64_t>(tree::kAnswerBytesMax));
  int answered = 0;
  for (int i = 0; i < 100 && answered < 30; ++i) {
    f.Settle();
    answered += f.Received(tag).items_size();
  }
  CHECK(answered == 30);
  CHECK(memory.used(MemoryUse::kReads) == 0);
}

// Opens a stream for a session that has another one.
uint32_t Reopen(Fixture* f, const v1::SessionOpened& opened) {
  v1::SessionRequest open;
  *open.mutable_open() = OpenMessage(opened.session_id()).open();
  const uint32_t tag = f->transport.Open(Method::kSession);
  f->Send(tag, open);
  f->Settle();
  REQUIRE(f->Received(tag).has_opened());
  return tag;
}

TEST_CASE("what a session sends again after a reconnection waits for no memory, and takes none") {
  Fixture f;
  MemoryBudget& memory = f.service.memory();
  v1::SessionOpened opened;
  const uint32_t tag = f.OpenSession(&opened);
  v1::SessionRequest message;
  for (uint64_t i = 1; i <= 100; ++i) {
    *message.add_requests() = InSession(i, Txn({}, {CreateOp("/" + std::to_string(i))}));
  }
  f.Send(tag, message);
  f.Settle();
  REQUIRE(f.Received(tag).items_size() == 100);
  const uint32_t next = Reopen(&f, opened);
  memory.SetLimit(4 << 20);
  CountedBytes unsent(&memory, MemoryUse::kUnsent);
  unsent.Set(2 << 20);
  REQUIRE(memory.replies_exceed());
  // The last one is new, and reads.
  *message.add_requests() = InSession(101, Txn({}, {GetOp("/1")}));
  f.Send(next, message);
  f.transport.RunIterations();
  size_t begun = 0;
  for (const CommandBatch& batch : f.service.batches) begun += batch.commands.size();
  CHECK(begun == 101);
  CHECK(memory.used(MemoryUse::kReads) < static_cast<int64_t>(2 * tree::kReadAnswerBytesMax));
  f.Settle();
  const v1::SessionResponse received = f.Received(next);
  REQUIRE(received.items_size() == 101);
  for (int i = 0; i < 100; ++i) {
    const v1::Response& response = received.items(i).response();
    CHECK(response.write().results(0).path() == "/" + std::to_string(i + 1));
  }
  CHECK(received.items(100).response().error() == v1::ERROR_CODE_UNSPECIFIED);
}

TEST_CASE("a write that is sent again with fewer parts has no more results than those") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  const std::vector<v1::Compare> compares(9000, HasVersion("x", 0));
  const v1::Response first = f.CallOne(tag, InSession(1, Txn(compares, {})));
  CHECK(first.write().results_size() == 9000);
  const v1::Response other = f.CallOne(tag, InSession(1, Txn({}, {CreateOp("/a")})));
  CHECK(other.error() == v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(other.write().results_size() == 1);
  CHECK(f.CallOne(tag, InSession(1, Txn(compares, {}))).SerializeAsString() ==
        first.SerializeAsString());
  // Also while the write would be refused.
  f.service.version = tree::kVersionTransactions - 1;
  CHECK(f.CallOne(tag, InSession(1, Txn(compares, {}))).SerializeAsString() ==
        first.SerializeAsString());
}

TEST_CASE("what reads in flight may return counts against the memory of replies") {
  Fixture f;
  MemoryBudget& memory = f.service.memory();
  Do(&f, Txn({}, {CreateOp("/a", std::string(60'000, 'x'))}));
  memory.SetLimit(4 * 5 * tree::kReadCostMax / 2);
  std::vector<uint32_t> tags;
  const auto call = [&](const v1::Operation& read) {
    tags.push_back(f.transport.Open(Method::kTxn));
    f.transport.Write(tags.back(), Txn({}, {read}).SerializeAsString());
  };
  for (int i = 0; i < 4; ++i) call(GetOp("/a"));
  f.transport.RunIterations();
  const auto mb = static_cast<int64_t>(tree::kReadCostMax);
  CHECK(memory.used(MemoryUse::kReads) > 3 * mb);
  CHECK(memory.used(MemoryUse::kReads) < 3 * mb + 3000);
  // As soon as a call is refused, those that do not fetch their replies can be cut off.
  CHECK(memory.replies_exceed());
  CHECK(f.CodeOf(tags[3]) == absl::StatusCode::kUnavailable);
  CHECK(memory.refused() == 1);
  f.Settle();
  for (int i = 0; i < 3; ++i) CHECK(f.CodeOf(tags[i]) == absl::StatusCode::kOk);
  CHECK(memory.used(MemoryUse::kReads) == 0);
  // One that asks only whether znodes exist takes little.
  call(ExistsOp("/a"));
  f.transport.RunIterations();
  CHECK(memory.used(MemoryUse::kReads) < 1000);
  f.Settle();
  CHECK(f.CodeOf(tags[4]) == absl::StatusCode::kOk);

  // A session begins the first one, and the others one after the other while replies exceed.
  memory.SetLimit(4 * 3 * tree::kReadAnswerBytesMax / 2);
  const uint32_t tag = f.OpenSession();
  v1::SessionRequest message;
  for (uint64_t i = 1; i <= 4; ++i) *message.add_requests() = InSession(i, Txn({}, {GetOp("/a")}));
  message.set_acknowledged_sequence(100);
  f.Send(tag, message);
  f.transport.RunIterations();
  const auto kept = static_cast<int64_t>(tree::kReadAnswerBytesMax);
  CHECK(memory.used(MemoryUse::kReads) > 2 * kept);
  CHECK(memory.used(MemoryUse::kReads) < 2 * kept + 3000);
  int answered = 0;
  for (int i = 0; i < 20 && answered < 4; ++i) {
    f.Settle();
    answered += f.Received(tag).items_size();
  }
  CHECK(answered == 4);
  CHECK(memory.used(MemoryUse::kReads) == 0);
}

TEST_CASE("what reads in flight may return counts until the result comes, whoever is gone") {
  Fixture f;
  MemoryBudget& memory = f.service.memory();
  Do(&f, Txn({}, {CreateOp("/a", "x")}));
  v1::SessionOpened opened;
  const uint32_t session = f.OpenSession(&opened);
  const uint32_t call = f.transport.Open(Method::kTxn);
  f.transport.Write(call, Txn({}, {GetOp("/a")}).SerializeAsString());
  v1::SessionRequest message;
  for (uint64_t i = 1; i <= 4; ++i) {
    *message.add_requests() = InSession(i, Txn({}, {i == 2 ? CreateOp("/b") : GetOp("/a")}));
  }
  f.Send(session, message);
  f.transport.RunIterations();
  const int64_t reserved = memory.used(MemoryUse::kReads);
  CHECK(reserved > static_cast<int64_t>(tree::kReadCostMax + 3 * tree::kReadAnswerBytesMax));
  f.transport.Cancel(call);
  f.transport.Cancel(session);
  f.transport.RunIterations();
  CHECK(memory.used(MemoryUse::kReads) == reserved);
  SECTION("the results come") { f.Settle(); }
  SECTION("the tree is replaced, so that they may not come") {
    f.service.ReplaceTree(f.listener);
    f.listener->OnBatchApplied();
    f.transport.RunIterations();
  }
  CHECK(memory.used(MemoryUse::kReads) == 0);
}

TEST_CASE("writes without a number change nothing in the memory of replies") {
  Fixture f;
  MemoryBudget& memory = f.service.memory();
  const uint32_t tag = f.OpenSession();
  v1::SessionRequest message;
  for (int i = 0; i < 30; ++i) *message.add_requests() = InSession(0, Txn({}, {GetOp("/")}));
  f.Send(tag, message);
  f.Settle();
  const v1::SessionResponse received = f.Received(tag);
  REQUIRE(received.items_size() == 30);
  CHECK(received.items(29).response().error() == v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(memory.used(MemoryUse::kReads) == 0);
  CHECK(f.CallOne(tag, InSession(1, Txn({}, {GetOp("/")}))).write().results_size() == 1);
}

TEST_CASE("an operation that is refused now, sent again, has its first answer") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  const v1::TxnRequest illegal = Txn({}, {CreateOp("a")});
  Do(&f, Txn({}, {CreateOp("/a", std::string(tree::kReadAnswerBytesMax, 'x'))}));
  const v1::TxnRequest large = Txn({}, {GetOp("/a")});
  const v1::Response first = f.CallOne(tag, InSession(1, illegal));
  CHECK(first.error() == v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(first.write().results_size() == 1);
  const v1::Response second = f.CallOne(tag, InSession(2, large));
  CHECK(second.error() == v1::ERROR_CODE_TOO_LARGE);
  CHECK(second.write().results_size() == 1);
  // A write that was refused as a whole gets the same error when it is sent again, even if another one
  // would apply now.
  const v1::Response third = f.CallOne(tag, InSession(3, Txn({}, {CreateOp("/b"), {}})));
  CHECK(third.error() == v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK_FALSE(third.has_write());
  f.service.is_refusing_data = true;
  CHECK(f.CallOne(tag, InSession(1, illegal)).SerializeAsString() == first.SerializeAsString());
  CHECK(f.CallOne(tag, InSession(2, large)).SerializeAsString() == second.SerializeAsString());
  CHECK(f.CallOne(tag, InSession(3, Txn({}, {CreateOp("/b"), CreateOp("/c")}))).error() ==
        v1::ERROR_CODE_BAD_ARGUMENTS);
  f.service.is_refusing_data = false;
  f.service.version = tree::kVersionTransactions - 1;
  CHECK(f.CallOne(tag, InSession(2, large)).SerializeAsString() == second.SerializeAsString());
}

TEST_CASE("while memory is low, numbered writes that read are refused, calls are not") {
  Fixture f;
  Do(&f, Txn({}, {CreateOp("/a", "x")}));
  const uint32_t tag = f.OpenSession();
  const v1::TxnRequest get = Txn({}, {GetOp("/a")});
  CHECK(f.CallOne(tag, InSession(1, get)).error() == v1::ERROR_CODE_UNSPECIFIED);
  f.service.is_refusing_data = true;
  CHECK(f.CallOne(tag, InSession(2, get)).error() == v1::ERROR_CODE_NO_SPACE);
  // A write that was made before has its answer.
  CHECK(f.CallOne(tag, InSession(1, get)).write().results(0).data() == "x");
  CHECK(Do(&f, get).results(0).data() == "x");
}

TEST_CASE("a transaction of a session that is refused as a whole names no operation") {
  Config config = TestConfig();
  config.jute_max_buffer_bytes = 1000;
  Fixture f(config);
  const uint32_t tag = f.OpenSession();
  const std::string data(1001, 'x');
  const v1::TxnRequest large = Txn({HasVersion("/", 0)}, {}, {CreateOp("/a", data)});
  uint64_t sequence = 0;
  const auto refused = [&](const v1::TxnRequest& txn, v1::ErrorCode why) {
    CAPTURE(txn.ShortDebugString());
    ++sequence;
    const v1::Response first = f.CallOne(tag, InSession(sequence, txn));
    CHECK(first.error() == why);
    CHECK(first.write().results().empty());
    // Nor does it later, when it would not be refused any more.
    f.service.version = tree::kVersionTransactions;
    f.service.is_refusing_data = false;
    const v1::Response again = f.CallOne(tag, InSession(sequence, txn));
    CHECK(again.error() == why);
    CHECK(again.write().results().empty());
  };
  refused(large, v1::ERROR_CODE_TOO_LARGE);
  f.service.is_refusing_data = true;
  refused(Txn({HasVersion("/", 0)}, {}, {CreateOp("/a")}), v1::ERROR_CODE_NO_SPACE);
  f.service.version = tree::kVersionTransactions - 1;
  refused(Txn({HasVersion("/", 0)}, {}, {GetOp("/")}), v1::ERROR_CODE_UNIMPLEMENTED);
  refused(Txn({HasVersion("/", 0)}, {}, {v1::Operation()}), v1::ERROR_CODE_BAD_ARGUMENTS);
  // One that the tree has refused names the operation.
  const v1::Response failed = f.CallOne(tag, InSession(++sequence, Txn({}, {DeleteOp("a")})));
  REQUIRE(failed.write().results_size() == 1);
  CHECK(failed.write().results(0).error() == failed.error());
}

TEST_CASE("ephemerals of both branches are checked, but only one branch counts") {
  Fixture f;
  v1::Operation a = CreateOp("/a");
  a.mutable_create()->set_mode(v1::CREATE_MODE_EPHEMERAL);
  v1::Operation b = CreateOp("/b");
  b.mutable_create()->set_mode(v1::CREATE_MODE_EPHEMERAL);
  // A call has no session, whichever branch would be taken.
  CHECK(Fail(&f, Txn({HasVersion("/", 0)}, {GetOp("/")}, {a})).code() ==
        v1::ERROR_CODE_BAD_ARGUMENTS);
  tree::Request request;
  request.ops.resize(5);
  for (tree::Op& op : request.ops) {
    op.kind = tree::OpKind::kCreate;
    op.mode = tree::CreateMode::kEphemeral;
  }
  CHECK(EphemeralsIn(request) == 5);
  request.multi = request.has_branches = true;
  request.then_count = 2;
  CHECK(EphemeralsIn(request) == 3);
}

TEST_CASE("while not all members know transactions with branches, they are refused") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  v1::Operation deep = CreateOp("/x/y/z");
  deep.mutable_create()->set_with_parents(true);
  const v1::TxnRequest kTxns[] = {Txn({HasVersion("/", 0)}, {CreateOp("/a")}),
                                  Txn({}, {}, {CreateOp("/a")}),
                                  Txn({}, {GetOp("/")}),
                                  Txn({}, {ExistsOp("/")}),
                                  Txn({}, {ListOp("/"), CreateOp("/c")}),
                                  Txn({}, {deep})};
  f.service.version = tree::kVersionTransactions - 1;
  uint64_t sequence = 0;
  for (const v1::TxnRequest& txn : kTxns) {
    CAPTURE(txn.ShortDebugString());
    v1::TxnResponse response;
    const absl::Status status = f.Unary(Method::kTxn, txn, &response);
    CHECK(status.code() == absl::StatusCode::kUnimplemented);
    CHECK(DetailOf(status).code() == v1::ERROR_CODE_UNIMPLEMENTED);
    CHECK(std::string(status.message())
              .starts_with("the write needs cluster version 12, and the cluster has version 11;"));
    CHECK(f.CallOne(tag, InSession(++sequence, txn)).error() == v1::ERROR_CODE_UNIMPLEMENTED);
  }
  f.service.version = tree::kVersionTransactions;
  for (const v1::TxnRequest& txn : kTxns) {
    CAPTURE(txn.ShortDebugString());
    const v1::Response response = f.CallOne(tag, InSession(++sequence, txn));
    CHECK(response.error() == v1::ERROR_CODE_UNSPECIFIED);
  }
}

TEST_CASE("a create with parents creates the missing ones with the list of the znode") {
  Fixture f;
  v1::CreateRequest request;
  *request.mutable_create() = CreateOp("/a/b/c", "data").create();
  v1::CreateResponse created;
  CHECK(DetailOf(f.Unary(Method::kCreate, request, &created)).code() == v1::ERROR_CODE_NO_NODE);
  request.mutable_create()->set_with_parents(true);
  REQUIRE(f.Unary(Method::kCreate, request, &created).ok());
  CHECK(created.path() == "/a/b/c");
  CHECK(created.stat().created_zxid() == f.zxid());
  const v1::TxnResponse read = Do(&f, Txn({}, {GetOp("/a"), GetOp("/a/b/c")}));
  CHECK(read.results(0).stat().created_zxid() == created.zxid());
  CHECK(read.results(0).data().empty());
  CHECK(read.results(1).data() == "data");
  // Recursive in both directions, as one change.
  v1::Operation remove = DeleteOp("/a");
  remove.mutable_delete_()->set_recursive(true);
  v1::Operation again;
  *again.mutable_create_if_not_exists() = request.create();
  const v1::TxnResponse replaced = Do(&f, Txn({}, {remove, again, ListOp("/a")}));
  CHECK(replaced.results(0).removed() == 3);
  CHECK(replaced.results(1).stat().created_zxid() == replaced.zxid());
  CHECK(replaced.results(2).children(0) == "b");
}

}  // namespace
}  // namespace quorate::rpc::native
