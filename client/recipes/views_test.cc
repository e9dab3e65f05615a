// SPDX-License-Identifier: Apache-2.0

// Tests TreeCache, PersistentNode, GroupMembership and ServiceDiscovery.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <random>
#include <set>
#include <vector>

#include "client/recipes/group_membership.h"
#include "client/recipes/persistent_node.h"
#include "client/recipes/recipes_test.h"
#include "client/recipes/service_discovery.h"
#include "client/recipes/tree_cache.h"
#include "client/scripted_server.h"
#include "client/testing/collected.h"

namespace quorate {
namespace {

using testing::Begin;
using testing::ConnectTo;
using testing::Servers;

constexpr int kShortMs = 100;
constexpr int kLongMs = 20'000;

// Records the changes that a listener receives.
class Told : public testing::Collected<std::string> {
 public:
  TreeCache::Listener Listener() {
    return [this](const TreeCache::Change& change) {
      static constexpr const char* kNames[] = {"+", "=", "-", "loaded", "lost"};
      Add(kNames[static_cast<int>(change.type)] + change.znode.path);
    };
  }
};

using Strings = std::vector<std::string>;

// Reads the znode at `path` and all znodes below it, one by one.
std::vector<TreeCache::Znode> ReadAll(Client* client, const std::string& path) {
  std::vector<TreeCache::Znode> all;
  const auto read = client->Get(path);
  if (!read.ok()) return all;
  all.push_back({path, read->data, read->stat});
  const auto list = client->List(path);
  for (const std::string& name : list->children) {
    const auto below = ReadAll(client, path == "/" ? "/" + name : path + "/" + name);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

// Returns a line for each znode, without the metadata that change without an event.
std::vector<std::string> Summary(const std::vector<TreeCache::Znode>& znodes) {
  std::vector<std::string> lines;
  for (const TreeCache::Znode& znode : znodes) {
    lines.push_back(znode.path + " " + znode.data + " " + std::to_string(znode.stat.created_zxid) +
                    " " + std::to_string(znode.stat.modified_zxid));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace

TEST_CASE("a cache loads the tree, follows its changes and reports them") {
  const auto client = ConnectTo("/cache");
  REQUIRE(client->Create("/a/b/c", "1", {.create_parents = true}).ok());
  REQUIRE(client->Create("/a/b-x", "2").ok());
  Told told;
  auto cache = *TreeCache::Start(client.get(), "/a", told.Listener());
  REQUIRE(cache->WaitUntilLoaded(kLongMs).ok());
  CHECK(told.WaitFor(5) == Strings{"+/a", "+/a/b", "+/a/b-x", "+/a/b/c", "loaded"});
  CHECK(cache->is_settled());
  CHECK(cache->Find("/a/b/c")->data == "1");
  CHECK_FALSE(cache->Find("/a/c").has_value());
  const auto children = cache->Children("/a");
  REQUIRE(children.size() == 2);
  CHECK(children.at("b-x").data == "2");
  CHECK(children.count("b") == 1);
  CHECK(cache->Children("/a/b").size() == 1);
  CHECK(cache->Children("/a/b/c").empty());

  REQUIRE(client->Set("/a/b/c", "3").ok());
  REQUIRE(client->Create("/a/d/e", "4", {.create_parents = true}).ok());
  REQUIRE(client->Delete("/a/b", {.recursive = true}).ok());
  REQUIRE(cache->WaitUntilCurrent(kLongMs).ok());
  const Strings after = told.WaitFor(9);
  CHECK(Strings(after.begin() + 5, after.end()) ==
        Strings{"=/a/b/c", "+/a/d", "+/a/d/e", "-/a/b/c", "-/a/b"});
  CHECK(Summary(cache->All()) == Summary(ReadAll(client.get(), "/a")));
}

TEST_CASE("a cache copies what its scope says, even if the path does not exist yet") {
  const auto client = ConnectTo("/cache-scopes");
  auto root = *TreeCache::Start(client.get(), "/");
  auto node = *TreeCache::Start(client.get(), "/a", nullptr, WatchScope::kNode);
  auto children = *TreeCache::Start(client.get(), "/a", nullptr, WatchScope::kChildren);
  for (TreeCache* cache : {root.get(), node.get(), children.get()}) {
    REQUIRE(cache->WaitUntilLoaded(kLongMs).ok());
  }
  CHECK(node->All().empty());
  REQUIRE(client->Create("/a/b/c", "1", {.create_parents = true}).ok());
  for (TreeCache* cache : {root.get(), node.get(), children.get()}) {
    REQUIRE(cache->WaitUntilCurrent(kLongMs).ok());
  }
  CHECK(root->All().size() == 4);
  CHECK(root->Children("/").size() == 1);
  CHECK(node->All().size() == 1);
  CHECK(children->All().size() == 2);
  auto later = *TreeCache::Start(client.get(), "/a", nullptr, WatchScope::kChildren);
  REQUIRE(later->WaitUntilLoaded(kLongMs).ok());
  CHECK(later->All().size() == 2);
}

TEST_CASE("a cache equals the tree after random changes by several clients") {
  const auto client = ConnectTo("/cache-random");
  const auto other = ConnectTo("/cache-random");
  std::mt19937 random(7);
  REQUIRE(client->Create("/t").ok());
  Told told;
  auto early = *TreeCache::Start(client.get(), "/t", told.Listener());
  std::unique_ptr<TreeCache> late;
  for (int i = 0; i < 600; ++i) {
    std::string path = "/t";
    for (unsigned depth = random() % 3 + 1; depth > 0; --depth) {
      path += "/" + std::to_string(random() % 3);
    }
    Client* by = random() % 2 == 0 ? client.get() : other.get();
    switch (random() % 4) {
      case 0:
        by->AsyncDelete(path, {.recursive = true}).Then([](const auto&) {});
        break;
      case 1:
        by->AsyncSet(path, std::to_string(i)).Then([](const auto&) {});
        break;
      default:
        by->AsyncCreate(path, std::to_string(i)).Then([](const auto&) {});
        break;
    }
    if (i == 300) late = *TreeCache::Start(other.get(), "/t");
    if (i % 100 == 99) {
      REQUIRE(client->Sync().ok());
      REQUIRE(other->Sync().ok());
      REQUIRE(early->WaitUntilCurrent(kLongMs).ok());
      CHECK(Summary(early->All()) == Summary(ReadAll(client.get(), "/t")));
    }
  }
  REQUIRE(late->WaitUntilCurrent(kLongMs).ok());
  CHECK(Summary(late->All()) == Summary(early->All()));
  // Applying the reported changes gives the same tree; parents are added before their children, and
  // removed after them.
  std::set<std::string> there;
  for (const std::string& what : told.WaitFor(0)) {
    const std::string path = what.substr(1);
    const std::string parent = path.substr(0, path.rfind('/'));
    if (what[0] == '+') {
      CHECK((path == "/t" || there.count(parent) == 1));
      CHECK(there.insert(path).second);
    } else if (what[0] == '-') {
      CHECK(there.erase(path) == 1);
      const auto below = there.lower_bound(path + "/");
      CHECK((below == there.end() || !below->starts_with(path + "/")));
    } else if (what[0] == '=') {
      CHECK(there.count(path) == 1);
    }
  }
  CHECK(there.size() == early->All().size());
}

TEST_CASE("a cache is current only after it has repeated a read that was too early") {
  std::atomic<bool> is_changed = false;
  std::atomic<int> reads = 0;
  std::promise<void> returned;
  auto has_returned = returned.get_future();
  ScriptedServer server({.at_answer = [&](const v1::Request& request, v1::Response* response) {
    if (!request.has_get() || !is_changed) return;
    // Delays the answer, so that a WaitUntilCurrent that returns too early is noticed.
    has_returned.wait_for(std::chrono::milliseconds(kShortMs));
    if (++reads > 1) return;
    response->set_zxid(response->zxid() - 1);
    response->mutable_get()->set_data("old");
  }});
  auto client = *Client::Connect({.servers = server.address()});
  auto other = *Client::Connect({.servers = server.address()});
  REQUIRE(other->Create("/t", "old").ok());
  auto cache = *TreeCache::Start(client.get(), "/t", nullptr, WatchScope::kNode);
  REQUIRE(cache->WaitUntilLoaded(kLongMs).ok());
  REQUIRE(other->Set("/t", "new").ok());
  is_changed = true;
  // The server sends the event before the next answer.
  REQUIRE(cache->WaitUntilCurrent(kLongMs).ok());
  returned.set_value();
  CHECK(cache->Find("/t")->data == "new");
  CHECK(reads == 2);
  CHECK(cache->is_settled());
}

TEST_CASE("a cache reports the end of the session") {
  const auto client = ConnectTo("/cache-lost");
  Told told;
  auto cache = *TreeCache::Start(client.get(), "/", told.Listener());
  REQUIRE(cache->WaitUntilLoaded(kLongMs).ok());
  CHECK(cache->status().ok());
  REQUIRE(client->Close().ok());
  CHECK(told.WaitFor(3).back() == "lost");
  CHECK(!cache->status().ok());
  CHECK(!cache->WaitUntilCurrent(kLongMs).ok());
  CHECK(cache->Find("/").has_value());
}

TEST_CASE("a persistent node is created again, with the data that was set last") {
  const auto client = ConnectTo("/node");
  const auto other = ConnectTo("/node");
  Told told;
  auto node = *PersistentNode::Start(client.get(), "/a/n", "1", {.listener = [&](bool is_there) {
                                       told.Add(is_there ? "there" : "gone");
                                     }});
  REQUIRE(node->WaitUntilThere(kLongMs).ok());
  CHECK(other->Get("/a/n")->data == "1");
  CHECK(other->Get("/a/n")->stat.ephemeral_session == client->session_id());
  REQUIRE(node->SetData("2").ok());
  CHECK(client->Get("/a/n")->data == "2");
  for (int i = 0; i < 10; ++i) {
    REQUIRE(other->Delete("/a/n").ok());
    CHECK(told.WaitFor(3 + 2 * static_cast<size_t>(i)).size() >= 3);
    REQUIRE(node->WaitUntilThere(kLongMs).ok());
    CHECK(client->Get("/a/n")->data == "2");
  }
  REQUIRE(node->Close().ok());
  CHECK_FALSE(client->Exists("/a/n")->has_value());
  CHECK(PersistentNode::Start(client.get(), "/x", "", {.mode = CreateMode::kEphemeralSequential})
            .status()
            .code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("a persistent node waits until another client's znode ends, or replaces it") {
  const auto client = ConnectTo("/node-other");
  auto other = ConnectTo("/node-other");
  REQUIRE(other->Create("/n", "other", {.mode = CreateMode::kEphemeral}).ok());
  auto node = *PersistentNode::Start(client.get(), "/n", "mine");
  CHECK(absl::IsDeadlineExceeded(node->WaitUntilThere(20)));
  CHECK(client->Get("/n")->data == "other");
  REQUIRE(other->Close().ok());
  REQUIRE(node->WaitUntilThere(kLongMs).ok());
  CHECK(client->Get("/n")->data == "mine");

  other = ConnectTo("/node-other");
  auto third = *PersistentNode::Start(other.get(), "/n", "third", {.takes_over = true});
  REQUIRE(third->WaitUntilThere(kLongMs).ok());
  CHECK(other->Get("/n")->data == "third");
  third.reset();
  REQUIRE(client->Sync().ok());
  REQUIRE(node->WaitUntilThere(kLongMs).ok());
  CHECK(client->Get("/n")->data == "mine");
  REQUIRE(client->Close().ok());
  CHECK(!node->WaitUntilThere(kLongMs).ok());
}

TEST_CASE("a persistent node replaces other clients' znodes only at the start") {
  const auto client = ConnectTo("/node-start");
  const auto other = ConnectTo("/node-start");
  Told told;
  const auto listener = [&](bool is_there) { told.Add(is_there ? "there" : "gone"); };
  auto first =
      *PersistentNode::Start(client.get(), "/n", "1", {.takes_over = true, .listener = listener});
  REQUIRE(first->WaitUntilThere(kLongMs).ok());
  auto second = *PersistentNode::Start(other.get(), "/n", "2", {.takes_over = true});
  REQUIRE(second->WaitUntilThere(kLongMs).ok());
  CHECK(told.WaitFor(2) == Strings{"there", "gone"});
  CHECK(absl::IsDeadlineExceeded(first->WaitUntilThere(kShortMs)));
  CHECK(second->is_there());
  CHECK(other->Get("/n")->data == "2");
}

TEST_CASE("a persistent node has the data that was set while it was being created") {
  const auto client = ConnectTo("/node-data");
  for (int i = 0; i < 100; ++i) {
    auto node = *PersistentNode::Start(client.get(), "/n", "");
    const auto there = Begin([&] { return node->WaitUntilThere(kLongMs); });
    std::string last;
    for (int j = 0; j < 20; ++j) {
      last = std::to_string(j);
      REQUIRE(node->SetData(last).ok());
    }
    there.wait();
    REQUIRE(node->WaitUntilThere(kLongMs).ok());
    CHECK(client->Get("/n")->data == last);
  }
}

TEST_CASE("SetData does not change a znode that another client created in place of ours") {
  const auto client = ConnectTo("/node-taken");
  const auto other = ConnectTo("/node-taken");
  auto node = *PersistentNode::Start(client.get(), "/n", "1");
  REQUIRE(node->WaitUntilThere(kLongMs).ok());
  // Once our znode has the same version as that of the other client, and once another one.
  const int sets = GENERATE(0, 1);
  if (sets > 0) REQUIRE(node->SetData("2").ok());
  // The callback delays the events, so that SetData is called before the client knows that its
  // znode was deleted.
  std::promise<void> begun, changed;
  client->AsyncExists("/n").Then([&](const auto&) {
    begun.set_value();
    changed.get_future().wait_for(std::chrono::milliseconds(kShortMs));
  });
  begun.get_future().wait();
  REQUIRE(other->Delete("/n").ok());
  REQUIRE(other->Create("/n", "another's", {.mode = CreateMode::kEphemeral}).ok());
  CHECK(node->SetData("3").ok());
  CHECK(other->Get("/n")->data == "another's");
  // Close does not delete the znode of the other client, either.
  if (sets > 0) {
    CHECK(node->Close(kLongMs).ok());
    CHECK(other->Get("/n")->data == "another's");
    return;
  }
  REQUIRE(other->Delete("/n").ok());
  REQUIRE(client->Sync().ok());
  REQUIRE(node->WaitUntilThere(kLongMs).ok());
  CHECK(client->Get("/n")->data == "3");
}

TEST_CASE("changes of a persistent node are conditional on its creation, or on its version") {
  // UNIMPLEMENTED is the answer of servers that do not allow CheckCreated yet, BAD_ARGUMENTS that
  // of servers that cannot parse it.
  const v1::ErrorCode answer = GENERATE(v1::ERROR_CODE_UNSPECIFIED, v1::ERROR_CODE_UNIMPLEMENTED,
                                        v1::ERROR_CODE_BAD_ARGUMENTS);
  Told conditions;
  ScriptedServer server({.refuses = [&](const v1::Request::Write& write) {
    if (write.operations(0).has_create()) return v1::ERROR_CODE_UNSPECIFIED;
    const bool of_creation = write.operations(0).has_check_created();
    conditions.Add(of_creation ? "creation" : write.operations(0).has_check() ? "version" : "none");
    return of_creation ? answer : v1::ERROR_CODE_UNSPECIFIED;
  }});
  auto client = *Client::Connect({.servers = server.address()});
  auto node = *PersistentNode::Start(client.get(), "/n", "1");
  REQUIRE(node->WaitUntilThere(kLongMs).ok());
  CHECK(node->SetData("2").ok());
  CHECK(node->SetData("3").ok());
  CHECK(node->Close(kLongMs).ok());
  CHECK(server.changes() == Strings{"create /n", "set /n=2", "set /n=3", "delete /n"});
  const bool knows = answer == v1::ERROR_CODE_UNSPECIFIED;
  const Strings expected = knows ? Strings{"creation", "creation", "creation"}
                                 : Strings{"creation", "version", "version", "version", "version"};
  CHECK(conditions.WaitFor(expected.size()) == expected);
}

TEST_CASE("a persistent node replaces data that another client has set") {
  const auto client = ConnectTo("/node-changed");
  auto node = *PersistentNode::Start(client.get(), "/n", "1");
  REQUIRE(node->WaitUntilThere(kLongMs).ok());
  REQUIRE(client->Set("/n", "somebody's").ok());
  REQUIRE(client->Set("/n", "somebody's").ok());
  REQUIRE(node->SetData("2").ok());
  CHECK(client->Get("/n")->data == "2");
  REQUIRE(node->SetData("3").ok());
  CHECK(client->Get("/n")->stat.version == 4);
}

TEST_CASE("a persistent node beyond a quota is retried with pauses, and calls its listener once") {
  auto server = testing::ServerFixture::Start({.settings = {"enforceQuota=true"}});
  REQUIRE(server.ok());
  auto client = *Client::Connect({.servers = (*server)->servers()});
  Told told;
  auto node = *PersistentNode::Start(client.get(), "/a/n", "1", {.listener = [&](bool is_there) {
                                       told.Add(is_there ? "there" : "gone");
                                     }});
  REQUIRE(node->WaitUntilThere(kLongMs).ok());
  // A quota that allows only /a itself.
  const std::string quota = "/zookeeper/quota/a";
  REQUIRE(client->Create(quota).ok());
  REQUIRE(client->Create(quota + "/zookeeper_limits", "count=-1,bytes=-1=;countHardLimit=1").ok());
  REQUIRE(client->Create(quota + "/zookeeper_stats", "").ok());
  REQUIRE(client->Delete("/a/n").ok());
  CHECK(told.WaitFor(2) == Strings{"there", "gone"});
  CHECK(ErrorOf(node->WaitUntilThere(kLongMs)) == ErrorCode::kQuotaExceeded);
  // Each attempt to create the znode takes a zxid. The waits between them grow, so that at most
  // four fit into half a second.
  const int64_t before = client->Create("/before")->zxid;
  CHECK(told.WaitFor(3, std::chrono::milliseconds(500)) == Strings{"there", "gone"});
  CHECK(client->Create("/after")->zxid - before < 10);
  REQUIRE(client->Delete(quota, {.recursive = true}).ok());
  CHECK(told.WaitFor(3) == Strings{"there", "gone", "there"});
}

TEST_CASE("a persistent node that cannot be created reports why") {
  const auto client = ConnectTo("/node-bad");
  REQUIRE(client->Create("/e", "", {.mode = CreateMode::kEphemeral}).ok());
  auto node = *PersistentNode::Start(client.get(), "/e/n", "");
  CHECK(ErrorOf(node->WaitUntilThere(kLongMs)) == ErrorCode::kNoChildrenForEphemerals);
}

TEST_CASE("Close deletes a persistent node whose SetData was refused") {
  const auto client = ConnectTo("/node-refused");
  const std::vector<Acl> read_only{{.permissions = kPermissionRead}};
  auto node = *PersistentNode::Start(client.get(), "/n", "1", {.acl = read_only});
  // If the znode is still being created, it gets the first data, and setting the new data is
  // refused; if it exists, SetData itself is refused.
  node->SetData("2").IgnoreError();
  node->WaitUntilThere(kLongMs).IgnoreError();
  REQUIRE(client->Exists("/n")->has_value());
  REQUIRE(node->Close(kLongMs).ok());
  CHECK_FALSE(client->Exists("/n")->has_value());
  // A later Close does not delete a znode that the object did not create.
  REQUIRE(client->Create("/n", "", {.mode = CreateMode::kEphemeral}).ok());
  REQUIRE(node->Close(kLongMs).ok());
  node.reset();
  CHECK(client->Exists("/n")->has_value());
}

TEST_CASE("Close of a persistent node can be repeated after it missed its deadline") {
  const auto client = ConnectTo("/node-close");
  auto node = *PersistentNode::Start(client.get(), "/n", "");
  REQUIRE(node->WaitUntilThere(kLongMs).ok());
  Servers().Pause(1);
  CHECK(absl::IsDeadlineExceeded(node->Close(kShortMs)));
  Servers().Resume(1);
  REQUIRE(node->Close(kLongMs).ok());
  CHECK_FALSE(client->Exists("/n")->has_value());
}

TEST_CASE("a persistent node is created later if the client refused its calls") {
  constexpr size_t kCallsMax = 100;
  const auto client = ConnectTo("/node-later", {.pending_calls_max = kCallsMax});
  const auto other = ConnectTo("/node-later");
  Told told;
  const auto listener = [&](bool is_there) {
    told.Add(is_there ? "there" : "gone");
    // The znode is created again right after this callback, when the client refuses calls.
    for (size_t i = 0; !is_there && i < 2 * kCallsMax; ++i) {
      client->AsyncExists("/n").Then([](const auto&) {});
    }
  };
  auto node = *PersistentNode::Start(client.get(), "/n", "1", {.listener = listener});
  REQUIRE(node->WaitUntilThere(kLongMs).ok());
  REQUIRE(other->Delete("/n").ok());
  CHECK(told.WaitFor(3) == Strings{"there", "gone", "there"});
  REQUIRE(node->WaitUntilThere(kLongMs).ok());
  CHECK(client->Get("/n")->data == "1");
}

TEST_CASE("members of a group see each other") {
  const auto one = ConnectTo("/group");
  auto two = ConnectTo("/group");
  Told told;
  auto first = *GroupMembership::Start(one.get(), "/g", [&](const GroupMembership::Change& change) {
    static constexpr const char* kNames[] = {"joined ", "changed ", "left ", "lost "};
    told.Add(kNames[static_cast<int>(change.type)] + change.id + " " + change.data);
  });
  auto second = *GroupMembership::Start(two.get(), "/g");
  CHECK(first->Members().empty());
  CHECK(first->SetData("").code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(first->Join("a", "1").ok());
  CHECK(first->Join("a2").code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(second->Join("b").ok());
  REQUIRE(second->SetData("2").ok());
  using Members = std::map<std::string, std::string>;
  CHECK(*first->CurrentMembers() == Members{{"a", "1"}, {"b", "2"}});
  // Join with the same id, as after a crash and a restart of the process.
  const auto three = ConnectTo("/group");
  auto third = *GroupMembership::Start(three.get(), "/g");
  REQUIRE(third->Join("b", "3").ok());
  CHECK(*first->CurrentMembers() == Members{{"a", "1"}, {"b", "3"}});
  REQUIRE(third->Leave().ok());
  second.reset();
  two.reset();
  CHECK(*first->CurrentMembers() == Members{{"a", "1"}});
  CHECK(told.WaitFor(3)[0] == "joined a 1");
}

TEST_CASE("blocking functions are refused on the callback thread, even while a lock is held") {
  const auto client = ConnectTo("/callbacks");
  auto node = *PersistentNode::Start(client.get(), "/n", "");
  auto group = *GroupMembership::Start(client.get(), "/g");
  ServiceDiscovery services(client.get(), "/s");
  auto registration = *services.Register({.name = "web", .id = "a"});
  REQUIRE(group->Join("a").ok());
  REQUIRE(node->WaitUntilThere(kLongMs).ok());
  REQUIRE(registration->WaitUntilThere(kLongMs).ok());
  std::promise<std::vector<absl::Status>> done;
  // Meanwhile other threads wait for answers that the callback thread has to deliver.
  const auto sets = Begin([&] { return node->SetData("1"); });
  const auto joins = Begin([&] { return group->SetData("1"); });
  const auto updates = Begin([&] { return registration->Update(registration->instance()); });
  client->AsyncExists("/").Then([&](const auto&) {
    done.set_value({node->SetData("2"), node->Close(), group->Join("b"), group->SetData("2"),
                    group->Leave(), registration->Update(registration->instance())});
  });
  auto statuses = done.get_future();
  REQUIRE(statuses.wait_for(std::chrono::milliseconds(kLongMs)) == std::future_status::ready);
  for (const absl::Status& status : statuses.get()) {
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  }
  sets.wait();
  joins.wait();
  updates.wait();
}

TEST_CASE("registered instances of a service are found") {
  const auto client = ConnectTo("/discovery");
  auto owner = ConnectTo("/discovery");
  ServiceDiscovery services(client.get(), "/s");
  ServiceDiscovery owners(owner.get(), "/s");
  CHECK(services.Names()->empty());
  CHECK(services.Instances("web")->empty());
  Told told;
  auto provider =
      *services.Follow("web", ServiceProvider::Strategy::kRoundRobin, [&] { told.Add("changed"); });
  CHECK(absl::IsNotFound(provider->Next().status()));
  auto a = *owners.Register({.name = "web", .id = "a", .address = "h1", .port = 80});
  auto b = *owners.Register({.name = "web", .id = "b", .address = "h2", .payload = "\"x\""});
  auto c = *services.Register({.name = "web", .address = "h3", .is_enabled = false});
  for (auto* each : {a.get(), b.get(), c.get()}) REQUIRE(each->WaitUntilThere(kLongMs).ok());
  REQUIRE(client->Create("/s/web/damaged", "{").ok());
  CHECK(*services.Names() == Strings{"web"});
  CHECK(services.Instances("web")->size() == 3);
  REQUIRE(provider->WaitUntilCurrent(kLongMs).ok());
  CHECK(provider->All().size() == 3);
  CHECK(provider->Next()->id != provider->Next()->id);
  auto sticky = *services.Follow("web", ServiceProvider::Strategy::kSticky);
  const std::string chosen = sticky->Next()->id;
  for (int i = 0; i < 10; ++i) CHECK(sticky->Next()->id == chosen);
  ServiceInstance changed = a->instance();
  changed.is_enabled = false;
  REQUIRE(a->Update(changed).ok());
  REQUIRE(provider->WaitUntilCurrent(kLongMs).ok());
  for (int i = 0; i < 3; ++i) CHECK(provider->Next()->address == "h2");
  changed.id = "z";
  CHECK(a->Update(changed).code() == absl::StatusCode::kInvalidArgument);
  CHECK(services.Register({.name = "a/b"}).status().code() == absl::StatusCode::kInvalidArgument);
  a.reset();
  b.reset();
  owner.reset();
  REQUIRE(provider->WaitUntilCurrent(kLongMs).ok());
  CHECK(absl::IsNotFound(provider->Next().status()));
}

TEST_CASE("after the end of the session Next fails, and the last known instances are kept") {
  const auto client = ConnectTo("/discovery-lost");
  const auto owner = ConnectTo("/discovery-lost");
  ServiceDiscovery services(client.get(), "/s"), owners(owner.get(), "/s");
  auto instance = *owners.Register({.name = "web", .id = "a"});
  REQUIRE(instance->WaitUntilThere(kLongMs).ok());
  Told told;
  auto provider = *services.Follow("web");
  auto group = *GroupMembership::Start(client.get(), "/s/web", [&](const auto& change) {
    if (change.type == GroupMembership::Change::Type::kLost) told.Add("lost");
  });
  REQUIRE(provider->Next()->id == "a");
  CHECK((provider->status().ok() && group->status().ok()));
  REQUIRE(client->Close().ok());
  // The group was started last, so its listener is called last.
  CHECK(told.WaitFor(1) == Strings{"lost"});
  const absl::Status status = provider->Next().status();
  CHECK((!status.ok() && !absl::IsNotFound(status)));
  CHECK(provider->status() == status);
  CHECK(!group->status().ok());
  CHECK((provider->All().size() == 1 && group->Members().size() == 1));
}

TEST_CASE("instances have the JSON format of Curator") {
  const ServiceInstance instance{.name = "web",
                                 .id = "1",
                                 .address = "h",
                                 .port = 80,
                                 .payload = "p",
                                 .registered_ms = 5,
                                 .is_static = true};
  CHECK(*ServiceInstanceFromJson(ToJson(instance)) == instance);
  // An instance as Curator writes it.
  const auto curators = ServiceInstanceFromJson(
      R"({"name":"web","id":"7","address":"10.0.0.1","port":80,"sslPort":null,"payload":null,)"
      R"("registrationTimeUTC":1700000000000,"serviceType":"DYNAMIC","uriSpec":null})");
  REQUIRE(curators.ok());
  CHECK(curators->port == 80);
  CHECK_FALSE(curators->tls_port.has_value());
  CHECK(curators->registered_ms == 1700000000000);
  CHECK(curators->is_enabled);
  for (const char* bad : {"", "{", "[]", "5", "{}", R"({"name":5,"id":"a"})", R"({"name":"a"})"}) {
    CHECK(!ServiceInstanceFromJson(bad).ok());
  }
}

}  // namespace quorate
