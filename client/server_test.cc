// SPDX-License-Identifier: Apache-2.0

// Tests of the client with real servers.

#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/testing/server_fixture.h"

namespace quorate {
namespace {

using testing::ServerFixture;

std::unique_ptr<ServerFixture> StartServers(int members) {
  auto servers = ServerFixture::Start({.members = members});
  INFO(servers.status().ToString());
  REQUIRE(servers.ok());
  return *std::move(servers);
}

std::unique_ptr<Client> Connect(const ServerFixture& servers, ClientOptions options = {}) {
  options.servers = servers.servers();
  auto client = Client::Connect(std::move(options));
  INFO(client.status().ToString());
  REQUIRE(client.ok());
  return *std::move(client);
}

// Records which member serves a client, from session events.
class Attachment {
 public:
  void Tell(const SessionEvent& event) {
    std::lock_guard<std::mutex> lock(mutex_);
    server_ = event.server;
    changed_.notify_all();
  }
  std::string server() {
    std::lock_guard<std::mutex> lock(mutex_);
    return server_;
  }
  std::string WaitForOtherThan(const std::string& server) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20),
                      [&] { return !server_.empty() && server_ != server; });
    return server_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string server_;
};

int MemberAt(const ServerFixture& servers, const std::string& address) {
  for (int i = 1; i <= servers.members(); ++i) {
    if (servers.address(i) == address) return i;
  }
  FAIL("no member at " + address);
  return 0;
}

}  // namespace

TEST_CASE("each call works with a real server") {
  const auto servers = StartServers(1);
  auto client = Connect(*servers);

  auto created = client->Create("/a/b", "one", {.create_parents = true});
  REQUIRE(created.ok());
  CHECK(created->zxid == created->stat.created_zxid);
  CHECK(client->Get("/a/b")->data == "one");
  CHECK(client->Set("/a/b", "two", {.version = 0})->version == 1);
  CHECK(ErrorOf(client->Set("/a/b", "", {.version = 0}).status()) == ErrorCode::kBadVersion);
  CHECK(client->Get("/a/b", {.linearizable = true})->data == "two");
  CHECK(client->Exists("/a/b")->has_value());
  CHECK(!client->Exists("/none")->has_value());
  CHECK(client->List("/a")->children == std::vector<std::string>{"b"});
  CHECK(client->GetAcl("/a")->acl == std::vector<Acl>{Acl()});
  CHECK(ErrorOf(client->Delete("/a").status()) == ErrorCode::kNotEmpty);
  CHECK(*client->Delete("/a", {.recursive = true}) == 2);
  CHECK(client->Sync().ok());

  auto first = client->Create("/n-", "", {.mode = CreateMode::kPersistentSequential});
  CHECK(first->path == "/n-0000000001");
  const absl::Status failed =
      client->Commit(Transaction().CheckAbsent("/none").CheckExists("/none")).status();
  CHECK(ErrorOf(failed) == ErrorCode::kNoNode);
  CHECK(FailedOperationOf(failed) == 1);
  REQUIRE(ZxidOf(failed).has_value());
  CHECK(*ZxidOf(failed) > 0);
  CHECK_FALSE(ZxidOf(absl::CancelledError()).has_value());

  const int64_t created_zxid = client->Create("/a", "1")->stat.created_zxid;
  CHECK(client->Commit(Transaction().CheckCreated("/a", created_zxid).Set("/a", "2")).ok());
  REQUIRE(client->Delete("/a").ok());
  REQUIRE(client->Create("/a", "1").ok());
  const absl::Status other =
      client->Commit(Transaction().CheckCreated("/a", created_zxid).Set("/a", "2")).status();
  CHECK(ErrorOf(other) == ErrorCode::kBadVersion);
  CHECK(client->Get("/a")->data == "1");
}

