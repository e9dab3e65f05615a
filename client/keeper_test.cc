// SPDX-License-Identifier: Apache-2.0

// Tests of the form in which the client sends the operations of ClickHouse Keeper.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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
    return v1::ERROR_CODE_UNIMPLEMENTED;
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
  CHECK(create.mode() == v1::CREATE_MODE_EPHEMERAL);
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

TEST_CASE("a list is requested with its details, and returns what the server has sent") {
  v1::Request asked;
  bool is_old = false;
  ScriptedServer server({.at_answer = [&](const v1::Request& request, v1::Response* response) {
    if (!request.has_list()) return;
    asked = request;
    v1::ListResult* list = response->mutable_list();
    response->clear_error();
    response->set_zxid(900);
    list->Clear();
    list->add_children("a");
    list->add_children("b");
    if (is_old) return;
    list->set_watch_after_zxid(700);
    for (int i = 0; i < 2; ++i) {
      if (request.list().with_stats()) list->add_child_stats()->set_version(i + 5);
      if (request.list().with_data()) list->add_child_data("data " + std::to_string(i));
    }
  }});
  auto client = Connect(server.address() + "/app");
  auto all = client->List("/a", {.linearizable = true},
                          {.kind = ChildKind::kEphemeral, .with_stats = true, .with_data = true});
  REQUIRE(all.ok());
  CHECK(asked.list().ShortDebugString() ==
        "path: \"/app/a\" linearizable: true kind: CHILD_KIND_EPHEMERAL with_stats: true "
        "with_data: true");
  CHECK(all->children == std::vector<std::string>{"a", "b"});
  CHECK(all->child_data == std::vector<std::string>{"data 0", "data 1"});
  REQUIRE(all->child_stats.size() == 2);
  CHECK(all->child_stats[1].version == 6);
  CHECK(all->zxid == 700);
  auto plain = client->List("/a");
  REQUIRE(plain.ok());
  CHECK(asked.list().ShortDebugString() == "path: \"/app/a\"");
  CHECK(plain->child_stats.empty());
  CHECK(plain->child_data.empty());

  // A server that does not know the details sends all names alone.
  is_old = true;
  CHECK(client->List("/a")->zxid == 900);
  for (const ListDetails& details :
       {ListDetails{.with_stats = true}, ListDetails{.with_data = true}}) {
    const absl::Status status = client->List("/a", {}, details).status();
    CHECK(ErrorOf(status) == ErrorCode::kUnimplemented);
  }
}

TEST_CASE("a recursive list is requested with its maximum, and returns paths below the chroot") {
  v1::Request asked;
  ScriptedServer server({.at_answer = [&](const v1::Request& request, v1::Response* response) {
    if (!request.has_list_recursive()) return;
    asked = request;
    response->set_zxid(900);
    response->mutable_list_recursive()->add_paths("/app/a/b");
    response->mutable_list_recursive()->add_paths("/app/a/b/c");
    response->mutable_list_recursive()->set_watch_after_zxid(700);
  }});
  auto client = Connect(server.address() + "/app");
  auto paths = client->ListRecursive("/a", {.linearizable = true, .max = 0});
  REQUIRE(paths.ok());
  CHECK(asked.list_recursive().ShortDebugString() == "path: \"/app/a\" linearizable: true max: 0");
  CHECK(paths->paths == std::vector<std::string>{"/a/b", "/a/b/c"});
  CHECK(paths->zxid == 700);
  REQUIRE(client->ListRecursive("/a").ok());
  CHECK(asked.list_recursive().ShortDebugString() == "path: \"/app/a\"");
  CHECK(client->ListRecursive("a").status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace quorate
