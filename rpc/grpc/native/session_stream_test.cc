// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/session_stream.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "rpc/audit/testing/recorded_audit.h"
#include "rpc/frontend/frontends.h"
#include "rpc/grpc/native/testing/fixture.h"
#include "rpc/grpc/server_info.h"
#include "rpc/proto/times.h"
#include "rpc/zookeeper/connection_loop.h"
#include "rpc/zookeeper/frontend.h"
#include "rpc/zookeeper/testing/manual_sockets.h"
#include "rpc/zookeeper/testing/test_packets.h"

namespace quorate::rpc::native {
namespace {

std::vector<uint64_t> IdsOf(const v1::SessionResponse& response) {
  std::vector<uint64_t> ids;
  for (const v1::SessionItem& item : response.items()) {
    if (item.has_response()) ids.push_back(item.response().id());
  }
  return ids;
}

TEST_CASE("a session begins with the version and the features of the server") {
  Fixture f;
  const uint32_t tag = f.transport.Open(Method::kSession);
  v1::SessionRequest message = OpenMessage();
  message.mutable_open()->set_min_revision(kApiRevision);
  f.Send(tag, message);
  f.Settle();
  v1::Server expected;
  SetServer(f.service.cluster_version(), &expected);
  CHECK(f.Received(tag).opened().server().SerializeAsString() == expected.SerializeAsString());
}

TEST_CASE("a client that needs a later revision of the API gets no session") {
  Fixture f;
  const uint32_t tag = f.transport.Open(Method::kSession);
  v1::SessionRequest message = OpenMessage();
  message.mutable_open()->set_min_revision(kApiRevision + 1);
  f.Send(tag, message);
  f.Settle();
  CHECK(f.CodeOf(tag) == absl::StatusCode::kUnimplemented);
  CHECK(f.service.ReadTree()->session_count() == 0);
}

TEST_CASE("a new session is opened, with a timeout within the limits") {
  Fixture f;
  const uint32_t tag = f.transport.Open(Method::kSession);
  v1::SessionRequest message = OpenMessage();
  *message.mutable_open()->mutable_timeout() = v1::DurationOfMs(999'999);
  f.Send(tag, message);
  f.Settle();
  const v1::SessionResponse response = f.Received(tag);
  REQUIRE(response.has_opened());
  CHECK(v1::ToMs(response.opened().timeout()) == 6000);
  CHECK(response.opened().member() == 3);
  CHECK(response.opened().last_sequence() == 0);
  CHECK(static_cast<uint64_t>(response.opened().session_id()) >> 56 == 3);
  CHECK(f.service.ReadTree()->session_count() == 1);
}

TEST_CASE("requests are answered in order, and reads see the writes before them") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  f.Send(tag,
         MessageOf({WriteRequest(1, 1, {CreateOp("/a", "1")}), GetRequestOf(2, "/a"),
                    WriteRequest(3, 2, {SetOp("/a", "2")}), WriteRequest(4, 3, {SetOp("/a", "3")}),
                    GetRequestOf(5, "/a"), GetRequestOf(6, "/none")}));
  f.transport.RunIterations();
  // The writes after the read wait for the read.
  REQUIRE(f.service.batches.size() == 1);
  CHECK(f.service.batches[0].commands.size() == 1);
  f.service.Apply(&f.frontends);
  f.transport.RunIterations();
  REQUIRE(f.service.batches.size() == 1);
  CHECK(f.service.batches[0].commands.size() == 2);
  f.Settle();
  const v1::SessionResponse response = f.Received(tag);
  REQUIRE(IdsOf(response) == std::vector<uint64_t>{1, 2, 3, 4, 5, 6});
  CHECK(response.items(0).response().write().results(0).path() == "/a");
  CHECK(response.items(1).response().get().data() == "1");
  CHECK(response.items(4).response().get().data() == "3");
  CHECK(response.items(4).response().get().stat().version() == 2);
  CHECK(response.items(5).response().error() == v1::ERROR_CODE_NO_NODE);
  CHECK(response.zxid() == f.zxid());
}

TEST_CASE("all responses that are ready are sent in one message") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  std::vector<v1::Request> requests;
  for (uint64_t i = 1; i <= 100; ++i) requests.push_back(GetRequestOf(i, "/"));
  f.Send(tag, MessageOf(requests));
  f.Settle();
  CHECK(f.transport.received(tag).size() == 1);
  CHECK(f.Received(tag).items_size() == 100);
}

TEST_CASE("linearizable reads and syncs wait for a barrier, which an iteration shares") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  f.Change(CreateOp("/a", "old"));
  v1::Request sync;
  sync.set_id(3);
  sync.mutable_sync();
  f.Send(tag, MessageOf({GetRequestOf(1, "/a", true), GetRequestOf(2, "/a", true), sync,
                         WriteRequest(4, 1, {SetOp("/a", "mine")}), GetRequestOf(5, "/a")}));
  f.transport.RunIterations();
  REQUIRE(f.service.syncs.size() == 1);
  CHECK(f.service.batches.empty());  // the write waits for the reads
  CHECK(f.Received(tag).items_size() == 0);
  f.Change(SetOp("/a", "new"));
  const v1::SessionResponse response = f.Received(tag);
  REQUIRE(IdsOf(response) == std::vector<uint64_t>{1, 2, 3, 4, 5});
  CHECK(response.items(0).response().get().data() == "new");
  CHECK(response.items(1).response().get().data() == "new");
  CHECK(response.items(4).response().get().data() == "mine");
}

