// SPDX-License-Identifier: Apache-2.0

// Lists of the children of one kind, with their metadata and data, and lists of everything below a
// znode.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rpc/frontend/listing.h"
#include "rpc/grpc/native/testing/fixture.h"

namespace quorate::rpc::native {
namespace {

using Strings = std::vector<std::string>;

v1::Request ListOf(const std::string& path, v1::ChildKind kind = v1::CHILD_KIND_ALL,
                   bool with_stats = false, bool with_data = false) {
  v1::Request request;
  request.set_id(1);
  request.mutable_list()->set_path(path);
  request.mutable_list()->set_kind(kind);
  request.mutable_list()->set_with_stats(with_stats);
  request.mutable_list()->set_with_data(with_data);
  return request;
}

v1::Request ListRecursiveOf(const std::string& path) {
  v1::Request request;
  request.set_id(1);
  request.mutable_list_recursive()->set_path(path);
  return request;
}

v1::Operation Unreadable(const std::string& path) {
  v1::Operation operation = CreateOp(path);
  v1::Acl* acl = operation.mutable_create()->add_acl();
  acl->set_permissions(tree::permission::kAll & ~tree::permission::kRead);
  acl->set_scheme("world");
  acl->set_id("anyone");
  return operation;
}

template <class Repeated>
Strings ToStrings(const Repeated& values) {
  return Strings(values.begin(), values.end());
}

// Creates /p with two persistent children and an ephemeral one of the session.
uint32_t OpenWithChildren(Fixture* f) {
  const uint32_t tag = f->OpenSession();
  const std::vector<v1::Operation> operations = {CreateOp("/p"), CreateOp("/p/c", "C"),
                                                 CreateOp("/p/a", "A"),
                                                 CreateOp("/p/b", "B", v1::CREATE_MODE_EPHEMERAL)};
  REQUIRE(f->CallOne(tag, WriteRequest(1, 1, operations)).error() == v1::ERROR_CODE_UNSPECIFIED);
  return tag;
}

// Creates /p with `count` children, whose names and data have the same number of digits.
void CreateMany(Fixture* f, size_t count, const std::string& data = "old") {
  f->Change(CreateOp("/p"));
  for (size_t made = 0; made < count;) {
    v1::TxnRequest request;
    const int at_once = data.size() > 1000 ? 10 : 1000;
    for (; request.operations_size() < at_once && made < count; ++made) {
      *request.add_operations() = CreateOp("/p/" + std::to_string(100'000 + made), data);
    }
    v1::TxnResponse response;
    REQUIRE(f->Unary(Method::kTxn, request, &response).ok());
  }
}

// Submits the changes as another client, without applying them. Returns the tag of the call.
uint32_t Submit(Fixture* f, const std::vector<v1::Operation>& operations) {
  v1::TxnRequest request;
  for (const v1::Operation& operation : operations) *request.add_operations() = operation;
  const uint32_t tag = f->transport.Open(Method::kTxn);
  f->transport.Write(tag, request.SerializeAsString());
  return tag;
}

TEST_CASE("a list has the children of the requested kind, sorted, and the stat of the znode") {
  Fixture f;
  const uint32_t tag = OpenWithChildren(&f);
  const auto names = [&](v1::ChildKind kind) {
    const v1::Response response = f.CallOne(tag, ListOf("/p", kind));
    CHECK(response.error() == v1::ERROR_CODE_UNSPECIFIED);
    CHECK(response.list().stat().children() == 3);
    CHECK(response.list().child_stats_size() == 0);
    CHECK(response.list().child_data_size() == 0);
    CHECK(response.list().watch_after_zxid() == f.zxid());
    return ToStrings(response.list().children());
  };
  CHECK(names(v1::CHILD_KIND_ALL) == Strings{"a", "b", "c"});
  CHECK(names(v1::CHILD_KIND_UNSPECIFIED) == Strings{"a", "b", "c"});
  CHECK(names(v1::CHILD_KIND_PERSISTENT) == Strings{"a", "c"});
  CHECK(names(v1::CHILD_KIND_EPHEMERAL) == Strings{"b"});
  CHECK(f.CallOne(tag, ListOf("/p/a", v1::CHILD_KIND_EPHEMERAL)).list().children_size() == 0);
  CHECK(f.CallOne(tag, ListOf("/none", v1::CHILD_KIND_EPHEMERAL)).error() ==
        v1::ERROR_CODE_NO_NODE);
  CHECK(f.CallOne(tag, ListOf("p", v1::CHILD_KIND_EPHEMERAL)).error() ==
        v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(f.CallOne(tag, ListOf("/p", static_cast<v1::ChildKind>(v1::ChildKind_MAX + 1))).error() ==
        v1::ERROR_CODE_BAD_ARGUMENTS);
  // The requests after a refused list are answered.
  CHECK(f.CallOne(tag, GetRequestOf(2, "/p/a")).get().data() == "A");
}

TEST_CASE("a list has the metadata and the data of the children if they are requested") {
  Fixture f;
  const uint32_t tag = OpenWithChildren(&f);
  f.Change(SetOp("/p/c", "CCC"));
  const auto read = [&](v1::ChildKind kind, bool stats, bool data) {
    const v1::Response response = f.CallOne(tag, ListOf("/p", kind, stats, data));
    CHECK(response.error() == v1::ERROR_CODE_UNSPECIFIED);
    CHECK(response.list().child_stats_size() == (stats ? response.list().children_size() : 0));
    CHECK(response.list().child_data_size() == (data ? response.list().children_size() : 0));
    return response.list();
  };
  const v1::ListResult all = read(v1::CHILD_KIND_ALL, true, true);
  CHECK(ToStrings(all.children()) == Strings{"a", "b", "c"});
  CHECK(ToStrings(all.child_data()) == Strings{"A", "B", "CCC"});
  CHECK(all.child_stats(0).ephemeral_session() == 0);
  CHECK(all.child_stats(1).ephemeral_session() != 0);
  CHECK(all.child_stats(2).data_bytes() == 3);
  CHECK(all.child_stats(2).version() == 1);
  CHECK(all.child_stats(2).modified_zxid() == f.zxid());
  CHECK(ToStrings(read(v1::CHILD_KIND_PERSISTENT, false, true).child_data()) ==
        Strings{"A", "CCC"});
  CHECK(read(v1::CHILD_KIND_EPHEMERAL, true, false).child_stats(0).data_bytes() == 1);
  // The data of this znode is not in the tree.
  const v1::ListResult system = f.CallOne(tag, ListOf("/zookeeper", {}, true, true)).list();
  REQUIRE(system.children(0) == "config");
  CHECK(system.child_data(0) == f.frontend.members_text());
  CHECK(system.child_stats(0).data_bytes() == static_cast<int>(f.frontend.members_text().size()));
}

TEST_CASE("one child that may not be read refuses a list that reads the children") {
  Fixture f;
  const uint32_t tag = OpenWithChildren(&f);
  f.Change(Unreadable("/p/secret"));
  f.Change(Unreadable("/secret"));
  CHECK(f.CallOne(tag, ListOf("/p")).list().children_size() == 4);
  CHECK(f.CallOne(tag, ListOf("/p", v1::CHILD_KIND_PERSISTENT)).error() == v1::ERROR_CODE_NO_AUTH);
  CHECK(f.CallOne(tag, ListOf("/p", v1::CHILD_KIND_EPHEMERAL)).error() == v1::ERROR_CODE_NO_AUTH);
  CHECK(f.CallOne(tag, ListOf("/p", {}, true, false)).error() == v1::ERROR_CODE_NO_AUTH);
  CHECK(f.CallOne(tag, ListOf("/p", {}, false, true)).error() == v1::ERROR_CODE_NO_AUTH);
  CHECK(f.CallOne(tag, ListOf("/secret", v1::CHILD_KIND_EPHEMERAL)).error() ==
        v1::ERROR_CODE_NO_AUTH);
}

TEST_CASE("a recursive list is breadth first, without its root, and ends at its maximum") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  for (const char* path : {"/r", "/r/b", "/r/b/z", "/r/a", "/r/a/x", "/r/a/x/y", "/rest"}) {
    f.Change(CreateOp(path));
  }
  const auto list = [&](const std::string& path) {
    const v1::Response response = f.CallOne(tag, ListRecursiveOf(path));
    CHECK(response.error() == v1::ERROR_CODE_UNSPECIFIED);
    CHECK(response.list_recursive().watch_after_zxid() == f.zxid());
    return ToStrings(response.list_recursive().paths());
  };
  CHECK(list("/r") == Strings{"/r/a", "/r/b", "/r/a/x", "/r/b/z", "/r/a/x/y"});
  CHECK(list("/r/a/x/y").empty());
  const Strings whole = list("/");
  CHECK(std::count(whole.begin(), whole.end(), "/rest") == 1);
  CHECK(std::count(whole.begin(), whole.end(), "/zookeeper/quota") == 1);
  CHECK(std::count(whole.begin(), whole.end(), "/") == 0);
  for (uint32_t max = 0; max <= 6; ++max) {
    CAPTURE(max);
    v1::Request request = ListRecursiveOf("/r");
    request.mutable_list_recursive()->set_max(max);
    const Strings paths = ToStrings(f.CallOne(tag, request).list_recursive().paths());
    CHECK(paths.size() == std::min<size_t>(max, 5));
    if (max == 2) CHECK(paths == Strings{"/r/a", "/r/b"});
  }
  CHECK(f.CallOne(tag, ListRecursiveOf("/none")).error() == v1::ERROR_CODE_NO_NODE);
  CHECK(f.CallOne(tag, ListRecursiveOf("r")).error() == v1::ERROR_CODE_BAD_ARGUMENTS);
  f.Change(Unreadable("/r/secret"));
  f.Change(CreateOp("/r/secret/below"));
  CHECK(f.CallOne(tag, ListRecursiveOf("/r/secret")).error() == v1::ERROR_CODE_NO_AUTH);
  CHECK(list("/r") == Strings{"/r/a", "/r/b", "/r/secret", "/r/a/x", "/r/b/z", "/r/a/x/y"});
}

TEST_CASE("the unary calls return the same lists") {
  Fixture f;
  OpenWithChildren(&f);
  v1::ListRequest list;
  list.set_path("/p");
  list.set_kind(v1::CHILD_KIND_PERSISTENT);
  list.set_with_stats(true);
  list.set_with_data(true);
  v1::ListResponse listed;
  REQUIRE(f.Unary(Method::kList, list, &listed).ok());
  CHECK(listed.zxid() == f.zxid());
  CHECK(ToStrings(listed.result().children()) == Strings{"a", "c"});
  CHECK(ToStrings(listed.result().child_data()) == Strings{"A", "C"});
  CHECK(listed.result().child_stats_size() == 2);
  list.mutable_options()->set_linearizable(true);
  list.set_with_stats(false);
  list.set_with_data(false);
  list.set_kind(v1::CHILD_KIND_EPHEMERAL);
  REQUIRE(f.Unary(Method::kList, list, &listed).ok());
  CHECK(ToStrings(listed.result().children()) == Strings{"b"});

  v1::ListRecursiveRequest recursive;
  recursive.set_path("/p");
  v1::ListRecursiveResponse paths;
  REQUIRE(f.Unary(Method::kListRecursive, recursive, &paths).ok());
  CHECK(paths.zxid() == f.zxid());
  CHECK(ToStrings(paths.result().paths()) == Strings{"/p/a", "/p/b", "/p/c"});
  recursive.set_max(1);
  REQUIRE(f.Unary(Method::kListRecursive, recursive, &paths).ok());
  CHECK(paths.result().paths_size() == 1);
  recursive.set_path("/none");
  const absl::Status missing = f.Unary(Method::kListRecursive, recursive, &paths);
  CHECK(missing.code() == absl::StatusCode::kNotFound);
  CHECK(DetailOf(missing).path() == "/none");
}

TEST_CASE("linearizable lists of every form wait for a barrier") {
  Fixture f;
  const uint32_t tag = OpenWithChildren(&f);
  v1::Request list = ListOf("/p", v1::CHILD_KIND_PERSISTENT);
  v1::Request recursive = ListRecursiveOf("/p");
  list.mutable_list()->set_linearizable(true);
  recursive.mutable_list_recursive()->set_linearizable(true);
  const bool is_recursive = GENERATE(false, true);
  f.Send(tag, MessageOf({is_recursive ? recursive : list}));
  f.transport.RunIterations();
  REQUIRE(f.service.syncs.size() == 1);
  CHECK(f.Received(tag).items_size() == 0);
  f.Change(CreateOp("/p/new"));
  const v1::SessionResponse response = f.Received(tag);
  REQUIRE(response.items_size() == 1);
  const v1::Response& answer = response.items(0).response();
  if (is_recursive) {
    CHECK(answer.list_recursive().paths_size() == 4);
  } else {
    CHECK(ToStrings(answer.list().children()) == Strings{"a", "c", "new"});
  }
}

TEST_CASE("a list with metadata, data or paths that would exceed the limit of replies is refused") {
  Config config = TestConfig();
  config.max_reply_bytes = 10'000;
  Fixture f(config);
  const uint32_t tag = f.OpenSession();
  f.Change(CreateOp("/d"));
  f.Change(CreateOp("/d/" + std::string(1000, 'n')));
  const auto error = [&](const v1::Request& request) {
    const v1::Response response = f.CallOne(tag, request);
    CHECK(response.ByteSizeLong() <= 10'000 + 200);
    return response.error();
  };
  const v1::Request forms[] = {ListOf("/d", {}, false, true), ListOf("/d", {}, true, false),
                               ListRecursiveOf("/d")};
  for (const v1::Request& request : forms) CHECK(error(request) == v1::ERROR_CODE_UNSPECIFIED);
  for (int i = 0; i < 9; ++i) {
    f.Change(CreateOp("/d/x" + std::to_string(i), std::string(1000, 'x')));
  }
  CHECK(error(forms[0]) == v1::ERROR_CODE_TOO_LARGE);
  CHECK(error(forms[1]) == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(error(forms[2]) == v1::ERROR_CODE_UNSPECIFIED);
  for (int i = 0; i < 80; ++i) f.Change(CreateOp("/d/y" + std::to_string(i)));
  CHECK(error(ListOf("/d", v1::CHILD_KIND_PERSISTENT)) == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(error(forms[1]) == v1::ERROR_CODE_TOO_LARGE);
  for (int i = 0; i < 9; ++i) f.Change(CreateOp("/d/y0/" + std::string(1000, 'a' + i)));
  CHECK(error(forms[2]) == v1::ERROR_CODE_TOO_LARGE);
  CHECK(error(ListOf("/d")) == v1::ERROR_CODE_UNSPECIFIED);
}

TEST_CASE("long lists of every form are read in pieces by a call and by a session") {
  Fixture f;
  constexpr size_t kMany = 3 * kNodesPerHold;
  CreateMany(&f, kMany);
  const uint32_t tag = f.OpenSession();
  f.Send(tag, MessageOf({ListOf("/p", v1::CHILD_KIND_PERSISTENT, true, true), GetRequestOf(2, "/p"),
                         ListRecursiveOf("/p")}));
  f.transport.RunIteration();
  CHECK(f.Received(tag).items_size() == 0);
  f.Settle();
  const v1::SessionResponse response = f.Received(tag);
  REQUIRE(response.items_size() == 3);
  const v1::ListResult& list = response.items(0).response().list();
  CHECK(list.children_size() == kMany);
  CHECK(list.child_stats_size() == kMany);
  CHECK(list.child_data_size() == kMany);
  CHECK(std::is_sorted(list.children().begin(), list.children().end()));
  CHECK(response.items(1).response().id() == 2);
  CHECK(response.items(2).response().list_recursive().paths_size() == kMany);

  v1::ListRequest request;
  request.set_path("/p");
  request.set_with_data(true);
  v1::ListResponse listed;
  REQUIRE(f.Unary(Method::kList, request, &listed).ok());
  CHECK(listed.result().child_data_size() == kMany);
  v1::ListRecursiveRequest recursive;
  recursive.set_path("/");
  v1::ListRecursiveResponse paths;
  REQUIRE(f.Unary(Method::kListRecursive, recursive, &paths).ok());
  CHECK(paths.result().paths_size() == kMany + 4);
  CHECK(f.loop.longest_hold() <= 3 * kNodesPerHold);
  CHECK(f.service.memory().used(MemoryUse::kReads) == 0);
}

TEST_CASE("the data of children counts as work on the locked tree") {
  Fixture f;
  CreateMany(&f, 200, std::string(50'000, 'x'));
  const uint32_t tag = f.OpenSession();
  CHECK(f.CallOne(tag, ListOf("/p", {}, false, true)).list().child_data_size() == 200);
  CHECK(f.loop.longest_hold() <= 2 * kNodesPerHold);
}

TEST_CASE("long lists of every form are refused midway when replies take too much memory") {
  Fixture f;
  CreateMany(&f, 2 * kNodesPerHold, std::string(500, 'x'));
  const uint32_t tag = f.OpenSession();
  MemoryBudget& memory = f.service.memory();
  memory.SetLimit(8u << 20);
  CHECK(f.CallOne(tag, ListOf("/p", {}, false, true)).error() == v1::ERROR_CODE_UNAVAILABLE);
  CHECK(memory.refused() == 1);
  CHECK(memory.used(MemoryUse::kReads) == 0);
}

TEST_CASE("a long list shows the children at its end, and what is newer than an event it follows") {
  Fixture f;
  constexpr size_t kMany = 3 * kNodesPerHold;
  CreateMany(&f, kMany);
  const int64_t before = f.zxid();
  const uint32_t tag = f.OpenSession();
  f.CallOne(tag, WatchRequestOf(1, 1, "/p", v1::WATCH_SCOPE_SUBTREE));
  f.Send(tag, MessageOf({ListOf("/p", v1::CHILD_KIND_PERSISTENT, true, true)}));
  // Three pieces read the names, three the children.
  const int pieces = GENERATE(1, 2, 3, 4);
  CAPTURE(pieces);
  for (int i = 0; i < pieces; ++i) REQUIRE(f.transport.RunIteration());
  const std::string last = std::to_string(100'000 + kMany - 1);
  const uint32_t change =
      Submit(&f, {DeleteOp("/p/100000"), DeleteOp("/p/" + last), CreateOp("/p/new", "new"),
                  SetOp("/p/100001", "newer"), CreateOp("/p/100002/a"), CreateOp("/p/100002/a/b")});
  while (f.service.batches.empty()) REQUIRE(f.transport.RunIteration());
  REQUIRE(f.Received(tag).items_size() == 0);  // the list is not read to its end
  f.service.Apply(f.listener);
  f.Settle();
  REQUIRE(f.CodeOf(change) == absl::StatusCode::kOk);
  const v1::SessionResponse response = f.Received(tag);
  REQUIRE(response.items_size() == 7);
  for (int i = 0; i < 6; ++i) CHECK(response.items(i).has_event());
  const v1::Response& answer = response.items(6).response();
  const v1::ListResult& list = answer.list();
  CHECK(answer.zxid() == f.zxid());
  CHECK(list.watch_after_zxid() >= before);
  CHECK(list.watch_after_zxid() < f.zxid());
  REQUIRE(list.children_size() == kMany - 1);
  REQUIRE(list.child_data_size() == kMany - 1);
  CHECK(list.children(0) == "100001");
  CHECK(list.child_data(0) == "newer");
  CHECK(list.child_stats(0).version() == 1);
  CHECK(list.children(1) == "100002");
  CHECK(list.child_stats(1).children() == 1);
  CHECK(list.children(list.children_size() - 1) == "new");
  CHECK(list.child_data(list.children_size() - 1) == "new");
  CHECK(std::count(list.children().begin(), list.children().end(), last) == 0);
}

TEST_CASE("a recursive list is not older than an event that its session was sent before it") {
  Fixture f;
  constexpr size_t kMany = 3 * kNodesPerHold;
  CreateMany(&f, kMany);
  f.Change(CreateOp("/p/100001/old"));
  const uint32_t tag = f.OpenSession();
  f.CallOne(tag, WatchRequestOf(1, 1, "/p", v1::WATCH_SCOPE_SUBTREE));
  f.Send(tag, MessageOf({ListRecursiveOf("/p")}));
  const int pieces = GENERATE(1, 2, 3, 4);
  CAPTURE(pieces);
  for (int i = 0; i < pieces; ++i) REQUIRE(f.transport.RunIteration());
  Submit(&f, {DeleteOp("/p/100001", true), CreateOp("/p/new"), CreateOp("/p/new/a"),
              DeleteOp("/p/100002"), CreateOp("/p/100002"), CreateOp("/p/gone"),
              DeleteOp("/p/gone"), CreateOp("/pp"), CreateOp("/p/100000/new")});
  while (f.service.batches.empty()) REQUIRE(f.transport.RunIteration());
  REQUIRE(f.Received(tag).items_size() == 0);  // the list is not read to its end
  f.service.Apply(f.listener);
  f.Settle();
  const v1::SessionResponse response = f.Received(tag);
  const v1::Response& answer = response.items(response.items_size() - 1).response();
  const v1::ListRecursiveResult& list = answer.list_recursive();
  CHECK(list.watch_after_zxid() < answer.zxid());
  const Strings paths = ToStrings(list.paths());
  REQUIRE(paths.size() == kMany + 2);  // without one, with three
  const auto count = [&](const std::string& path) {
    return std::count(paths.begin(), paths.end(), path);
  };
  CHECK(count("/p/100001") == 0);
  CHECK(count("/p/100001/old") == 0);
  CHECK(count("/p/100002") == 1);
  CHECK(count("/p/gone") == 0);
  CHECK(count("/pp") == 0);
  CHECK(count("/p/new") == 1);
  CHECK(paths[kMany] == "/p/100000/new");
  CHECK(paths[kMany + 1] == "/p/new/a");
}

TEST_CASE("a long list of a call begins again if its tree is replaced") {
  Fixture f;
  constexpr size_t kMany = 3 * kNodesPerHold;
  CreateMany(&f, kMany);
  v1::ListRequest list;
  list.set_path("/p");
  list.set_with_stats(true);
  const uint32_t list_tag = f.transport.Open(Method::kList);
  f.transport.Write(list_tag, list.SerializeAsString());
  v1::ListRecursiveRequest recursive;
  recursive.set_path("/p");
  const uint32_t recursive_tag = f.transport.Open(Method::kListRecursive);
  f.transport.Write(recursive_tag, recursive.SerializeAsString());
  Submit(&f, {CreateOp("/p/new")});
  while (f.service.batches.empty()) REQUIRE(f.transport.RunIteration());
  REQUIRE_FALSE(f.transport.outcome(list_tag).has_value());
  REQUIRE_FALSE(f.transport.outcome(recursive_tag).has_value());
  f.service.ReplaceTree(&f.frontend);
  f.frontend.OnBatchApplied();
  f.transport.RunIterations();
  REQUIRE(f.CodeOf(list_tag) == absl::StatusCode::kOk);
  v1::ListResponse listed;
  REQUIRE(listed.ParseFromString(f.transport.received(list_tag).at(0)));
  CHECK(listed.result().child_stats_size() == kMany + 1);
  REQUIRE(f.CodeOf(recursive_tag) == absl::StatusCode::kOk);
  v1::ListRecursiveResponse paths;
  REQUIRE(paths.ParseFromString(f.transport.received(recursive_tag).at(0)));
  CHECK(paths.result().paths_size() == kMany + 1);
}

}  // namespace
}  // namespace quorate::rpc::native