TEST_CASE("the writes of ClickHouse Keeper work with a real server, below a chroot") {
  const auto servers = StartServers(1);
  REQUIRE(Connect(*servers)->Create("/app").ok());
  auto client = Client::Connect({.servers = servers->servers() + "/app"});
  REQUIRE(client.ok());
  Client& app = **client;
  auto created = app.CreateIfNotExists("/a/b", "one", {.create_parents = true});
  REQUIRE(created.ok());
  CHECK(created->path == "/a/b");
  REQUIRE(created->stat.has_value());
  CHECK(created->stat->created_zxid == created->zxid);
  auto existing = app.CreateIfNotExists("/a/b", "two", {.create_parents = true});
  REQUIRE(existing.ok());
  CHECK(existing->path == "/a/b");
  CHECK_FALSE(existing->stat.has_value());
  CHECK(app.Get("/a/b")->data == "one");
  CHECK(ErrorOf(app.CreateIfNotExists("/none/c").status()) == ErrorCode::kNoNode);

  CHECK(*app.TryRemove("/none") == false);
  CHECK(*app.TryRemove("/a") == false);
  CHECK(*app.TryRemove("/a/b", {.version = 1}) == false);
  CHECK(*app.TryRemove("/a/b", {.version = 0}) == true);
  CHECK(*app.RemoveRecursive("/none") == 0);
  REQUIRE(app.Create("/a/b").ok());
  CHECK(ErrorOf(app.RemoveRecursive("/a", {.limit = 1}).status()) == ErrorCode::kNotEmpty);
  CHECK(*app.RemoveRecursive("/a", {.limit = 2}) == 2);

  const Stat stat = app.Create("/a", "data")->stat;
  auto done = app.Commit(Transaction()
                             .CheckNotExists("/b")
                             .CheckNotExists("/a", 1)
                             .CheckStat("/a", {.created_zxid = stat.created_zxid, .data_bytes = 4})
                             .CreateIfNotExists("/a")
                             .CreateIfNotExists("/a/b")
                             .RemoveRecursive("/a")
                             .TryRemove("/a"));
  REQUIRE(done.ok());
  CHECK(done->results[3].path == "/a");
  CHECK(done->results[3].stat == Stat());
  CHECK(done->results[4].stat.created_zxid == done->zxid);
  CHECK(done->results[5].removed == 2);
  CHECK(done->results[6].removed == 0);
  REQUIRE(app.Create("/a").ok());
  const absl::Status other =
      app.Commit(Transaction().CheckStat("/a", {.created_zxid = stat.created_zxid})).status();
  CHECK(ErrorOf(other) == ErrorCode::kBadVersion);
  CHECK(ErrorOf(app.Commit(Transaction().CheckNotExists("/a")).status()) == ErrorCode::kNodeExists);
}