TEST_CASE("a write that is sent again gets the first response, and is not applied again") {
  Fixture f;
  v1::SessionOpened opened;
  const uint32_t first = f.OpenSession(&opened);
  const auto write = WriteRequest(
      1, 1, {CreateOp("/n-", "", v1::CREATE_MODE_PERSISTENT_SEQUENTIAL), CreateOp("/b")});
  const v1::Response answer = f.CallOne(first, write);
  REQUIRE(answer.error() == v1::ERROR_CODE_UNSPECIFIED);
  // The write is sent, and the stream breaks before its response arrives.
  f.Send(first, MessageOf({WriteRequest(2, 2, {SetOp("/b", "x")})}));
  f.transport.RunIterations();
  f.transport.Cancel(first);
  const uint32_t second = f.OpenSession(&opened, opened.session_id());
  CHECK(opened.last_sequence() == 2);
  const v1::SessionResponse again = f.Call(second, {write, WriteRequest(2, 2, {SetOp("/b", "x")})});
  REQUIRE(again.items_size() == 2);
  CHECK(again.items(0).response().SerializeAsString() == answer.SerializeAsString());
  CHECK(again.items(1).response().error() == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(again.items(1).response().write().results(0).stat().version() == 1);
  CHECK(f.CallOne(second, WriteRequest(3, 4, {SetOp("/b", "")})).error() ==
        v1::ERROR_CODE_OUT_OF_SEQUENCE);
  CHECK(f.service.ReadTree()->node_count() == 6);  // two, in addition to the four that always exist
}

TEST_CASE("acknowledged responses are dropped") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  f.CallOne(tag, WriteRequest(1, 1, {CreateOp("/a")}));
  v1::SessionRequest message = MessageOf({WriteRequest(2, 2, {CreateOp("/b")})});
  message.set_acknowledged_sequence(1);
  f.Send(tag, message);
  f.Settle();
  f.Received(tag);
  CHECK(f.CallOne(tag, WriteRequest(3, 1, {CreateOp("/a")})).error() ==
        v1::ERROR_CODE_ALREADY_ACKNOWLEDGED);
}

TEST_CASE("a write that is refused uses up its number") {
  Config config = TestConfig();
  config.jute_max_buffer_bytes = 1000;
  Fixture f(config);
  const uint32_t tag = f.OpenSession();
  v1::Operation none;
  v1::Operation bad_mode = CreateOp("/a");
  bad_mode.mutable_create()->set_mode(static_cast<v1::CreateMode>(77));
  const v1::SessionResponse response = f.Call(
      tag, {WriteRequest(1, 1, {}), WriteRequest(2, 2, {none}), WriteRequest(3, 3, {bad_mode}),
            WriteRequest(4, 4, {CreateOp("/a", std::string(1001, 'x'))}),
            WriteRequest(5, 5, {CreateOp("not a path")}), WriteRequest(6, 6, {CreateOp("/a")}),
            WriteRequest(7, 0, {CreateOp("/b")})});
  REQUIRE(response.items_size() == 7);
  const std::vector<v1::ErrorCode> expected = {
      v1::ERROR_CODE_BAD_ARGUMENTS, v1::ERROR_CODE_BAD_ARGUMENTS, v1::ERROR_CODE_BAD_ARGUMENTS,
      v1::ERROR_CODE_TOO_LARGE,     v1::ERROR_CODE_BAD_ARGUMENTS, v1::ERROR_CODE_UNSPECIFIED,
      v1::ERROR_CODE_BAD_ARGUMENTS};
  for (int i = 0; i < 7; ++i) {
    INFO(i);
    CHECK(response.items(i).response().error() == expected[static_cast<size_t>(i)]);
    CHECK(response.items(i).response().data_bytes_max() == (i == 3 ? 1000 : 0));
  }
}

