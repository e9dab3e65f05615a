// SPDX-License-Identifier: Apache-2.0

// Tests of the form in which the client sends the operations of ClickHouse Keeper.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>

#include "client/client.h"
#include "client/scripted_server.h"

namespace quorate {
namespace {

std::unique_ptr<Client> Connect(const std::string& servers) {
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect({.servers = servers});
  INFO(client.status().ToString());
  REQUIRE(client.ok());
  return *std::move(client);
}

// Returns an operation in the form that it has in a request, below the chroot /app.
v1::Operation Requested(const Transaction& transaction) {
  v1::Operation requested;
  ScriptedServer server({.refuses = [&](const v1::Request::Write& write) {
    requested = write.operations(0);
    return v1::UNIMPLEMENTED;
  }});
  auto client = Connect(server.address() + "/app");
  const absl::Status status = client->Commit(transaction).status();
  CHECK(status.code() == absl::StatusCode::kUnimplemented);
  CHECK(ErrorOf(status) == ErrorCode::kUnimplemented);
  CHECK(std::string(status.message()).find(" /app/a: ") != std::string::npos);
  return requested;
}

}  // namespace

TEST_CASE("each write of ClickHouse Keeper is sent with all its conditions") {
  v1::Operation operation = Requested(Transaction().CheckNotExists("/a", 3));
  CHECK(operation.check_not_exists().path() == "/app/a");
  CHECK(operation.check_not_exists().version() == 3);
  CHECK_FALSE(Requested(Transaction().CheckNotExists("/a")).check_not_exists().has_version());

  operation = Requested(Transaction().CreateIfNotExists("/a", "data", CreateMode::kEphemeral,
                                                        {{kPermissionRead, "world", "anyone"}}));
  const v1::Operation::Create& create = operation.create_if_not_exists();
  CHECK(create.path() == "/app/a");
  CHECK(create.data() == "data");
  CHECK(create.mode() == v1::EPHEMERAL);
  REQUIRE(create.acl_size() == 1);
  CHECK(create.acl(0).permissions() == kPermissionRead);

  operation = Requested(Transaction().RemoveRecursive("/a", 0));
  CHECK(operation.remove_recursive().path() == "/app/a");
  CHECK(operation.remove_recursive().has_limit());
  CHECK_FALSE(Requested(Transaction().RemoveRecursive("/a")).remove_recursive().has_limit());

  operation = Requested(Transaction().TryRemove("/a", 4));
  CHECK(operation.try_remove().path() == "/app/a");
  CHECK(operation.try_remove().version() == 4);
  CHECK_FALSE(Requested(Transaction().TryRemove("/a")).try_remove().has_version());

  operation = Requested(Transaction().CheckStat("/a", {.created_zxid = 1,
                                                       .modified_zxid = 2,
                                                       .children_modified_zxid = 3,
                                                       .created_ms = 4,
                                                       .modified_ms = 5,
                                                       .version = 6,
                                                       .children_version = 7,
                                                       .acl_version = 8,
                                                       .ephemeral_session = 0,
                                                       .data_bytes = 10,
                                                       .children = 11}));
  CHECK(operation.check_stat().ShortDebugString() ==
        "path: \"/app/a\" created_zxid: 1 modified_zxid: 2 children_modified_zxid: 3 "
        "created_ms: 4 modified_ms: 5 version: 6 children_version: 7 acl_version: 8 "
        "ephemeral_session: 0 data_bytes: 10 children: 11");
  CHECK(Requested(Transaction().CheckStat("/a", {})).check_stat().ShortDebugString() ==
        "path: \"/app/a\"");
}

TEST_CASE("a path that no server would accept is refused before it is sent") {
  ScriptedServer server({});
  auto client = Connect(server.address());
  CHECK(client->CreateIfNotExists("a").status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(client->RemoveRecursive("a/").status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(client->TryRemove("").status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(client->Commit(Transaction().CheckNotExists("//")).status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(client->Commit(Transaction().CheckStat("a", {})).status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(server.changes().empty());
}

}  // namespace quorate