TEST_CASE("transactions with compares work with a real server, below a chroot") {
  const auto servers = StartServers(1);
  REQUIRE(Connect(*servers)->Create("/app").ok());
  auto connected = Client::Connect({.servers = servers->servers() + "/app"});
  REQUIRE(connected.ok());
  Client& app = **connected;
  const Transaction transaction = Transaction()
                                      .If(Compare::CreatedZxid("/a/b/c", 0))
                                      .CreateWithParents("/a/b/c", "1")
                                      .List("/a/b")
                                      .Else(Transaction().Get("/a/b/c").Exists("/none"));
  const auto first = app.Commit(transaction);
  REQUIRE(first.ok());
  CHECK(first->succeeded);
  REQUIRE(first->results.size() == 2);
  CHECK(first->results[0].path == "/a/b/c");
  CHECK(first->results[0].stat.created_zxid == first->zxid);
  CHECK(first->results[1].children == std::vector<std::string>{"c"});
  const auto second = app.Commit(transaction);
  REQUIRE(second.ok());
  CHECK_FALSE(second->succeeded);
  REQUIRE(second->results.size() == 2);
  CHECK(second->results[0].exists);
  CHECK(second->results[0].data == "1");
  CHECK(second->results[0].stat == first->results[0].stat);
  CHECK_FALSE(second->results[1].exists);

  const Stat stat = app.Set("/a/b/c", "5").value();
  const Compare kHolds[] = {
      Compare::Exists("/a"),
      Compare::Exists("/none", false),
      Compare::CreatedZxid("/a/b/c", first->zxid),
      Compare::ModifiedZxid("/a/b/c", stat.modified_zxid),
      Compare::ModifiedZxid("/a/b/c", stat.modified_zxid + 1, Relation::kLess),
      Compare::ChildrenModifiedZxid("/a/b", first->zxid),
      Compare::Version("/a/b/c", 0, Relation::kGreater),
      Compare::ChildrenVersion("/a/b", 1),
      Compare::AclVersion("/a", 1, Relation::kNotEqual),
      Compare::Data("/a/b/c", "5"),
      Compare::Data("/a/b/c", "49", Relation::kGreater),
  };
  for (const Compare& compare : kHolds) {
    CAPTURE(static_cast<int>(compare.target));
    CHECK(app.Commit(Transaction().If(compare))->succeeded);
    Compare other = compare;
    other.relation =
        compare.relation == Relation::kNotEqual ? Relation::kEqual : Relation::kNotEqual;
    if (compare.relation == Relation::kEqual || compare.relation == Relation::kNotEqual) {
      CHECK_FALSE(app.Commit(Transaction().If(other))->succeeded);
    }
  }

  const absl::Status otherwise = app.Commit(Transaction()
                                                .If(Compare::Exists("/none"))
                                                .Then(Transaction().Delete("/a"))
                                                .Else(Transaction().Exists("/a").Get("/none")))
                                     .status();
  CHECK(ErrorOf(otherwise) == ErrorCode::kNoNode);
  CHECK(FailedPartOf(otherwise) == TransactionPart::kElse);
  CHECK(FailedOperationOf(otherwise) == 1);
  const absl::Status compares =
      app.Commit(Transaction().If(Compare{"/a", Compare::Target::kExists, Relation::kLess, 1, {}}))
          .status();
  CHECK(ErrorOf(compares) == ErrorCode::kBadArguments);
  CHECK(FailedPartOf(app.Commit(Transaction().Delete("/a")).status()) ==
        TransactionPart::kOperations);
  CHECK(app.Commit(Transaction().If(Compare::Exists("a"))).status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(app.Commit(Transaction()).status().code() == absl::StatusCode::kInvalidArgument);
  const Transaction inner = Transaction().If(Compare::Exists("/a")).Delete("/a/b/c");
  for (const Transaction& nested :
       {Transaction().Then(inner), Transaction().Delete("/a/b/c").Else(inner),
        Transaction().Then(Transaction().Then(Transaction().Exists("/").Else(Transaction())))}) {
    const absl::Status status = app.Commit(nested).status();
    CHECK((status.code() == absl::StatusCode::kInvalidArgument) == nested.has_nested_branches());
  }
  CHECK(app.Get("/a/b/c").ok());
}

TEST_CASE("lists with details and recursive lists work with a real server, below a chroot") {
  const auto servers = StartServers(1);
  REQUIRE(Connect(*servers)->Create("/app").ok());
  auto client = Client::Connect({.servers = servers->servers() + "/app"});
  REQUIRE(client.ok());
  Client& app = **client;
  REQUIRE(app.Create("/a/b", "B", {.create_parents = true}).ok());
  const int64_t created_zxid = app.Create("/a/b/c")->zxid;
  REQUIRE(app.Create("/a/e", "E", {.mode = CreateMode::kEphemeral}).ok());
  using Strings = std::vector<std::string>;
  CHECK(app.List("/a")->children == Strings{"b", "e"});
  CHECK(app.List("/a", {}, {.kind = ChildKind::kPersistent})->children == Strings{"b"});
  CHECK(app.List("/a", {}, {.kind = ChildKind::kEphemeral})->children == Strings{"e"});
  auto all = app.List("/a", {.linearizable = true}, {.with_stats = true, .with_data = true});
  REQUIRE(all.ok());
  CHECK(all->children == Strings{"b", "e"});
  CHECK(all->child_data == Strings{"B", "E"});
  REQUIRE(all->child_stats.size() == 2);
  CHECK(all->child_stats[0].children_modified_zxid == created_zxid);
  CHECK(all->child_stats[1].ephemeral_session == app.session_id());

  auto paths = app.ListRecursive("/");
  REQUIRE(paths.ok());
  CHECK(paths->paths == Strings{"/a", "/a/b", "/a/e", "/a/b/c"});
  CHECK(paths->zxid == all->zxid);
  CHECK(app.ListRecursive("/a", {.linearizable = true, .max = 2})->paths ==
        Strings{"/a/b", "/a/e"});
  CHECK(ErrorOf(app.ListRecursive("/none").status()) == ErrorCode::kNoNode);
}

TEST_CASE("an ACL admits only a client with the credential") {
  const auto servers = StartServers(1);
  auto owner = Connect(*servers);
  auto other = Connect(*servers);
  REQUIRE(owner->AddCredential({.secret = "me:secret"}).ok());
  CHECK(owner->AddCredential({.scheme = "none"}).code() == absl::StatusCode::kUnauthenticated);
  REQUIRE(owner->Create("/mine", "", {.acl = {{kPermissionAll, "auth", ""}}}).ok());
  CHECK(ErrorOf(other->Get("/mine").status()) == ErrorCode::kNoAuth);
  CHECK(owner->SetAcl("/mine", {Acl()}).ok());
  CHECK(other->Get("/mine").ok());
  CHECK(owner->WhoAmI()->size() == 2);
  CHECK(Client::Connect({.servers = servers->servers(), .credentials = {{.scheme = "none"}}})
            .status()
            .code() == absl::StatusCode::kUnauthenticated);
}

TEST_CASE("Close deletes the session's ephemeral znodes") {
  const auto servers = StartServers(1);
  auto client = Connect(*servers);
  auto watcher = Connect(*servers);
  auto created = client->Create("/e", "", {.mode = CreateMode::kEphemeral});
  REQUIRE(created.ok());
  CHECK(created->stat.ephemeral_session == client->session_id());
  REQUIRE(client->Close().ok());
  CHECK(!watcher->Exists("/e", {.linearizable = true})->has_value());
}

TEST_CASE("a session, its writes and its watch continue when its member dies or hangs") {
  const bool hangs = GENERATE(false, true);
  CAPTURE(hangs);
  const auto servers = StartServers(3);
  Attachment attachment;
  ClientOptions options;
  options.session_timeout_ms = 4000;
  options.on_session_event = [&](const SessionEvent& event) { attachment.Tell(event); };
  auto client = Connect(*servers, options);
  const int64_t session_id = client->session_id();
  std::vector<int64_t> told;
  auto watch = client->Watch("/", WatchScope::kChildren, [&](const WatchNotification& change) {
    told.push_back(std::holds_alternative<Event>(change) ? std::get<Event>(change).zxid : -1);
  });
  REQUIRE(watch.ok());
  std::vector<int64_t> made;
  REQUIRE(client->Create("/e", "", {.mode = CreateMode::kEphemeral}).ok());
  made.push_back((*client->Exists("/e"))->created_zxid);
  for (int i = 0; i < 3; ++i) {
    const std::string address = attachment.server();
    const int member = MemberAt(*servers, address);
    if (hangs) {
      servers->Pause(member);
    } else {
      servers->Kill(member);
    }
    auto set = client->Set("/e", std::to_string(i));
    REQUIRE(set.ok());
    made.push_back(set->modified_zxid);
    CHECK(attachment.WaitForOtherThan(address) != address);
    if (hangs) {
      servers->Resume(member);
    } else {
      REQUIRE(servers->Restart(member).ok());
    }
  }
  REQUIRE(client->Sync().ok());
  watch->End();
  CHECK(told == made);
  CHECK(client->session_id() == session_id);
  CHECK(client->Get("/e")->stat.version == 3);
}

TEST_CASE("ChangeMember moves the client to another member, and nothing is lost") {
  const auto servers = StartServers(3);
  Attachment attachment;
  ClientOptions options;
  options.on_session_event = [&](const SessionEvent& event) { attachment.Tell(event); };
  auto client = Connect(*servers, options);
  const int64_t session_id = client->session_id();
  std::vector<std::string> told;
  auto watch = client->Watch("/", WatchScope::kChildren, [&](const WatchNotification& change) {
    const auto* event = std::get_if<Event>(&change);
    told.push_back(event == nullptr ? "lost" : event->path);
  });
  REQUIRE(watch.ok());
  std::vector<std::string> made;
  for (int i = 0; i < 5; ++i) {
    const std::string address = attachment.server();
    std::vector<Call<CreateResult>> calls;
    for (int j = 0; j < 50; ++j) {
      calls.push_back(client->AsyncCreate("/n-", "", {.mode = CreateMode::kEphemeralSequential}));
      if (j == 25) client->ChangeMember();
    }
    for (auto& call : calls) {
      auto created = call.Wait();
      REQUIRE(created.ok());
      made.push_back(created->path);
    }
    CHECK(attachment.WaitForOtherThan(address) != address);
  }
  REQUIRE(client->Sync().ok());
  watch->End();
  CHECK(told == made);
  CHECK(client->session_id() == session_id);
  CHECK(client->Exists(made.front())->value().ephemeral_session == session_id);
}

TEST_CASE("SetServers moves the session to the members of the new list, and nothing is lost") {
  const auto servers = StartServers(3);
  Attachment attachment;
  ClientOptions options;
  options.servers = servers->address(1) + "/app";
  options.on_session_event = [&](const SessionEvent& event) { attachment.Tell(event); };
  auto root = Connect(*servers);
  REQUIRE(root->Create("/app").ok());
  auto connected = Client::Connect(options);
  REQUIRE(connected.ok());
  Client& client = **connected;
  const int64_t session_id = client.session_id();
  CHECK(absl::IsInvalidArgument(client.SetServers("")));
  CHECK(absl::IsInvalidArgument(client.SetServers(servers->address(2) + "/other")));
  for (const int member : {2, 3, 1}) {
    const std::string before = attachment.WaitForOtherThan("");
    std::vector<Call<CreateResult>> calls;
    for (int i = 0; i < 50; ++i) {
      calls.push_back(client.AsyncCreate("/n-", "", {.mode = CreateMode::kEphemeralSequential}));
      if (i == 25) REQUIRE(client.SetServers(servers->address(member)).ok());
    }
    for (auto& call : calls) REQUIRE(call.Wait().ok());
    CHECK(attachment.WaitForOtherThan(before) == servers->address(member));
  }
  CHECK(client.List("/")->children.size() == 150);
  CHECK(client.session_id() == session_id);
  // A client that no member serves tries the new list at once.
  servers->Kill(1);
  REQUIRE(client.SetServers(servers->address(2) + "," + servers->address(3) + "/app").ok());
  CHECK(client.Create("/last").ok());
  CHECK(client.session_id() == session_id);
}

TEST_CASE("many transactions with long reads are committed at once, without another stream") {
  const auto servers = StartServers(3);
  Attachment attachment;
  std::atomic<int> events{0};
  ClientOptions options;
  options.on_session_event = [&](const SessionEvent& event) {
    ++events;
    attachment.Tell(event);
  };
  const auto client = Connect(*servers, std::move(options));
  REQUIRE(client->Create("/a", std::string(60'000, 'x')).ok());
  const std::string server = attachment.server();
  const int events_before = events;
  std::vector<Call<TransactionResult>> reads;
  std::vector<Call<Stat>> sets;
  for (int i = 0; i < 20; ++i) {
    reads.push_back(client->AsyncCommit(Transaction().Get("/a")));
    sets.push_back(client->AsyncSet("/a", std::string(60'000, static_cast<char>('a' + i))));
  }
  for (int i = 0; i < 20; ++i) {
    const auto read = reads[i].Wait();
    REQUIRE(read.ok());
    CHECK(read->results[0].data.size() == 60'000);
    CHECK(read->results[0].data[0] == (i == 0 ? 'x' : 'a' + i - 1));
    CHECK(sets[i].Wait().ok());
  }
  CHECK(events == events_before);
  CHECK(attachment.server() == server);
}

}  // namespace quorate
