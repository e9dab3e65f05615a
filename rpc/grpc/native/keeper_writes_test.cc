// SPDX-License-Identifier: Apache-2.0

// The writes that ClickHouse Keeper adds to those of ZooKeeper, alone, in transactions and as unary
// calls.
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/grpc/native/testing/fixture.h"
#include "rpc/proto/times.h"
#include "tree/limits.h"

namespace quorate::rpc::native {
namespace {

using Version = std::optional<int32_t>;

v1::Operation CheckNotExistsOp(const std::string& path, Version version = {}) {
  v1::Operation operation;
  operation.mutable_check_not_exists()->set_path(path);
  if (version.has_value()) operation.mutable_check_not_exists()->set_version(*version);
  return operation;
}

v1::Operation CreateIfNotExistsOp(const std::string& path, const std::string& data = "",
                                  v1::CreateMode mode = v1::CREATE_MODE_PERSISTENT) {
  v1::Operation operation;
  *operation.mutable_create_if_not_exists() = CreateOp(path, data, mode).create();
  return operation;
}

v1::Operation RemoveRecursiveOp(const std::string& path, std::optional<uint32_t> limit = {}) {
  v1::Operation operation;
  operation.mutable_remove_recursive()->set_path(path);
  if (limit.has_value()) operation.mutable_remove_recursive()->set_limit(*limit);
  return operation;
}

v1::Operation CheckStatOp(const std::string& path, v1::Operation::CheckStat check = {}) {
  v1::Operation operation;
  *operation.mutable_check_stat() = std::move(check);
  operation.mutable_check_stat()->set_path(path);
  return operation;
}

v1::Operation TryRemoveOp(const std::string& path, Version version = {}) {
  v1::Operation operation;
  operation.mutable_try_remove()->set_path(path);
  if (version.has_value()) operation.mutable_try_remove()->set_version(*version);
  return operation;
}

// A session with one znode of each kind that matters to these writes.
class Session {
 public:
  explicit Session(Config config = TestConfig()) : f(std::move(config)), tag_(f.OpenSession()) {
    // /p has the version 2, and two children, one of which has a child.
    for (const char* path : {"/p", "/p/a", "/p/a/b", "/p/c"})
      REQUIRE(Do(CreateOp(path)) == v1::ERROR_CODE_UNSPECIFIED);
    for (const char* data : {"1", "22"})
      REQUIRE(Do(SetOp("/p", data)) == v1::ERROR_CODE_UNSPECIFIED);
    REQUIRE(Do(CreateOp("/e", "", v1::CREATE_MODE_EPHEMERAL)) == v1::ERROR_CODE_UNSPECIFIED);
    CreateWith("/unreadable", tree::permission::kAll & ~tree::permission::kRead);
    CreateWith("/closed", tree::permission::kRead);
    CreateWith("/closed2", tree::permission::kAll & ~tree::permission::kDelete);
    REQUIRE(Do(CreateOp("/closed2/a")) == v1::ERROR_CODE_UNSPECIFIED);
    REQUIRE(Do(CreateOp("/closed2/a/b")) == v1::ERROR_CODE_UNSPECIFIED);
  }

  v1::Response Write(const std::vector<v1::Operation>& operations) {
    ++sequence_;
    return f.CallOne(tag_, WriteRequest(sequence_, sequence_, operations));
  }
  // Sends the last write again.
  v1::Response WriteAgain(const std::vector<v1::Operation>& operations) {
    return f.CallOne(tag_, WriteRequest(sequence_, sequence_, operations));
  }
  v1::ErrorCode Do(const v1::Operation& operation) { return Write({operation}).error(); }
  // Does an operation that must succeed. Returns its result.
  v1::OperationResult Make(const v1::Operation& operation) {
    const v1::Response response = Write({operation});
    CHECK(response.error() == v1::ERROR_CODE_UNSPECIFIED);
    REQUIRE(response.write().results_size() == 1);
    return response.write().results(0);
  }
  std::optional<tree::Stat> StatOf(const std::string& path) {
    tree::Stat stat;
    if (!f.service.ReadTree()->FindStat(path, &stat)) return std::nullopt;
    return stat;
  }
  bool Has(const std::string& path) { return StatOf(path).has_value(); }
  void CreateWith(const std::string& path, int32_t permissions) {
    v1::Operation operation = CreateOp(path);
    v1::Acl* acl = operation.mutable_create()->add_acl();
    acl->set_permissions(permissions);
    acl->set_scheme("world");
    acl->set_id("anyone");
    REQUIRE(Do(operation) == v1::ERROR_CODE_UNSPECIFIED);
  }