TEST_CASE("a create has a TTL if and only if its mode has one, and the TTL is a valid duration") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  uint64_t sequence = 0;
  const auto error = [&](v1::CreateMode mode, int64_t seconds, int32_t nanos) {
    v1::Operation create = CreateOp("/t-", "", mode);
    create.mutable_create()->mutable_ttl()->set_seconds(seconds);
    create.mutable_create()->mutable_ttl()->set_nanos(nanos);
    ++sequence;
    return f.CallOne(tag, WriteRequest(sequence, sequence, {create})).error();
  };
  constexpr auto kTtl = v1::CREATE_MODE_PERSISTENT_SEQUENTIAL_WITH_TTL;
  CHECK(error(kTtl, 1, 0) == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(error(kTtl, 0, 1'999'999) == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(error(kTtl, 0, 999'999) == v1::ERROR_CODE_BAD_ARGUMENTS);  // 0 ms
  CHECK(error(kTtl, 0, 0) == v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(error(kTtl, -1, 0) == v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(error(kTtl, INT64_MAX, 0) == v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(error(kTtl, 1, -1) == v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(error(v1::CREATE_MODE_PERSISTENT_SEQUENTIAL, 1, 0) == v1::ERROR_CODE_BAD_ARGUMENTS);
  // An unspecified mode is that of a persistent znode.
  const v1::Request plain =
      WriteRequest(9, 9, {CreateOp("/plain", "", v1::CREATE_MODE_UNSPECIFIED)});
  const v1::Response created = f.CallOne(tag, plain);
  CHECK(created.error() == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(created.write().results(0).path() == "/plain");
  CHECK(created.write().results(0).stat().ephemeral_session() == 0);
}

TEST_CASE("a timeout that is not a valid duration ends the stream") {
  Fixture f;
  const uint32_t tag = f.transport.Open(Method::kSession);
  v1::SessionRequest message = OpenMessage();
  message.mutable_open()->mutable_timeout()->set_nanos(-1'000'000'000);
  f.Send(tag, message);
  f.Settle();
  CHECK(f.CodeOf(tag) == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("a failed transaction tells which of its operations failed") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  const v1::Response response =
      f.CallOne(tag, WriteRequest(1, 1, {CreateOp("/a"), SetOp("/none", ""), CreateOp("/b")}));
  CHECK(response.error() == v1::ERROR_CODE_NO_NODE);
  REQUIRE(response.write().results_size() == 3);
  CHECK(response.write().results(0).error() == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(response.write().results(1).error() == v1::ERROR_CODE_NO_NODE);
  CHECK(response.write().results(2).error() == v1::ERROR_CODE_NOT_ATTEMPTED);
  CHECK(f.CallOne(tag, GetRequestOf(2, "/a")).error() == v1::ERROR_CODE_NO_NODE);
}

TEST_CASE("a write that not all members understand is refused, and uses up its number") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  const v1::Response created = f.CallOne(tag, WriteRequest(1, 1, {CreateOp("/a")}));
  const int64_t zxid = created.write().results(0).stat().created_zxid();
  f.service.version = tree::kVersionCheckCreated - 1;
  const auto write = WriteRequest(2, 2, {CheckCreatedOp("/a", zxid), SetOp("/a", "new")});
  CHECK(f.CallOne(tag, write).error() == v1::ERROR_CODE_UNIMPLEMENTED);
  CHECK(f.CallOne(tag, GetRequestOf(3, "/a")).get().data() == "");
  CHECK(f.CallOne(tag, WriteRequest(4, 3, {SetOp("/a", "old")})).error() ==
        v1::ERROR_CODE_UNSPECIFIED);
  f.service.version = tree::kVersionCheckCreated;
  // A repeated write is not executed. Only the fact that it was refused is kept, not the reason.
  CHECK(f.CallOne(tag, write).error() == v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(f.CallOne(tag, GetRequestOf(5, "/a")).get().data() == "old");
}

TEST_CASE("a repeated refused write gets the same reason, whatever has changed") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  f.CallOne(tag, WriteRequest(1, 1, {CreateOp("/a")}));
  const bool is_kept = GENERATE(true, false);
  if (!is_kept) f.service.version = tree::kVersionCheckCreated - 1;
  f.service.is_refusing_data = true;
  const auto write = WriteRequest(2, 2, {SetOp("/a", "new"), SetOp("/a", "newer")});
  CHECK(f.CallOne(tag, write).error() == v1::ERROR_CODE_NO_SPACE);
  f.service.is_refusing_data = false;
  const v1::Response again = f.CallOne(tag, write);
  CHECK(again.error() == (is_kept ? v1::ERROR_CODE_NO_SPACE : v1::ERROR_CODE_BAD_ARGUMENTS));
  CHECK(f.CallOne(tag, WriteRequest(3, 3, {SetOp("/a", "next")})).error() ==
        v1::ERROR_CODE_UNSPECIFIED);
  CHECK(f.CallOne(tag, GetRequestOf(4, "/a")).get().data() == "next");
}

TEST_CASE("a check of the creation fails for a recreated znode") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  const auto make = [](uint64_t sequence) {
    return WriteRequest(1, sequence, {CreateOp("/a", "", v1::CREATE_MODE_EPHEMERAL)});
  };
  const int64_t first = f.CallOne(tag, make(1)).write().results(0).stat().created_zxid();
  f.CallOne(tag, WriteRequest(2, 2, {DeleteOp("/a")}));
  const int64_t second = f.CallOne(tag, make(3)).write().results(0).stat().created_zxid();
  REQUIRE(first != second);
  const v1::Response refused =
      f.CallOne(tag, WriteRequest(4, 4, {CheckCreatedOp("/a", first), SetOp("/a", "x")}));
  CHECK(refused.error() == v1::ERROR_CODE_BAD_VERSION);
  CHECK(refused.write().results(0).error() == v1::ERROR_CODE_BAD_VERSION);
  const v1::Response done =
      f.CallOne(tag, WriteRequest(5, 5, {CheckCreatedOp("/a", second), SetOp("/a", "x")}));
  CHECK(done.error() == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(done.write().results(0).ByteSizeLong() == 0);
  CHECK(f.CallOne(tag, WriteRequest(6, 6, {CheckCreatedOp("/none", 1)})).error() ==
        v1::ERROR_CODE_NO_NODE);
}

TEST_CASE("a check of the version fails for another version") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  f.CallOne(tag, WriteRequest(1, 1, {CreateOp("/a")}));
  f.CallOne(tag, WriteRequest(2, 2, {SetOp("/a", "one")}));
  for (const int32_t version : {0, 2}) {
    const auto sequence = static_cast<uint64_t>(3 + version / 2);
    const v1::Response refused = f.CallOne(
        tag, WriteRequest(3, sequence, {CheckVersionOp("/a", version), SetOp("/a", "two")}));
    CHECK(refused.error() == v1::ERROR_CODE_BAD_VERSION);
    CHECK(refused.write().results(0).error() == v1::ERROR_CODE_BAD_VERSION);
    CHECK(refused.write().results(1).error() == v1::ERROR_CODE_NOT_ATTEMPTED);
  }
  CHECK(f.CallOne(tag, WriteRequest(4, 5, {CheckVersionOp("/none", 0)})).error() ==
        v1::ERROR_CODE_NO_NODE);
  CHECK(f.CallOne(tag, GetRequestOf(5, "/a")).get().data() == "one");
  const v1::Response done =
      f.CallOne(tag, WriteRequest(6, 6, {CheckVersionOp("/a", 1), SetOp("/a", "two")}));
  CHECK(done.error() == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(f.CallOne(tag, GetRequestOf(7, "/a")).get().data() == "two");
}

TEST_CASE("transactions with conditions and recursive deletes") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  v1::Operation absent;
  absent.mutable_check()->set_path("/a");
  absent.mutable_check()->set_absent(true);
  CHECK(f.CallOne(tag, WriteRequest(1, 1, {absent, CreateOp("/a"), CreateOp("/a/b")})).error() ==
        v1::ERROR_CODE_UNSPECIFIED);
  CHECK(f.CallOne(tag, WriteRequest(2, 2, {absent})).error() == v1::ERROR_CODE_NODE_EXISTS);
  CHECK(f.CallOne(tag, WriteRequest(3, 3, {DeleteOp("/a")})).error() == v1::ERROR_CODE_NOT_EMPTY);
  const v1::Response removed = f.CallOne(tag, WriteRequest(4, 4, {DeleteOp("/a", true)}));
  CHECK(removed.error() == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(removed.write().results(0).removed() == 2);
}

// --- Opening and ending --------------------------------------------------------------------------

TEST_CASE("a session that moves to another stream ends the first one") {
  Fixture f;
  v1::SessionOpened opened;
  const uint32_t first = f.OpenSession(&opened);
  const uint32_t second = f.OpenSession(&opened, opened.session_id());
  CHECK(f.CodeOf(first) == absl::StatusCode::kAborted);
  CHECK(f.CallOne(second, WriteRequest(1, 1, {CreateOp("/a")})).error() ==
        v1::ERROR_CODE_UNSPECIFIED);
  CHECK(f.service.ReadTree()->session_count() == 1);
}

TEST_CASE("a session moves between the front ends") {
  Fixture f;
  zk::ZkFrontend zk_frontend(f.config, &f.service, &f.clock, &f.random);
  zk::ManualSockets sockets;
  zk::ConnectionLoop zk_loop(&zk_frontend, &sockets);
  sockets.SetLoop(&zk_loop);
  Frontends frontends({{&zk_frontend, kZooKeeperTags}, {&f.frontend, kNativeTags}}, &f.history);
  f.listener = &frontends;
  v1::SessionOpened opened;
  const uint32_t tag = f.OpenSession(&opened);
  f.CallOne(tag, WriteRequest(1, 1, {CreateOp("/e", "", v1::CREATE_MODE_EPHEMERAL)}));

  const uint32_t connection = *sockets.Connect();
  zk::ConnectPacketOptions options;
  options.session = opened.session_id();
  options.password = kPassword;
  sockets.Write(connection, zk::ConnectPacket(options));
  sockets.RunIterations();
  f.Settle();
  sockets.RunIterations();
  CHECK(f.CodeOf(tag) == absl::StatusCode::kAborted);
  CHECK(sockets.open(connection));
  CHECK_FALSE(sockets.received(connection).empty());

  f.OpenSession(&opened, opened.session_id());
  sockets.RunIterations();
  CHECK_FALSE(sockets.open(connection));
  CHECK(f.service.ReadTree()->ephemeral_count() == 1);
}

TEST_CASE("a client whose session ends learns that in time") {
  Fixture f;
  v1::SessionOpened opened;
  const uint32_t tag = f.OpenSession(&opened);
  SECTION("the password is wrong") {
    const uint32_t other = f.transport.Open(Method::kSession);
    v1::SessionRequest message = OpenMessage(opened.session_id());
    message.mutable_open()->set_password("fedcba9876543210");
    const int64_t zxid = f.zxid();
    f.Send(other, message);
    f.Settle();
    CHECK(f.CodeOf(other) == absl::StatusCode::kUnauthenticated);
    CHECK_FALSE(f.transport.outcome(tag).has_value());
    CHECK(f.zxid() == zxid);  // it was rejected before the log
  }
  SECTION("the session does not exist") {
    const uint32_t other = f.transport.Open(Method::kSession);
    const int64_t zxid = f.zxid();
    f.Send(other, OpenMessage(opened.session_id() + 1));
    f.Settle();
    CHECK(f.CodeOf(other) == absl::StatusCode::kUnauthenticated);
    CHECK(f.zxid() == zxid);
  }
  SECTION("the session expires") {
    CommandBatch batch;
    tree::CommandHeader header;
    header.kind = tree::CommandKind::kExpireSession;
    header.proposer_tag = tag;
    header.session = tree::SessionId(opened.session_id());
    tree::SessionInfo info;
    REQUIRE(f.service.ReadTree()->FindSession(header.session, &info));
    header.attach_zxid = info.attach_zxid;
    header.proposer = f.service.proposer();
    tree::AppendCloseSession(header, batch.bytes.get());
    batch.commands.push_back({0, batch.bytes->size()});
    f.service.Submit(std::move(batch));
    f.Settle();
    CHECK(f.CodeOf(tag) == absl::StatusCode::kUnauthenticated);
  }
  SECTION("the member has not heard from a leader") {
    f.service.current.leader_contact_age_ms = 60'000;
    f.Pass(50);
    CHECK(f.CodeOf(tag) == absl::StatusCode::kUnavailable);
  }
  SECTION("the tree was replaced") {
    f.service.ReplaceTree(&f.frontends);
    f.frontend.OnBatchApplied();
    f.Settle();
    CHECK(f.CodeOf(tag) == absl::StatusCode::kUnavailable);
  }
}

TEST_CASE("a close ends the session, its ephemerals and, after the answer, the stream") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  v1::Request close;
  close.set_id(9);
  close.mutable_close();
  const v1::SessionResponse response =
      f.Call(tag, {WriteRequest(1, 1, {CreateOp("/e", "", v1::CREATE_MODE_EPHEMERAL)}), close});
  CHECK(IdsOf(response) == std::vector<uint64_t>{1, 9});
  CHECK(f.CodeOf(tag) == absl::StatusCode::kOk);
  CHECK(f.service.ReadTree()->session_count() == 0);
  CHECK(f.service.ReadTree()->ephemeral_count() == 0);
  CHECK(f.loop.client_count() == 0);
}

TEST_CASE("a client that half-closes gets its responses, and keeps its session") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  f.Send(tag, MessageOf({WriteRequest(1, 1, {CreateOp("/a")}), GetRequestOf(2, "/a")}));
  f.transport.HalfClose(tag);
  f.Settle();
  CHECK(IdsOf(f.Received(tag)) == std::vector<uint64_t>{1, 2});
  CHECK(f.CodeOf(tag) == absl::StatusCode::kOk);
  CHECK(f.service.ReadTree()->session_count() == 1);
}

TEST_CASE("opening waits for the zxid that the client has seen, and then fails") {
  Fixture f;
  f.Change(CreateOp("/a"));
  const uint32_t tag = f.transport.Open(Method::kSession);
  v1::SessionRequest message = OpenMessage();
  message.mutable_open()->set_last_zxid(f.zxid() + 1);
  f.Send(tag, message);
  f.Settle();
  CHECK(f.Received(tag).opened().session_id() == 0);
  SECTION("the member catches up") {
    f.Change(SetOp("/a", ""));
    f.Pass(50);
    CHECK(f.Received(tag).opened().session_id() != 0);
  }
  SECTION("the member does not catch up") {
    f.Pass(2001);
    CHECK(f.CodeOf(tag) == absl::StatusCode::kUnavailable);
  }
}

TEST_CASE("sessions that send messages are reported to the leader") {
  Fixture f;
  v1::SessionOpened opened;
  const uint32_t tag = f.OpenSession(&opened);
  f.Pass(1000);
  REQUIRE(f.service.touches.size() == 1);
  CHECK(f.service.touches[0] == std::vector<int64_t>{opened.session_id()});
  f.Pass(1000);
  CHECK(f.service.touches.size() == 1);
  f.Send(tag, {});
  f.Settle();
  f.Pass(1000);
  CHECK(f.service.touches.size() == 2);
  // The touch is sent even if the stream breaks before the next touch period.
  f.Send(tag, {});
  f.Settle();
  f.transport.Cancel(tag);
  f.Settle();
  REQUIRE(f.service.touches.size() == 3);
  CHECK(f.service.touches[2] == std::vector<int64_t>{opened.session_id()});
}

TEST_CASE("an invalid message, or a timeout, ends the stream with the reason") {
  Fixture f;
  const uint32_t fresh = f.transport.Open(Method::kSession);
  const uint32_t up = f.OpenSession();
  // The status and its detail have the same error.
  const auto error_of = [&](uint32_t tag) {
    const v1::ErrorCode error = DetailOf(*f.transport.outcome(tag)).code();
    CHECK(f.CodeOf(tag) == v1::CodeOf(error));
    return error;
  };
  SECTION("not a message") {
    f.transport.Write(up, "\xFF\xFF\xFF");
    f.Settle();
    CHECK(error_of(up) == v1::ERROR_CODE_BAD_ARGUMENTS);
  }
  SECTION("no open") {
    f.Send(fresh, MessageOf({GetRequestOf(1, "/")}));
    f.Settle();
    CHECK(error_of(fresh) == v1::ERROR_CODE_BAD_ARGUMENTS);
  }
  SECTION("two opens") {
    f.Send(up, OpenMessage());
    f.Settle();
    CHECK(error_of(up) == v1::ERROR_CODE_BAD_ARGUMENTS);
  }
  SECTION("no message") {
    f.transport.HalfClose(fresh);
    f.Settle();
    CHECK(error_of(fresh) == v1::ERROR_CODE_BAD_ARGUMENTS);
  }
  SECTION("no message for a long time") {
    f.Pass(30'001);
    CHECK(error_of(fresh) == v1::ERROR_CODE_NO_REQUEST);
    CHECK(f.CodeOf(fresh) == absl::StatusCode::kDeadlineExceeded);
  }
  SECTION("a short password") {
    v1::SessionRequest message = OpenMessage();
    message.mutable_open()->set_password("short");
    f.Send(fresh, message);
    f.Settle();
    CHECK(error_of(fresh) == v1::ERROR_CODE_BAD_ARGUMENTS);
    CHECK(f.CodeOf(fresh) == absl::StatusCode::kInvalidArgument);
  }
  SECTION("more requests than a message may have") {
    v1::SessionRequest message;
    for (size_t i = 0; i <= SessionStream::kMessageRequestsMax; ++i) message.add_requests();
    f.Send(up, message);
    f.Settle();
    CHECK(error_of(up) == v1::ERROR_CODE_BAD_ARGUMENTS);
  }
  SECTION("a tree that was replaced") {
    f.service.ReplaceTree(&f.frontends);
    f.frontend.OnBatchApplied();
    f.Settle();
    CHECK(error_of(up) == v1::ERROR_CODE_UNAVAILABLE);
  }
  SECTION("a request without a kind gets an error response") {
    v1::Request request;
    request.set_id(4);
    CHECK(f.CallOne(up, request).error() == v1::ERROR_CODE_BAD_ARGUMENTS);
  }
}

// --- Identities ----------------------------------------------------------------------------------

TEST_CASE("a credential is in effect for the requests after it") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  v1::Operation create = CreateOp("/mine", "secret");
  v1::Acl* acl = create.mutable_create()->add_acl();
  acl->set_permissions(31);
  acl->set_scheme("auth");
  v1::Request add;
  add.set_id(2);
  add.mutable_add_credential()->set_scheme("digest");
  add.mutable_add_credential()->set_secret("alice:wonder");
  v1::Request who;
  who.set_id(4);
  who.mutable_who_am_i();
  v1::SessionResponse response =
      f.Call(tag, {WriteRequest(1, 1, {create}), add, WriteRequest(3, 2, {create}), who});
  REQUIRE(response.items_size() == 4);
  CHECK(response.items(0).response().error() == v1::ERROR_CODE_INVALID_ACL);
  CHECK(response.items(1).response().error() == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(response.items(2).response().error() == v1::ERROR_CODE_UNSPECIFIED);
  const auto& identities = response.items(3).response().who_am_i().identities();
  REQUIRE(identities.size() == 2);
  CHECK(identities[0].scheme() == "ip");
  CHECK(identities[0].id() == "10.0.0.1");
  CHECK(identities[1].id() == "alice");
  CHECK(f.CallOne(tag, GetRequestOf(5, "/mine")).get().data() == "secret");

  const uint32_t other = f.OpenSession();
  const v1::SessionResponse refused =
      f.Call(other, {GetRequestOf(1, "/mine"), add, GetRequestOf(3, "/mine")});
  REQUIRE(refused.items_size() == 3);
  CHECK(refused.items(0).response().error() == v1::ERROR_CODE_NO_AUTH);
  CHECK(refused.items(2).response().get().data() == "secret");
  add.mutable_add_credential()->set_scheme("kerberos");
  CHECK(f.CallOne(other, add).error() == v1::ERROR_CODE_AUTH_FAILED);
}

TEST_CASE("WhoAmI shows everything that the client has proved") {
  Config config = TestConfig();
  config.super_digest = DigestId("super:secret");
  Fixture f(config);
  CallerProof proof = Fixture::Digests({"alice:wonder", "bob:builder"});
  proof.principal.subject = "CN=alice";
  proof.principal.token = "ops";
  proof.principal.is_super = true;
  const uint32_t tag = f.transport.Open(Method::kSession, std::move(proof));
  f.Send(tag, OpenMessage());
  f.Settle();
  REQUIRE(f.Received(tag).has_opened());
  v1::Request add;
  add.mutable_add_credential()->set_scheme("digest");
  add.mutable_add_credential()->set_secret("carol:x");
  REQUIRE(f.CallOne(tag, add).error() == v1::ERROR_CODE_UNSPECIFIED);
  v1::Request who;
  who.mutable_who_am_i();
  std::string text;
  const v1::Response response = f.CallOne(tag, who);
  for (const auto& identity : response.who_am_i().identities()) {
    text += identity.scheme() + ":" + identity.id() + " ";
  }
  CHECK(text ==
        "ip:10.0.0.1 x509:CN=alice super: digest:super digest:alice digest:bob digest:carol "
        "token:ops ");
}

TEST_CASE("the subject of a client's certificate is an identity") {
  Config config = TestConfig();
  config.x509_super_user = "CN=admin";
  Fixture f(config);
  const auto identities_of = [&](const std::string& subject) {
    const uint32_t tag = f.transport.Open(Method::kSession, "10.0.0.1", subject);
    f.Send(tag, OpenMessage());
    f.Settle();
    REQUIRE(f.Received(tag).has_opened());
    v1::Request who;
    who.mutable_who_am_i();
    std::string text;
    const v1::Response response = f.CallOne(tag, who);
    for (const auto& identity : response.who_am_i().identities()) {
      text += identity.scheme() + ":" + identity.id() + " ";
    }
    return text;
  };
  CHECK(identities_of("CN=alice") == "ip:10.0.0.1 x509:CN=alice ");
  CHECK(identities_of("CN=admin") == "ip:10.0.0.1 super: x509:CN=admin ");
  const uint32_t refused = f.transport.Open(Method::kGet, "10.0.0.1", std::string(100'000, 'x'));
  f.transport.Write(refused, v1::GetRequest().SerializeAsString());
  f.Settle();
  REQUIRE(f.transport.outcome(refused).has_value());
  CHECK(f.transport.outcome(refused)->code() == absl::StatusCode::kUnauthenticated);
}

TEST_CASE("streams are limited by address") {
  Config config = TestConfig();
  config.max_client_connections = 2;
  Fixture f(config);
  f.transport.Open(Method::kSession, "10.0.0.1");
  const uint32_t second = f.transport.Open(Method::kSession, "10.0.0.1");
  // Calls and watches count too.
  for (const Method method : {Method::kSession, Method::kWatch, Method::kGet}) {
    const uint32_t refused = f.transport.Open(method, "10.0.0.1");
    CHECK(f.CodeOf(refused) == absl::StatusCode::kResourceExhausted);
    CHECK(DetailOf(*f.transport.outcome(refused)).code() == v1::ERROR_CODE_TOO_MANY_STREAMS);
  }
  CHECK_FALSE(f.transport.outcome(f.transport.Open(Method::kSession, "10.0.0.2")).has_value());
  f.transport.Cancel(second);
  CHECK_FALSE(f.transport.outcome(f.transport.Open(Method::kSession, "10.0.0.1")).has_value());
}

TEST_CASE("the number of all streams is limited") {
  Config config = TestConfig();
  config.max_connections = 1;
  Fixture f(config);
  f.transport.Open(Method::kSession, "10.0.0.1");
  const uint32_t refused = f.transport.Open(Method::kGet, "10.0.0.2");
  CHECK(f.CodeOf(refused) == absl::StatusCode::kResourceExhausted);
  CHECK(DetailOf(*f.transport.outcome(refused)).code() == v1::ERROR_CODE_TOO_MANY_STREAMS);
}

TEST_CASE("a congested server stops reading from clients that wait for writes") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  f.service.is_congested = true;
  f.Send(tag, MessageOf({WriteRequest(1, 1, {CreateOp("/a")})}));
  f.transport.RunIterations();
  CHECK_FALSE(f.transport.receiving(tag));
  f.service.is_congested = false;
  f.Settle();
  CHECK(f.transport.receiving(tag));
}

TEST_CASE("a session that a congested server does not read from does not count as silent") {
  Fixture f;
  v1::SessionOpened opened;
  const uint32_t tag = f.OpenSession(&opened);
  f.Pass(200);
  f.service.touches.clear();
  f.Pass(200);
  CHECK(f.service.touches.empty());
  f.service.is_congested = true;
  f.Send(tag, MessageOf({WriteRequest(1, 1, {CreateOp("/a")})}));
  f.transport.RunIterations();
  for (size_t periods = 1; periods < 4; ++periods) {
    f.clock.Advance(200);  // without applying anything
    f.loop.OnTimer();
    REQUIRE(f.service.touches.size() == periods);
    CHECK(f.service.touches.back() == std::vector<int64_t>{opened.session_id()});
  }
}

TEST_CASE("the watches of a session's stream are dropped in pieces when it ends") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  constexpr uint64_t kWatches = 20'000;
  for (uint64_t begin = 0; begin < kWatches; begin += 1000) {
    std::vector<v1::Request> requests;
    for (uint64_t id = begin + 1; id <= begin + 1000; ++id) {
      requests.push_back(WatchRequestOf(id, id, "/n" + std::to_string(id), v1::WATCH_SCOPE_NODE));
    }
    REQUIRE(f.Call(tag, requests).items_size() == 1000);
  }
  CHECK(f.frontend.watch_totals().count == kWatches);
  CHECK(f.frontend.watch_totals().bytes > kWatches * 100);
  const size_t locked = f.service.tree_reads;
  f.transport.Cancel(tag);
  CHECK(f.service.tree_reads - locked >= kWatches / kNodesPerHold);
  CHECK(f.loop.longest_hold() <= 2 * kNodesPerHold);
  CHECK(f.frontend.watch_totals().count == 0);
  CHECK(f.frontend.watch_totals().bytes == 0);
}

TEST_CASE("requests held by a session count with their size in memory until they are answered") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  MemoryBudget& memory = f.service.memory();
  CHECK(memory.used(MemoryUse::kRequests) == 0);
  std::vector<v1::Request> requests;
  for (uint64_t id = 1; id <= 10; ++id) {
    requests.push_back(WriteRequest(id, id, {CreateOp("/n" + std::to_string(id))}));
  }
  v1::Request sync;
  sync.set_id(11);
  sync.mutable_sync();
  requests.push_back(sync);
  for (uint64_t id = 12; id <= 20; ++id) {
    requests.push_back(GetRequestOf(id, "/" + std::string(10'000, 'n')));
  }
  f.Send(tag, MessageOf(requests));
  f.transport.RunIterations();
  CHECK(memory.used(MemoryUse::kRequests) > 9 * 10'000);
  f.Settle();
  CHECK(f.Received(tag).items_size() == 20);
  CHECK(memory.used(MemoryUse::kRequests) == 0);
  f.Send(tag, MessageOf(requests));
  f.transport.RunIterations();
  CHECK(memory.used(MemoryUse::kRequests) > 0);
  f.transport.Cancel(tag);
  f.Settle();
  CHECK(memory.used(MemoryUse::kRequests) == 0);
}

TEST_CASE("events may arrive while the watches of a stream are being dropped") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  std::vector<v1::Request> requests;
  for (uint64_t id = 1; id <= 4000; ++id) {
    requests.push_back(WatchRequestOf(id, id, "/n" + std::to_string(id), v1::WATCH_SCOPE_NODE));
  }
  REQUIRE(f.Call(tag, requests).items_size() == 4000);
  for (uint64_t id = 1; id <= 4000; id += 500) {
    v1::TxnRequest change;
    *change.add_operations() = CreateOp("/n" + std::to_string(id));
    f.transport.Write(f.transport.Open(Method::kTxn), change.SerializeAsString());
  }
  f.transport.RunIterations();
  f.service.Apply(&f.frontends);  // the events wait in the inbox
  f.transport.Cancel(tag);
  f.Settle();
  CHECK(f.Received(tag).items().empty());
  CHECK(f.loop.client_count() == 0);
  CHECK(f.service.memory().used(MemoryUse::kUnsent) == 0);
}

TEST_CASE("sessions whose loop is delayed are reported while the delay lasts") {
  Fixture f;
  v1::SessionOpened opened;
  f.OpenSession(&opened);
  f.clock.Advance(600);
  CHECK(f.frontend.HeldUpSessions().empty());
  f.clock.Advance(1);
  CHECK(f.frontend.HeldUpSessions() == std::vector<int64_t>{opened.session_id()});
  f.loop.OnTimer();
  CHECK(f.frontend.HeldUpSessions().empty());
}

TEST_CASE("a pending read of a session is not answered from a snapshot that replaces the tree") {
  Fixture f;
  const uint32_t tag = f.OpenSession();
  f.Change(CreateOp("/a"));
  f.Call(tag, {WatchRequestOf(1, 1, "/a", v1::WATCH_SCOPE_NODE)});
  const int64_t seen = f.zxid();
  v1::TxnRequest change;
  *change.add_operations() = SetOp("/a", "1");
  f.transport.Write(f.transport.Open(Method::kTxn), change.SerializeAsString());
  f.transport.RunIterations();
  f.service.ReplaceTree(&f.frontends);
  f.Send(tag, MessageOf({GetRequestOf(2, "/a")}));
  f.Settle();
  const v1::SessionResponse received = f.Received(tag);
  CHECK(received.items().empty());
  CHECK(received.zxid() <= seen);
  CHECK(f.CodeOf(tag) == absl::StatusCode::kUnavailable);
}

TEST_CASE("a write of a session that is refused is recorded in the audit log") {
  Fixture f;
  RecordedAudit audit;
  f.frontend.SetRequestAudit(audit.requests());
  const uint32_t tag = f.OpenSession();
  f.service.is_refusing_data = true;
  f.Send(tag, MessageOf({WriteRequest(1, 1, {CreateOp("/a")})}));
  f.Settle();
  const std::vector<std::string> lines = audit.Lines();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("session=0x"));
  CHECK(
      lines[0].ends_with(" user=10.0.0.1 ip=10.0.0.1 operation=create znode=/a "
                         "znode_type=persistent result=failure"));
  v1::Request request;
  request.set_id(2);
  request.mutable_add_credential()->set_scheme("x509");
  f.Send(tag, MessageOf({request}));
  f.Settle();
  const std::vector<std::string> failed = audit.Lines();
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].ends_with("operation=authenticate detail=x509 result=failure"));
}

TEST_CASE("a write that is refused when it is sent again, but was applied before, is no failure") {
  Fixture f;
  RecordedAudit audit;
  f.frontend.SetRequestAudit(audit.requests());
  v1::SessionOpened opened;
  const uint32_t first = f.OpenSession(&opened);
  const auto write = WriteRequest(1, 1, {CreateOp("/a")});
  REQUIRE(f.CallOne(first, write).error() == v1::ERROR_CODE_UNSPECIFIED);
  f.transport.Cancel(first);
  f.service.is_refusing_data = true;
  const uint32_t second = f.OpenSession(&opened, opened.session_id());
  CHECK(f.CallOne(second, write).error() ==
        v1::ERROR_CODE_UNSPECIFIED);  // the response from before
  for (const std::string& line : audit.Lines()) CHECK_FALSE(line.ends_with("result=failure"));
  CHECK(f.CallOne(second, WriteRequest(2, 2, {CreateOp("/b")})).error() == v1::ERROR_CODE_NO_SPACE);
  const std::vector<std::string> lines = audit.Lines();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].ends_with("operation=create znode=/b znode_type=persistent result=failure"));
}

TEST_CASE("a refused write is recorded even if its stream ends before its result") {
  Fixture f;
  RecordedAudit audit;
  f.frontend.SetRequestAudit(audit.requests());
  const uint32_t tag = f.OpenSession();
  f.service.is_refusing_data = true;
  f.Send(tag, MessageOf({WriteRequest(1, 1, {CreateOp("/a")})}));
  f.transport.RunIterations();
  CHECK(audit.Lines().empty());
  f.transport.Cancel(tag);
  f.Settle();
  const std::vector<std::string> lines = audit.Lines();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].ends_with("operation=create znode=/a znode_type=persistent result=failure"));
}

}  // namespace
}  // namespace quorate::rpc::native
