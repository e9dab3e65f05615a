// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/call.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "base/failure_limit.h"
#include "rpc/audit/testing/recorded_audit.h"
#include "rpc/frontend/client_identities.h"
#include "rpc/frontend/listing.h"
#include "rpc/grpc/native/testing/fixture.h"

namespace quorate::rpc::native {
namespace {

TEST_CASE("each unary call returns its result") {
  Fixture f;
  v1::CreateRequest create;
  *create.mutable_create() =
      CreateOp("/a-", "data", v1::CREATE_MODE_PERSISTENT_SEQUENTIAL).create();
  v1::CreateResponse created;
  REQUIRE(f.Unary(Method::kCreate, create, &created).ok());
  CHECK(created.path() == "/a-0000000000");
  CHECK(created.zxid() == f.zxid());
  CHECK(created.stat().created_zxid() == f.zxid());

  v1::SetRequest set;
  set.mutable_set()->set_path(created.path());
  set.mutable_set()->set_data("more");
  set.mutable_set()->set_version(0);
  v1::SetResponse was_set;
  REQUIRE(f.Unary(Method::kSet, set, &was_set).ok());
  CHECK(was_set.stat().version() == 1);
  CHECK(f.Unary(Method::kSet, set, &was_set).code() == absl::StatusCode::kFailedPrecondition);

  v1::GetRequest get;
  get.set_path(created.path());
  v1::GetResponse got;
  REQUIRE(f.Unary(Method::kGet, get, &got).ok());
  CHECK(got.result().data() == "more");
  CHECK(got.zxid() == f.zxid());
  get.mutable_options()->set_linearizable(true);
  REQUIRE(f.Unary(Method::kGet, get, &got).ok());

  f.Change(CreateOp("/b"));
  v1::ListRequest list;
  list.set_path("/");
  v1::ListResponse listed;
  REQUIRE(f.Unary(Method::kList, list, &listed).ok());
  CHECK(listed.result().children_size() == 3);
  CHECK(listed.result().children(0) == "a-0000000000");
  CHECK(listed.result().children(1) == "b");
  CHECK(listed.result().children(2) == "zookeeper");

  v1::ExistsRequest exists;
  exists.set_path("/nothing");
  v1::ExistsResponse existing;
  REQUIRE(f.Unary(Method::kExists, exists, &existing).ok());
  CHECK_FALSE(existing.result().exists());
  exists.set_path("/b");
  REQUIRE(f.Unary(Method::kExists, exists, &existing).ok());
  CHECK(existing.result().exists());

  v1::DeleteRequest remove;
  remove.mutable_delete_()->set_path("/b");
  v1::DeleteResponse removed;
  REQUIRE(f.Unary(Method::kDelete, remove, &removed).ok());
  CHECK(removed.removed() == 1);
  CHECK(f.loop.client_count() == 0);
}

TEST_CASE("a list that would exceed the limit of replies is refused") {
  Config config = TestConfig();
  config.max_reply_bytes = 10'000;
  Fixture f(config);
  f.Change(CreateOp("/d"));
  const std::string name(100, 'n');
  for (int i = 0; i < 150; ++i) {
    f.Change(CreateOp("/d/" + name + std::to_string(i)));
    v1::ListRequest list;
    list.set_path("/d");
    v1::ListResponse listed;
    const absl::Status status = f.Unary(Method::kList, list, &listed);
    if (i < 90) CHECK(status.ok());
    if (i > 100) {
      REQUIRE_FALSE(status.ok());
      CHECK(DetailOf(status).code() == v1::ERROR_CODE_TOO_LARGE);
    }
    CHECK((!status.ok() || listed.ByteSizeLong() <= 10'000 + 200));
  }
  const uint32_t tag = f.OpenSession();
  v1::Request request;
  request.set_id(1);
  request.mutable_list()->set_path("/d");
  CHECK(f.CallOne(tag, request).error() == v1::ERROR_CODE_TOO_LARGE);
}

TEST_CASE("a long list is read in pieces by a call and by a session, and is sorted") {
  Fixture f;
  f.Change(CreateOp("/d"));
  constexpr int kMany = 10'000;
  for (int begin = 0; begin < kMany; begin += 1000) {
    v1::TxnRequest request;
    for (int i = begin; i < begin + 1000; ++i) {
      *request.add_operations() = CreateOp("/d/n" + std::to_string(i));
    }
    v1::TxnResponse response;
    REQUIRE(f.Unary(Method::kTxn, request, &response).ok());
  }
  const auto check = [&f](const v1::ListResult& result, int count) {
    CHECK(result.children_size() == count);
    CHECK(std::is_sorted(result.children().begin(), result.children().end()));
    CHECK(result.stat().children() == count);
    CHECK(f.loop.longest_hold() <= 3 * kNodesPerHold);
  };
  v1::ListRequest list;
  list.set_path("/d");
  v1::ListResponse listed;
  REQUIRE(f.Unary(Method::kList, list, &listed).ok());
  check(listed.result(), kMany);

  const uint32_t tag = f.OpenSession();
  v1::Request request;
  request.set_id(1);
  request.mutable_list()->set_path("/d");
  f.Send(tag, MessageOf({request, GetRequestOf(2, "/d"), request}));
  f.Settle();
  const v1::SessionResponse response = f.Received(tag);
  REQUIRE(response.items_size() == 3);
  CHECK(response.items(1).response().id() == 2);
  check(response.items(2).response().list(), kMany);
}

TEST_CASE("a long list is refused midway when replies take too much memory") {
  Fixture f;
  f.Change(CreateOp("/d"));
  for (int begin = 0; begin < 10'000; begin += 1000) {
    v1::TxnRequest request;
    for (int i = begin; i < begin + 1000; ++i) {
      *request.add_operations() = CreateOp("/d/" + std::string(500, 'n') + std::to_string(i));
    }
    v1::TxnResponse response;
    REQUIRE(f.Unary(Method::kTxn, request, &response).ok());
  }
  MemoryBudget& memory = f.service.memory();
  v1::ListRequest list;
  list.set_path("/d");
  v1::ListResponse listed;
  REQUIRE(f.Unary(Method::kList, list, &listed).ok());
  CHECK(memory.used(MemoryUse::kReads) == 0);
  memory.SetLimit(8u << 20);
  CHECK(f.Unary(Method::kList, list, &listed).code() == absl::StatusCode::kUnavailable);
  CHECK(memory.used(MemoryUse::kReads) == 0);
}

TEST_CASE("when replies take too much memory, a call's long reply is refused, a short one is not") {
  Fixture f;
  f.Change(CreateOp("/long", std::string(100'000, 'x')));
  f.Change(CreateOp("/short", "x"));
  MemoryBudget& memory = f.service.memory();
  memory.SetLimit(8u << 20);
  v1::GetRequest get;
  v1::GetResponse got;
  get.set_path("/long");
  CHECK(f.Unary(Method::kGet, get, &got).ok());
  memory.Add(MemoryUse::kUnsent, 3 << 20);
  CHECK(f.Unary(Method::kGet, get, &got).code() == absl::StatusCode::kUnavailable);
  CHECK(memory.refused() == 1);
  get.set_path("/short");
  CHECK(f.Unary(Method::kGet, get, &got).ok());
}

TEST_CASE("a long list whose tree is replaced by a snapshot has only the new tree's children") {
  Fixture f;
  f.Change(CreateOp("/d"));
  const auto creates = [](const std::string& prefix, int begin, int end) {
    v1::TxnRequest request;
    for (int i = begin; i < end; ++i) {
      *request.add_operations() = CreateOp("/d/" + prefix + std::to_string(i));
    }
    return request;
  };
  constexpr int kMany = 10'000;
  for (int begin = 0; begin < kMany; begin += 1000) {
    v1::TxnResponse response;
    REQUIRE(f.Unary(Method::kTxn, creates("n", begin, begin + 1000), &response).ok());
  }
  const uint32_t list_tag = f.transport.Open(Method::kList);
  v1::ListRequest list;
  list.set_path("/d");
  f.transport.Write(list_tag, list.SerializeAsString());
  const uint32_t txn_tag = f.transport.Open(Method::kTxn);
  f.transport.Write(txn_tag, creates("m", 0, 1000).SerializeAsString());
  while (f.service.batches.empty()) REQUIRE(f.transport.RunIteration());
  REQUIRE_FALSE(f.transport.outcome(list_tag).has_value());  // the read has begun
  f.service.ReplaceTree(&f.frontends);
  f.frontend.OnBatchApplied();
  f.transport.RunIterations();
  REQUIRE(f.CodeOf(list_tag) == absl::StatusCode::kOk);
  v1::ListResponse listed;
  REQUIRE(listed.ParseFromString(f.transport.received(list_tag).at(0)));
  CHECK(listed.result().children_size() == kMany + 1000);
  CHECK(listed.result().stat().children() == kMany + 1000);
}

TEST_CASE("an error has a canonical status, and more information in its details") {
  Fixture f;
  v1::GetRequest get;
  get.set_path("/none");
  v1::GetResponse got;
  absl::Status status = f.Unary(Method::kGet, get, &got);
  CHECK(status.code() == absl::StatusCode::kNotFound);
  CHECK(DetailOf(status).code() == v1::ERROR_CODE_NO_NODE);
  CHECK(DetailOf(status).path() == "/none");
  CHECK(DetailOf(status).zxid() == f.zxid());
  CHECK_FALSE(DetailOf(status).has_operation_index());

  v1::TxnRequest txn;
  *txn.add_operations() = CreateOp("/a");
  *txn.add_operations() = CreateOp("/none/b");
  *txn.add_operations() = CreateOp("/c");
  v1::TxnResponse done;
  status = f.Unary(Method::kTxn, txn, &done);
  CHECK(status.code() == absl::StatusCode::kNotFound);
  CHECK(DetailOf(status).path() == "/none/b");
  CHECK(DetailOf(status).operation_index() == 1);
  CHECK(DetailOf(status).zxid() == f.zxid());
  REQUIRE(DetailOf(status).results_size() == 3);
  CHECK(DetailOf(status).results(2).error() == v1::ERROR_CODE_NOT_ATTEMPTED);
  txn.Clear();
  CHECK(DetailOf(f.Unary(Method::kTxn, txn, &done)).code() == v1::ERROR_CODE_BAD_ARGUMENTS);

  // A transaction that is refused as a whole names no operation.
  *txn.add_operations() = CreateOp("/a");
  *txn.add_operations() = CreateOp("/e", "", v1::CREATE_MODE_EPHEMERAL_SEQUENTIAL);
  txn.add_operations();
  const v1::ErrorDetail whole = DetailOf(f.Unary(Method::kTxn, txn, &done));
  CHECK(whole.code() == v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(whole.path().empty());
  CHECK_FALSE(whole.has_operation_index());
  CHECK(whole.results().empty());
  CHECK(whole.zxid() == 0);

  v1::CreateRequest create;
  *create.mutable_create() = CreateOp("/e", "", v1::CREATE_MODE_EPHEMERAL).create();
  v1::CreateResponse created;
  CHECK(f.Unary(Method::kCreate, create, &created).code() == absl::StatusCode::kInvalidArgument);
  create.mutable_create()->set_mode(v1::CREATE_MODE_PERSISTENT);
  CallerProof unknown = Fixture::Digests({"a:b"});
  unknown.credentials[0].set_scheme("kerberos");
  CHECK(f.Unary(Method::kCreate, create, &created, unknown).code() ==
        absl::StatusCode::kUnauthenticated);
  const uint32_t tag = f.transport.Open(Method::kGet);
  f.transport.Write(tag, "\xFF");
  f.Settle();
  CHECK(f.CodeOf(tag) == absl::StatusCode::kInvalidArgument);
  CHECK(DetailOf(*f.transport.outcome(tag)).code() == v1::ERROR_CODE_BAD_ARGUMENTS);
  for (const Method method : {Method::kGet, Method::kWatch}) {
    const uint32_t silent = f.transport.Open(method);
    f.Pass(30'001);
    CHECK(f.CodeOf(silent) == absl::StatusCode::kDeadlineExceeded);
    CHECK(DetailOf(*f.transport.outcome(silent)).code() == v1::ERROR_CODE_NO_REQUEST);
  }
}

TEST_CASE("a transaction whose version check fails is not applied") {
  Fixture f;
  f.Change(CreateOp("/a"));
  f.Change(SetOp("/a", "one"));
  v1::TxnRequest txn;
  *txn.add_operations() = CreateOp("/b");
  *txn.add_operations() = CheckVersionOp("/a", 0);
  v1::TxnResponse done;
  const absl::Status status = f.Unary(Method::kTxn, txn, &done);
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(DetailOf(status).code() == v1::ERROR_CODE_BAD_VERSION);
  CHECK(DetailOf(status).path() == "/a");
  REQUIRE(DetailOf(status).results_size() == 2);
  CHECK(DetailOf(status).results(1).error() == v1::ERROR_CODE_BAD_VERSION);
  CHECK_FALSE(f.service.ReadTree()->FindStat("/b", std::make_unique<tree::Stat>().get()));
  txn.mutable_operations(1)->mutable_check()->set_version(1);
  CHECK(f.Unary(Method::kTxn, txn, &done).ok());
}

TEST_CASE("a write that not all members understand is refused, and the error names the path") {
  Fixture f;
  v1::TxnRequest txn;
  *txn.add_operations() = CheckCreatedOp("/", 0);
  v1::TxnResponse done;
  CHECK(f.Unary(Method::kTxn, txn, &done).ok());
  *txn.add_operations() = CheckCreatedOp("/zookeeper", 77);
  absl::Status status = f.Unary(Method::kTxn, txn, &done);
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(DetailOf(status).path() == "/zookeeper");
  f.service.version = tree::kVersionCheckCreated - 1;
  status = f.Unary(Method::kTxn, txn, &done);
  CHECK(status.code() == absl::StatusCode::kUnimplemented);
  CHECK(DetailOf(status).code() == v1::ERROR_CODE_UNIMPLEMENTED);
}

TEST_CASE("an access control list is limited in the form that each member stores") {
  Fixture f;
  v1::CreateRequest create;
  *create.mutable_create() = CreateOp("/n").create();
  for (int i = 0; i < 200; ++i) {
    v1::Acl* entry = create.mutable_create()->add_acl();
    entry->set_permissions(i);
    entry->set_scheme("auth");
  }
  const CallerProof alice = Fixture::Digests({"alice:wonder"});
  v1::CreateResponse response;
  const v1::ErrorDetail detail = DetailOf(f.Unary(Method::kCreate, create, &response, alice));
  CHECK(detail.code() == v1::ERROR_CODE_TOO_LARGE);
  CHECK(detail.data_bytes_max() == TestConfig().jute_max_buffer_bytes);
  CHECK(f.service.batches.empty());
  create.mutable_create()->mutable_acl()->DeleteSubrange(50, 150);
  CHECK(f.Unary(Method::kCreate, create, &response, alice).ok());
}

TEST_CASE("the credentials of a call determine its identities") {
  Fixture f;
  v1::CreateRequest create;
  *create.mutable_create() = CreateOp("/mine", "secret").create();
  v1::Acl* acl = create.mutable_create()->add_acl();
  acl->set_permissions(31);
  acl->set_scheme("auth");
  const CallerProof alice = Fixture::Digests({"alice:wonder"});
  v1::CreateResponse created;
  REQUIRE(f.Unary(Method::kCreate, create, &created, alice).ok());
  v1::GetRequest get;
  get.set_path("/mine");
  v1::GetResponse got;
  CHECK(f.Unary(Method::kGet, get, &got).code() == absl::StatusCode::kPermissionDenied);
  CHECK(f.Unary(Method::kGet, get, &got, alice).ok());
  CHECK(f.Unary(Method::kGet, get, &got, Fixture::Digests({"alice:other"})).code() ==
        absl::StatusCode::kPermissionDenied);
  CHECK(f.Unary(Method::kGet, get, &got, Fixture::Digests({"alice:other", "alice:wonder"})).ok());
}

TEST_CASE("a call of a client whose metadata was refused ends with that, and is recorded") {
  Fixture f;
  RecordedAudit audit;
  f.frontend.SetRequestAudit(audit.requests());
  for (const Method method : {Method::kGet, Method::kTxn, Method::kWatch, Method::kSession}) {
    CallerProof proof = Fixture::Digests({});
    proof.refused = v1::ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "not base64");
    proof.refused_key = "quorate-credential";
    const uint32_t tag = f.transport.Open(method, std::move(proof));
    f.Settle();
    CHECK(f.CodeOf(tag) == absl::StatusCode::kInvalidArgument);
    CHECK(audit.Lines() ==
          std::vector<std::string>{"user=10.0.0.1 ip=10.0.0.1 operation=authenticate "
                                   "detail=quorate-credential result=failure"});
  }
  CHECK(f.service.failed_authentications() == 4);
}

TEST_CASE("the super user of `authorization` passes access control lists, a token does not") {
  Config config = TestConfig();
  config.super_digest = DigestId("super:secret");
  Fixture f(config);
  v1::CreateRequest create;
  *create.mutable_create() = CreateOp("/mine", "secret").create();
  v1::Acl* acl = create.mutable_create()->add_acl();
  acl->set_permissions(31);
  acl->set_scheme("auth");
  v1::CreateResponse created;
  REQUIRE(f.Unary(Method::kCreate, create, &created, Fixture::Digests({"alice:wonder"})).ok());
  v1::GetRequest get;
  get.set_path("/mine");
  v1::GetResponse got;
  CallerProof proof = Fixture::Digests({});
  proof.principal.token = "ops";
  CHECK(f.Unary(Method::kGet, get, &got, proof).code() == absl::StatusCode::kPermissionDenied);
  proof.principal.is_super = true;
  CHECK(f.Unary(Method::kGet, get, &got, proof).ok());
}

TEST_CASE("calls, sessions and watches need the authentication that is required") {
  Config config = TestConfig();
  config.required_auth_schemes = {"sasl", "digest"};
  Fixture f(config);
  RecordedAudit audit;
  f.frontend.SetRequestAudit(audit.requests());
  const CallerProof alice = Fixture::Digests({"alice:wonder"});
  v1::CreateRequest create;
  *create.mutable_create() = CreateOp("/a", "").create();
  v1::CreateResponse created;
  const absl::Status refused = f.Unary(Method::kCreate, create, &created);
  CHECK(refused.code() == absl::StatusCode::kUnauthenticated);
  CHECK(refused.message().find("sasl, digest") != absl::string_view::npos);
  CHECK(f.Unary(Method::kCreate, create, &created, alice).ok());

  v1::GetRequest get;
  get.set_path("/a");
  v1::GetResponse got;
  CHECK(f.Unary(Method::kGet, get, &got).code() == absl::StatusCode::kUnauthenticated);
  CHECK(f.Unary(Method::kGet, get, &got, alice).ok());

  v1::WatchRequest watch;
  watch.set_path("/a");
  v1::SessionRequest session = OpenMessage();
  for (const bool has_proved : {false, true}) {
    for (const Method method : {Method::kWatch, Method::kSession}) {
      const uint32_t tag = f.transport.Open(method, has_proved ? alice : Fixture::Digests({}));
      f.transport.Write(
          tag, method == Method::kWatch ? watch.SerializeAsString() : session.SerializeAsString());
      f.Settle();
      CHECK(f.transport.outcome(tag).has_value() == !has_proved);
      if (!has_proved) CHECK(f.CodeOf(tag) == absl::StatusCode::kUnauthenticated);
    }
  }
  CHECK(f.service.failed_authentications() == 4);
  const std::vector<std::string> lines = audit.Lines();
  CHECK(std::ranges::count_if(lines, [](const std::string& line) {
          return line.find("operation=authenticate") != std::string::npos &&
                 line.find("required schemes: sasl, digest") != std::string::npos;
        }) == 4);
}

TEST_CASE("calls, sessions and watches cannot guess the password of the super user fast") {
  Config config = TestConfig();
  config.super_digest = DigestId("super:secret");
  Fixture f(config);
  RecordedAudit audit;
  f.frontend.SetRequestAudit(audit.requests());
  f.Change(CreateOp("/a"));
  const auto get = [&](const std::string& secret) {
    v1::GetRequest request;
    request.set_path("/a");
    v1::GetResponse response;
    return f.Unary(Method::kGet, request, &response, Fixture::Digests({secret}));
  };
  for (int i = 0; i < 2 * FailureLimit::kBurst; ++i) REQUIRE(get("super:secret").ok());
  for (int i = 0; i < FailureLimit::kBurst; ++i) REQUIRE(get("super:guess").ok());
  audit.Lines();
  CHECK(get("user:guess").ok());
  // It was not looked at, and may be right: the client may try again.
  CHECK(get("super:secret").code() == absl::StatusCode::kUnavailable);
  v1::WatchRequest watch;
  watch.set_path("/a");
  v1::SessionRequest session = OpenMessage();
  for (const Method method : {Method::kWatch, Method::kSession}) {
    const uint32_t tag = f.transport.Open(method, Fixture::Digests({"super:secret"}));
    f.transport.Write(
        tag, method == Method::kWatch ? watch.SerializeAsString() : session.SerializeAsString());
    f.Settle();
    REQUIRE(f.transport.outcome(tag).has_value());
    CHECK(f.CodeOf(tag) == absl::StatusCode::kUnavailable);
  }
  CHECK(f.service.failed_authentications() == 3);
  CHECK(audit.Lines() ==
        std::vector<std::string>(3,
                                 "user=10.0.0.1 ip=10.0.0.1 operation=authenticate detail=digest "
                                 "result=failure"));
}

TEST_CASE("a call waits until this member has applied the zxid that the client has seen") {
  Fixture f;
  f.Change(CreateOp("/a"));
  v1::GetRequest get;
  get.set_path("/a");
  get.mutable_options()->set_min_zxid(f.zxid() + 1);
  const uint32_t tag = f.transport.Open(Method::kGet);
  f.transport.Write(tag, get.SerializeAsString());
  f.Settle();
  CHECK_FALSE(f.transport.outcome(tag).has_value());
  SECTION("the zxid is applied") {
    f.Change(SetOp("/a", ""));
    f.Pass(50);
    CHECK(f.CodeOf(tag) == absl::StatusCode::kOk);
  }
  SECTION("the zxid is not applied") {
    f.Pass(2001);
    CHECK(f.CodeOf(tag) == absl::StatusCode::kUnavailable);
  }
}

TEST_CASE("reads are refused at an outdated member, unless the client accepts any state") {
  Fixture f;
  std::string why;
  SECTION("the member has not caught up since its start") {
    f.service.current.caught_up = f.service.current.in_touch = false;
    why = "has not caught up";
  }
  SECTION("the member has been without a leader for a long time") {
    f.service.current.leader_contact_age_ms = f.config.StaleReadLimitMs() + 1;
    why = "has had no contact with a leader";
  }
  const auto check = [&](Method method, auto request, auto response) {
    request.set_path("/");
    const absl::Status refused = f.Unary(method, request, &response);
    CHECK(refused.code() == absl::StatusCode::kUnavailable);
    CHECK(std::string(refused.message()).find(why) != std::string::npos);
    request.mutable_options()->set_any_state(true);
    CHECK(f.Unary(method, request, &response).ok());
  };
  check(Method::kGet, v1::GetRequest(), v1::GetResponse());
  check(Method::kExists, v1::ExistsRequest(), v1::ExistsResponse());
  check(Method::kList, v1::ListRequest(), v1::ListResponse());
}

TEST_CASE("a member without a leader serves reads up to the age limit, or always without one") {
  Config config = TestConfig();
  config.stale_read_limit_ms = GENERATE(0, 7000, -1);
  Fixture f(config);
  v1::GetRequest request;
  request.set_path("/");
  v1::GetResponse response;
  f.service.current.leader_contact_age_ms = config.stale_read_limit_ms == 7000 ? 7000 : 10'000;
  CHECK(f.Unary(Method::kGet, request, &response).ok());
  f.service.current.leader_contact_age_ms += 1;
  f.Pass(50);
  CHECK(f.Unary(Method::kGet, request, &response).ok() == (config.stale_read_limit_ms == -1));
}

TEST_CASE("the error of a member that cannot serve tells whether the write may have been made") {
  Fixture f;
  v1::CreateRequest create;
  *create.mutable_create() = CreateOp("/a").create();
  v1::CreateResponse created;
  SECTION("the member is out of touch") {
    f.service.current.in_touch = false;
    CHECK(f.Unary(Method::kCreate, create, &created).code() == absl::StatusCode::kUnavailable);
    CHECK(f.service.batches.empty());
  }
  SECTION("the member is congested") {
    f.service.is_congested = true;
    const absl::Status status = f.Unary(Method::kCreate, create, &created);
    CHECK(status.code() == absl::StatusCode::kUnavailable);
    CHECK(std::string(status.message()).find("was not made") != std::string::npos);
  }
  SECTION("members of an older version may be part of the cluster") {
    f.service.version = tree::kVersionNumbered - 1;
    CHECK(f.Unary(Method::kCreate, create, &created).code() == absl::StatusCode::kUnavailable);
    CHECK(f.service.batches.empty());
  }
  SECTION("disks are nearly full") {
    f.service.is_refusing_data = true;
    CHECK(f.Unary(Method::kCreate, create, &created).code() ==
          absl::StatusCode::kResourceExhausted);
    CHECK(f.service.batches.empty());
  }
  const uint32_t tag = f.transport.Open(Method::kCreate);
  f.transport.Write(tag, create.SerializeAsString());
  f.service.current.in_touch = true;
  f.service.is_congested = false;
  f.service.is_refusing_data = false;
  f.service.version = tree::kVersionNumbered;
  f.transport.RunIterations();
  SECTION("the member loses touch") {
    f.service.current.leader_contact_age_ms = 6000;
    f.clock.Advance(50);
    f.loop.OnTimer();
    f.transport.RunIterations();
    CHECK(f.CodeOf(tag) == absl::StatusCode::kUnavailable);
    CHECK(std::string(f.transport.outcome(tag)->message()).find("may or may not") !=
          std::string::npos);
  }
  SECTION("the tree is replaced") {
    f.service.ReplaceTree(&f.frontends);
    f.frontend.OnBatchApplied();
    f.transport.RunIterations();
    CHECK(f.CodeOf(tag) == absl::StatusCode::kUnavailable);
  }
  SECTION("the client has gone") {
    f.transport.Cancel(tag);
    f.Settle();
    CHECK(f.service.ReadTree()->FindStat("/a", std::make_unique<tree::Stat>().get()));
  }
}

TEST_CASE("a write by a call that is refused is recorded in the audit log") {
  Fixture f;
  RecordedAudit audit;
  f.frontend.SetRequestAudit(audit.requests());
  v1::CreateRequest create;
  *create.mutable_create() = CreateOp("/a\n").create();
  v1::CreateResponse created;
  REQUIRE_FALSE(f.Unary(Method::kCreate, create, &created).ok());
  CHECK(audit.Lines().empty());  // the log takes it; it is recorded when it is applied
  f.service.is_refusing_data = true;
  REQUIRE_FALSE(f.Unary(Method::kCreate, create, &created).ok());
  CHECK(audit.Lines() ==
        std::vector<std::string>{"user=10.0.0.1 ip=10.0.0.1 operation=create znode=/a\\n "
                                 "znode_type=persistent result=failure"});
  v1::TxnRequest txn;
  *txn.add_operations() = CreateOp("/b");
  *txn.add_operations() = CreateOp("/c");
  v1::TxnResponse done;
  REQUIRE_FALSE(f.Unary(Method::kTxn, txn, &done).ok());
  CHECK(audit.Lines() == std::vector<std::string>{"user=10.0.0.1 ip=10.0.0.1 "
                                                  "operation=multiOperation result=failure"});
  f.service.is_refusing_data = false;
  CallerProof evil = Fixture::Digests({"secret"});
  evil.credentials[0].set_scheme("evil\t");
  REQUIRE_FALSE(f.Unary(Method::kTxn, txn, &done, evil).ok());
  CHECK(audit.Lines() ==
        std::vector<std::string>{"user=10.0.0.1 ip=10.0.0.1 operation=authenticate "
                                 "detail=evil\\t result=failure"});
}

}  // namespace
}  // namespace quorate::rpc::native