  Fixture f;

 private:
  const uint32_t tag_;
  uint64_t sequence_ = 0;
};

TEST_CASE("CheckNotExists fails for a znode with the version, or of any version without one") {
  Session s;
  CHECK(s.Do(CheckNotExistsOp("/none")) == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(s.Do(CheckNotExistsOp("/none", 0)) == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(s.Do(CheckNotExistsOp("/p")) == v1::ERROR_CODE_NODE_EXISTS);
  CHECK(s.Do(CheckNotExistsOp("/p", 2)) == v1::ERROR_CODE_NODE_EXISTS);
  CHECK(s.Do(CheckNotExistsOp("/p", 1)) == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(s.Do(CheckNotExistsOp("/unreadable")) == v1::ERROR_CODE_NO_AUTH);
  CHECK(s.Do(CheckNotExistsOp("p")) == v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(s.Make(CheckNotExistsOp("/none")).ByteSizeLong() == 0);
}

TEST_CASE("CreateIfNotExists creates a znode, or leaves one that exists as it is") {
  Session s;
  const v1::OperationResult created = s.Make(CreateIfNotExistsOp("/n", "first"));
  CHECK(created.path() == "/n");
  CHECK(created.stat().created_zxid() == s.f.zxid());
  CHECK(created.stat().data_bytes() == 5);
  const tree::Stat before = *s.StatOf("/n");
  const v1::OperationResult existing = s.Make(CreateIfNotExistsOp("/n", "second"));
  CHECK(existing.path() == "/n");
  CHECK_FALSE(existing.has_stat());
  CHECK(s.StatOf("/n") == before);

  const std::string numbered =
      s.Make(CreateIfNotExistsOp("/p/n-", "", v1::CREATE_MODE_PERSISTENT_SEQUENTIAL)).path();
  CHECK(numbered == "/p/n-0000000002");
  CHECK(
      s.Make(CreateIfNotExistsOp("/f", "", v1::CREATE_MODE_EPHEMERAL)).stat().ephemeral_session() !=
      0);
  CHECK(s.Do(CreateIfNotExistsOp("/none/a")) == v1::ERROR_CODE_NO_NODE);
  CHECK(s.Do(CreateIfNotExistsOp("/e/a")) == v1::ERROR_CODE_NO_CHILDREN_FOR_EPHEMERALS);
  CHECK(s.Do(CreateIfNotExistsOp("/closed/a")) == v1::ERROR_CODE_NO_AUTH);
  CHECK(s.Do(CreateIfNotExistsOp("n")) == v1::ERROR_CODE_BAD_ARGUMENTS);
  for (const v1::CreateMode mode : {v1::CREATE_MODE_CONTAINER, v1::CREATE_MODE_PERSISTENT_WITH_TTL,
                                    v1::CREATE_MODE_PERSISTENT_SEQUENTIAL_WITH_TTL}) {
    CAPTURE(mode);
    v1::Operation other = CreateIfNotExistsOp("/m", "", mode);
    if (mode != v1::CREATE_MODE_CONTAINER) {
      *other.mutable_create_if_not_exists()->mutable_ttl() = v1::DurationOfMs(1000);
    }
    CHECK(s.Do(other) == v1::ERROR_CODE_BAD_ARGUMENTS);
  }
}

TEST_CASE("CreateIfNotExists has the limits of a create") {
  Config config = TestConfig();
  config.jute_max_buffer_bytes = 1000;
  Session s(config);
  const v1::Response refused = s.Write({CreateIfNotExistsOp("/n", std::string(1001, 'x'))});
  CHECK(refused.error() == v1::ERROR_CODE_TOO_LARGE);
  CHECK(refused.data_bytes_max() == 1000);
  CHECK(s.Do(CreateIfNotExistsOp("/n", std::string(1000, 'x'))) == v1::ERROR_CODE_UNSPECIFIED);
  v1::Operation bad_acl = CreateIfNotExistsOp("/m");
  bad_acl.mutable_create_if_not_exists()->add_acl()->set_scheme("none");
  CHECK(s.Do(bad_acl) == v1::ERROR_CODE_INVALID_ACL);
  s.f.service.is_refusing_data = true;
  CHECK(s.Do(CreateIfNotExistsOp("/m")) == v1::ERROR_CODE_NO_SPACE);
  // The others add no data.
  CHECK(s.Do(RemoveRecursiveOp("/p")) == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(s.Do(TryRemoveOp("/n")) == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(s.Do(CheckNotExistsOp("/n")) == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(s.Do(CheckStatOp("/e")) == v1::ERROR_CODE_UNSPECIFIED);
}

TEST_CASE("RemoveRecursive deletes a subtree within the limit, or nothing") {
  Session s;
  CHECK(s.Make(RemoveRecursiveOp("/none")).removed() == 0);
  CHECK(s.Make(RemoveRecursiveOp("/none/a", 0)).removed() == 0);
  CHECK(s.Do(RemoveRecursiveOp("/p", 3)) == v1::ERROR_CODE_NOT_EMPTY);
  CHECK(s.Do(RemoveRecursiveOp("/p", 0)) == v1::ERROR_CODE_NOT_EMPTY);
  CHECK(s.Has("/p/a/b"));
  CHECK(s.Make(RemoveRecursiveOp("/p", 4)).removed() == 4);
  CHECK_FALSE(s.Has("/p"));
  CHECK(s.Do(RemoveRecursiveOp("/closed2/a")) == v1::ERROR_CODE_NO_AUTH);   // the parent
  CHECK(s.Do(RemoveRecursiveOp("/closed2/no")) == v1::ERROR_CODE_NO_AUTH);  // the parent
  CHECK(s.Do(RemoveRecursiveOp("/closed2")) == v1::ERROR_CODE_NO_AUTH);     // the znode itself
  CHECK(s.Has("/closed2/a/b"));
  for (const char* path : {"/", "/keeper", "/zookeeper", "/zookeeper/quota", "p"}) {
    CAPTURE(path);
    CHECK(s.Do(RemoveRecursiveOp(path)) == v1::ERROR_CODE_BAD_ARGUMENTS);
  }
}

TEST_CASE("RemoveRecursive without a limit deletes as much as a recursive delete") {
  Session s;
  for (size_t begin = 0; begin < tree::kDeleteRecursiveMax; begin += 1000) {
    std::vector<v1::Operation> creates;
    for (size_t i = begin; i < begin + 1000; ++i) {
      creates.push_back(CreateOp("/p/c/" + std::to_string(i)));
    }
    REQUIRE(s.Write(creates).error() == v1::ERROR_CODE_UNSPECIFIED);
  }
  CHECK(s.Do(RemoveRecursiveOp("/p/c")) == v1::ERROR_CODE_NOT_EMPTY);
  CHECK(s.Do(RemoveRecursiveOp("/p/c", UINT32_MAX)) == v1::ERROR_CODE_NOT_EMPTY);
  CHECK(s.Do(DeleteOp("/p/c/0")) == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(s.Make(RemoveRecursiveOp("/p/c")).removed() == tree::kDeleteRecursiveMax);
}

TEST_CASE("CheckStat compares each field that is set") {
  using CheckStat = v1::Operation::CheckStat;
  Session s;
  CHECK(s.Do(CheckStatOp("/p")) == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(s.Do(CheckStatOp("/none")) == v1::ERROR_CODE_NO_NODE);
  CHECK(s.Do(CheckStatOp("/unreadable")) == v1::ERROR_CODE_NO_AUTH);
  CHECK(s.Do(CheckStatOp("p")) == v1::ERROR_CODE_BAD_ARGUMENTS);
  const tree::Stat stat = *s.StatOf("/p");
  // Sets one field to a value that differs from that of the znode by `more`.
  const std::function<void(CheckStat*, int32_t more)> fields[] = {
      [&](CheckStat* c, int32_t more) { c->set_created_zxid(stat.czxid.value() + more); },
      [&](CheckStat* c, int32_t more) { c->set_modified_zxid(stat.mzxid.value() + more); },
      [&](CheckStat* c, int32_t more) { c->set_children_modified_zxid(stat.pzxid.value() + more); },
      [&](CheckStat* c, int32_t more) { c->set_created_ms(stat.ctime_ms + more); },
      [&](CheckStat* c, int32_t more) { c->set_modified_ms(stat.mtime_ms + more); },
      [&](CheckStat* c, int32_t more) { c->set_version(stat.version + more); },
      [&](CheckStat* c, int32_t more) { c->set_children_version(stat.cversion + more); },
      [&](CheckStat* c, int32_t more) { c->set_acl_version(stat.aversion + more); },
      [&](CheckStat* c, int32_t more) { c->set_ephemeral_session(more); },
      [&](CheckStat* c, int32_t more) { c->set_data_bytes(stat.data_length + more); },
      [&](CheckStat* c, int32_t more) { c->set_children(stat.num_children + more); },
  };
  CheckStat all;
  for (size_t i = 0; i < std::size(fields); ++i) {
    CAPTURE(i);
    CheckStat one;
    fields[i](&one, 1);
    CHECK(s.Do(CheckStatOp("/p", one)) == v1::ERROR_CODE_BAD_VERSION);
    fields[i](&one, 0);
    CHECK(s.Do(CheckStatOp("/p", one)) == v1::ERROR_CODE_UNSPECIFIED);
    fields[i](&all, 0);
  }
  CHECK(s.Make(CheckStatOp("/p", all)).ByteSizeLong() == 0);
  CheckStat any;
  any.set_version(-1);
  any.set_ephemeral_session(-1);
  CHECK(s.Do(CheckStatOp("/p", any)) == v1::ERROR_CODE_UNSPECIFIED);
  CheckStat persistent;
  persistent.set_ephemeral_session(0);
  CHECK(s.Do(CheckStatOp("/e", persistent)) == v1::ERROR_CODE_BAD_VERSION);
}

TEST_CASE("TryRemove deletes a znode if that is possible, and tells whether it did") {
  Session s;
  CHECK(s.Make(TryRemoveOp("/none")).removed() == 0);
  CHECK(s.Make(TryRemoveOp("/none/a")).removed() == 0);
  CHECK(s.Make(TryRemoveOp("/p")).removed() == 0);  // not empty
  CHECK(s.Make(TryRemoveOp("/p/c", 1)).removed() == 0);
  CHECK(s.Has("/p/c"));
  CHECK(s.Make(TryRemoveOp("/p/c", 0)).removed() == 1);
  CHECK_FALSE(s.Has("/p/c"));
  CHECK(s.Make(TryRemoveOp("/p/a/b")).removed() == 1);
  CHECK(s.Do(TryRemoveOp("/closed2/a")) == v1::ERROR_CODE_NO_AUTH);
  CHECK(s.Do(TryRemoveOp("/")) == v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(s.Do(TryRemoveOp("p")) == v1::ERROR_CODE_BAD_ARGUMENTS);
}

TEST_CASE("the writes of Keeper in a transaction are made together, or none of them") {
  Session s;
  v1::Operation::CheckStat children;
  children.set_children(2);
  std::vector<v1::Operation> operations = {
      CheckStatOp("/p", children), RemoveRecursiveOp("/p/a"), CreateIfNotExistsOp("/p/a", "new"),
      CreateIfNotExistsOp("/p"),   TryRemoveOp("/p/c"),       TryRemoveOp("/p/c"),
      CheckNotExistsOp("/p/a", 1)};
  operations.push_back(CheckNotExistsOp("/p/a"));
  const tree::Stat before = *s.StatOf("/p");
  const v1::Response failed = s.Write(operations);
  CHECK(failed.error() == v1::ERROR_CODE_NODE_EXISTS);
  REQUIRE(failed.write().results_size() == 8);
  CHECK(failed.write().results(7).error() == v1::ERROR_CODE_NODE_EXISTS);
  CHECK(s.Has("/p/a/b"));
  CHECK(s.StatOf("/p") == before);

  operations.pop_back();
  const v1::Response done = s.Write(operations);
  CHECK(done.error() == v1::ERROR_CODE_UNSPECIFIED);
  REQUIRE(done.write().results_size() == 7);
  CHECK(done.write().results(1).removed() == 2);
  CHECK(done.write().results(2).stat().data_bytes() == 3);
  CHECK(done.write().results(3).path() == "/p");
  CHECK_FALSE(done.write().results(3).has_stat());
  CHECK(done.write().results(4).removed() == 1);
  CHECK(done.write().results(5).removed() == 0);
  CHECK_FALSE(s.Has("/p/a/b"));
  // The results are the same when the write is sent again.
  CHECK(s.WriteAgain(operations).SerializeAsString() == done.SerializeAsString());
}

std::vector<v1::Operation> OneOfEach() {
  return {CheckNotExistsOp("/none"), CreateIfNotExistsOp("/n"), RemoveRecursiveOp("/p/a"),
          CheckStatOp("/p"), TryRemoveOp("/p/c")};
}

TEST_CASE("while not all members know the writes of Keeper, they are refused, and change nothing") {
  Session s;
  s.f.service.version = tree::kVersionKeeper - 1;
  for (const v1::Operation& operation : OneOfEach()) {
    CAPTURE(operation.ShortDebugString());
    CHECK(s.Do(operation) == v1::ERROR_CODE_UNIMPLEMENTED);
    CHECK(s.WriteAgain({operation}).error() == v1::ERROR_CODE_UNIMPLEMENTED);
    CHECK(s.Write({SetOp("/p", "x"), operation}).error() == v1::ERROR_CODE_UNIMPLEMENTED);
    v1::TxnRequest txn;
    *txn.add_operations() = operation;
    v1::TxnResponse response;
    const absl::Status status = s.f.Unary(Method::kTxn, txn, &response);
    CHECK(status.code() == absl::StatusCode::kUnimplemented);
    CHECK(DetailOf(status).code() == v1::ERROR_CODE_UNIMPLEMENTED);
  }
  v1::CreateIfNotExistsRequest create;
  *create.mutable_create() = CreateOp("/n").create();
  v1::CreateIfNotExistsResponse created;
  CHECK(s.f.Unary(Method::kCreateIfNotExists, create, &created).code() ==
        absl::StatusCode::kUnimplemented);
  v1::RemoveRecursiveRequest remove;
  remove.mutable_remove()->set_path("/p/a");
  v1::RemoveRecursiveResponse removed;
  CHECK(s.f.Unary(Method::kRemoveRecursive, remove, &removed).code() ==
        absl::StatusCode::kUnimplemented);
  v1::TryRemoveRequest attempt;
  attempt.mutable_remove()->set_path("/p/c");
  v1::TryRemoveResponse attempted;
  CHECK(s.f.Unary(Method::kTryRemove, attempt, &attempted).code() ==
        absl::StatusCode::kUnimplemented);
  CHECK(s.StatOf("/p")->version == 2);
  CHECK(s.StatOf("/p")->num_children == 2);
  CHECK_FALSE(s.Has("/n"));

  s.f.service.version = tree::kVersionKeeper;
  for (const v1::Operation& operation : OneOfEach()) {
    CAPTURE(operation.ShortDebugString());
    CHECK(s.Do(operation) == v1::ERROR_CODE_UNSPECIFIED);
  }
}

TEST_CASE("each unary write of Keeper returns its result, or an error with the path") {
  Session s;
  v1::CreateIfNotExistsRequest create;
  *create.mutable_create() = CreateOp("/n", "data").create();
  v1::CreateIfNotExistsResponse created;
  REQUIRE(s.f.Unary(Method::kCreateIfNotExists, create, &created).ok());
  CHECK(created.path() == "/n");
  CHECK(created.zxid() == s.f.zxid());
  CHECK(created.stat().created_zxid() == created.zxid());
  created.Clear();
  REQUIRE(s.f.Unary(Method::kCreateIfNotExists, create, &created).ok());
  CHECK(created.path() == "/n");
  CHECK(created.zxid() == s.f.zxid());
  CHECK_FALSE(created.has_stat());
  create.mutable_create()->set_path("/none/n");
  const absl::Status orphan = s.f.Unary(Method::kCreateIfNotExists, create, &created);
  CHECK(DetailOf(orphan).code() == v1::ERROR_CODE_NO_NODE);
  CHECK(DetailOf(orphan).path() == "/none/n");
  create.mutable_create()->set_path("/f");
  create.mutable_create()->set_mode(v1::CREATE_MODE_EPHEMERAL);
  CHECK(DetailOf(s.f.Unary(Method::kCreateIfNotExists, create, &created)).code() ==
        v1::ERROR_CODE_BAD_ARGUMENTS);

  v1::TryRemoveRequest attempt;
  attempt.mutable_remove()->set_path("/p");
  v1::TryRemoveResponse attempted;
  REQUIRE(s.f.Unary(Method::kTryRemove, attempt, &attempted).ok());
  CHECK(attempted.removed() == 0);
  attempt.mutable_remove()->set_path("/n");
  REQUIRE(s.f.Unary(Method::kTryRemove, attempt, &attempted).ok());
  CHECK(attempted.removed() == 1);
  CHECK(attempted.zxid() == s.f.zxid());
  attempt.mutable_remove()->set_path("/closed2/a");
  CHECK(DetailOf(s.f.Unary(Method::kTryRemove, attempt, &attempted)).path() == "/closed2/a");

  v1::RemoveRecursiveRequest remove;
  remove.mutable_remove()->set_path("/p");
  remove.mutable_remove()->set_limit(3);
  v1::RemoveRecursiveResponse removed;
  const absl::Status over = s.f.Unary(Method::kRemoveRecursive, remove, &removed);
  CHECK(over.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(DetailOf(over).code() == v1::ERROR_CODE_NOT_EMPTY);
  CHECK(DetailOf(over).path() == "/p");
  remove.mutable_remove()->clear_limit();
  REQUIRE(s.f.Unary(Method::kRemoveRecursive, remove, &removed).ok());
  CHECK(removed.removed() == 4);
  CHECK(removed.zxid() == s.f.zxid());

  v1::TxnRequest txn;
  *txn.add_operations() = CheckNotExistsOp("/n");
  *txn.add_operations() = CheckStatOp("/none");
  v1::TxnResponse response;
  const absl::Status failed = s.f.Unary(Method::kTxn, txn, &response);
  CHECK(DetailOf(failed).code() == v1::ERROR_CODE_NO_NODE);
  CHECK(DetailOf(failed).path() == "/none");
}

}  // namespace
}  // namespace quorate::rpc::native
