// SPDX-License-Identifier: Apache-2.0

// The reference model by itself. The other tests, in which it accepts what correct servers do, show
// that it agrees with the servers' tree.
#include "tests/simulation/checkers/model.h"

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/checker_test_util.h"

namespace quorate::simulation {
namespace {

using tree::CreateMode;
using tree::ErrorCode;
using tree::EventType;

// Puts the clients' requests into the log at once.
class Modelled : public Script {
 public:
  Modelled() {
    LogNoOp();
    LogSession(1);
    link = Open(1);
  }
  int64_t Do(const Request& request) {
    Ask(link, request);
    return LogRequest(link, request);
  }
  const Model& model() const { return replay.model(); }
  const tree::Stat& StatAt(const std::string& path, int64_t zxid) const {
    return model().Find(path, zxid)->stat;
  }

  ReplayChecker replay{&history};
  LinkId link = 0;
};

TEST_CASE("The model shows the tree at each zxid") {
  Modelled script;
  const int64_t a = script.Do(MakeCreate("/a", "1"));
  const int64_t b = script.Do(MakeCreate("/a/b", "2"));
  const int64_t changed = script.Do(MakeSetData("/a", "3"));
  const int64_t deleted = script.Do(MakeDelete("/a/b"));
  const Model& model = script.model();
  CHECK(model.Find("/a", a - 1) == nullptr);
  CHECK(*model.Find("/a", b)->data == "1");
  CHECK(*model.Find("/a", changed)->data == "3");
  CHECK(model.Find("/a/b", changed) != nullptr);
  CHECK(model.Find("/a/b", deleted) == nullptr);
  CHECK(script.StatAt("/a", b).num_children == 1);
  CHECK(script.StatAt("/a", b).pzxid.value() == b);
  CHECK(script.StatAt("/a", deleted).cversion == 2);
  CHECK(script.StatAt("/a", deleted).mzxid.value() == changed);
  Request list = MakeRead(OperationKind::kGetChildren, "/");
  CHECK(model.Read(list, a).children == std::vector<std::string>{"a", "zookeeper"});
  CHECK(model.Read(list, a - 1).children == std::vector<std::string>{"zookeeper"});
}

TEST_CASE("The end of a change of members shows them in /zookeeper/config") {
  Modelled script;
  using consensus::MemberId;
  consensus::Membership members{{MemberId{1}, MemberId{2}}, {}, {MemberId{1}}, {}};
  members.addresses = {{MemberId{1}, "a:1:2:participant"}, {MemberId{2}, "b:1:2:participant"}};
  const int64_t joint = script.LogMembership(members);
  members.outgoing.clear();
  const int64_t changed = script.LogMembership(members);
  members.addresses.clear();
  const int64_t without_addresses = script.LogMembership(members);
  const Model& model = script.model();
  CHECK(model.Find("/zookeeper/config", joint)->data->empty());
  const std::string expected = "server.1=a:1:2:participant\nserver.2=b:1:2:participant\nversion=";
  CHECK(*model.Find("/zookeeper/config", changed)->data ==
        expected + std::string(absl::StrCat(absl::Hex(changed))));
  CHECK(script.StatAt("/zookeeper/config", changed).mzxid.value() == changed);
  CHECK(script.StatAt("/zookeeper/config", without_addresses).mzxid.value() == changed);
  CHECK(script.StatAt("/zookeeper/config", changed).version == -1);
}

TEST_CASE("A failed multi has no effect") {
  Modelled script;
  const int64_t before = script.Do(MakeCreate("/a", "1"));
  Step ephemeral = MakeStep(OperationKind::kCreate, "/e");
  ephemeral.mode = CreateMode::kEphemeral;
  const int64_t failed = script.Do(MakeMulti(
      {ephemeral, MakeStep(OperationKind::kSetData, "/a", "2"),
       MakeStep(OperationKind::kCreate, "/a/b"), MakeStep(OperationKind::kDelete, "/a", "", 0),
       MakeStep(OperationKind::kDelete, "/none")}));
  const Model& model = script.model();
  CHECK(model.Find("/e", failed) == nullptr);
  CHECK(model.Find("/a/b", failed) == nullptr);
  CHECK(script.StatAt("/a", failed) == script.StatAt("/a", before));
  CHECK_FALSE(model.FirstChange("/a", Model::Table::kData, before));
  CHECK_FALSE(model.FirstChange("/", Model::Table::kChild, before));
  CHECK(model.sessions().at(1).ephemerals.empty());
}

TEST_CASE("Each step of a multi sees the effects of the steps before it") {
  Modelled script;
  Step numbered = MakeStep(OperationKind::kCreate, "/a/n");
  numbered.mode = CreateMode::kPersistentSequential;
  const int64_t zxid =
      script.Do(MakeMulti({MakeStep(OperationKind::kCreate, "/a"), numbered, numbered,
                           MakeStep(OperationKind::kDelete, "/a/n0000000000")}));
  CHECK(script.model().Find("/a/n0000000001", zxid) != nullptr);
  CHECK(script.model().Find("/a/n0000000000", zxid) == nullptr);
  CHECK(script.StatAt("/a", zxid).cversion == 3);
}

TEST_CASE("The end of a session deletes its ephemeral nodes") {
  Modelled script;
  script.Do(MakeCreate("/e", "", CreateMode::kEphemeral));
  script.Do(MakeCreate("/p", ""));
  CHECK(script.model()
            .Read(MakeRead(OperationKind::kExists, "/e"), script.model().last_zxid())
            .stat->ephemeral_owner.value() == 1);
  const int64_t end = script.LogEnd(1, /*expire=*/true);
  CHECK(script.model().Find("/e", end) == nullptr);
  CHECK(script.model().Find("/p", end) != nullptr);
  CHECK(script.model().FirstChange("/e", Model::Table::kData, end - 1)->type ==
        EventType::kNodeDeleted);
  CHECK(script.model().ended_sessions().at(1).zxid == end);
  CHECK(script.model().ended_sessions().at(1).expired);
}

TEST_CASE("The model finds the first change that fires a watch") {
  Modelled script;
  const int64_t a = script.Do(MakeCreate("/a", ""));
  const int64_t b = script.Do(MakeCreate("/a/b", ""));
  const int64_t set = script.Do(MakeSetData("/a", "x"));
  const int64_t acl = script.Do(MakeSetAcl("/a"));
  const int64_t deleted = script.Do(MakeDelete("/a/b"));
  const auto change = [&](const std::string& path, Model::Table table, int64_t since) {
    const auto found = script.model().FirstChange(path, table, since);
    return found ? std::pair(found->zxid, found->type) : std::pair(int64_t{0}, EventType{});
  };
  using Change = std::pair<int64_t, EventType>;
  CHECK(change("/a", Model::Table::kData, 0) == Change(a, EventType::kNodeCreated));
  CHECK(change("/a", Model::Table::kData, a) == Change(set, EventType::kNodeDataChanged));
  CHECK(change("/a", Model::Table::kData, set).first == 0);
  CHECK(acl == set + 1);
  CHECK(change("/a", Model::Table::kChild, 0) == Change(b, EventType::kNodeChildrenChanged));
  CHECK(change("/a", Model::Table::kChild, b) == Change(deleted, EventType::kNodeChildrenChanged));
  CHECK(change("/a/b", Model::Table::kChild, b) == Change(deleted, EventType::kNodeDeleted));
}

// The outcome of the last entry.
class Outcomes : public LogListener {
 public:
  void OnEntry(const consensus::Entry&, const Model::Applied& entry) override { applied = entry; }
  Model::Applied applied;
};

TEST_CASE("The writes of ClickHouse Keeper succeed and fail as it says") {
  Modelled script;
  Outcomes outcomes;
  script.replay.AddListener(&outcomes);
  const auto error_of = [&](Step step) {
    script.Do(MakeWrite(std::move(step)));
    return outcomes.applied.steps.at(0).error;
  };
  const auto step = [](OperationKind kind, const char* path, int32_t version = tree::kAnyVersion) {
    return MakeStep(kind, path, "", version);
  };
  CHECK(error_of(step(OperationKind::kCheckNotExists, "/a")) == ErrorCode::kOk);
  CHECK(error_of(step(OperationKind::kCreateIfNotExists, "/a")) == ErrorCode::kOk);
  const int64_t created = script.model().last_zxid();
  CHECK(error_of(step(OperationKind::kCreateIfNotExists, "/a")) == ErrorCode::kOk);
  CHECK(outcomes.applied.steps[0].path == "/a");
  CHECK(script.StatAt("/a", created + 1).czxid.value() == created);
  CHECK(error_of(step(OperationKind::kCreateIfNotExists, "/b/c")) == ErrorCode::kNoNode);
  CHECK(error_of(step(OperationKind::kCheckNotExists, "/a")) == ErrorCode::kNodeExists);
  CHECK(error_of(step(OperationKind::kCheckNotExists, "/a", 0)) == ErrorCode::kNodeExists);
  CHECK(error_of(step(OperationKind::kCheckNotExists, "/a", 1)) == ErrorCode::kOk);

  Step check = step(OperationKind::kCheckStat, "/a");
  check.expected = AnyStat();
  CHECK(error_of(check) == ErrorCode::kOk);
  check.expected.czxid = tree::Zxid(created);
  CHECK(error_of(check) == ErrorCode::kOk);
  check.expected.num_children = 1;
  CHECK(error_of(check) == ErrorCode::kBadVersion);
  check.path = "/b";
  CHECK(error_of(check) == ErrorCode::kNoNode);

  script.Do(MakeCreate("/a/b", ""));
  CHECK(error_of(step(OperationKind::kTryRemove, "/a")) == ErrorCode::kOk);
  CHECK(error_of(step(OperationKind::kTryRemove, "/a/b", 3)) == ErrorCode::kOk);
  CHECK(error_of(step(OperationKind::kTryRemove, "/none")) == ErrorCode::kOk);
  CHECK(error_of(step(OperationKind::kTryRemove, "/zookeeper")) == ErrorCode::kBadArguments);
  const auto exists = [&](const char* path) {
    return script.model().Find(path, script.model().last_zxid()) != nullptr;
  };
  CHECK(exists("/a"));
  CHECK(exists("/a/b"));
  CHECK(error_of(step(OperationKind::kTryRemove, "/a/b", 0)) == ErrorCode::kOk);
  CHECK_FALSE(exists("/a/b"));
}

TEST_CASE("A recursive removal removes children before their parents, within its limit") {
  Modelled script;
  Outcomes outcomes;
  script.replay.AddListener(&outcomes);
  for (const char* path : {"/a", "/a/c", "/a/b", "/a/b/d"}) script.Do(MakeCreate(path, ""));
  script.Do(MakeCreate("/a/e", "", CreateMode::kEphemeral));
  Step remove = MakeStep(OperationKind::kRemoveRecursive, "/a");
  remove.limit = 4;
  const int64_t refused = script.Do(MakeWrite(remove));
  CHECK(outcomes.applied.steps[0].error == ErrorCode::kNotEmpty);
  CHECK(script.model().Find("/a/b/d", refused) != nullptr);
  remove.limit = 5;
  const int64_t removed = script.Do(MakeWrite(remove));
  CHECK(outcomes.applied.steps[0].error == ErrorCode::kOk);
  std::vector<std::string> paths;
  for (const Model::NodeEvent& event : outcomes.applied.events) {
    CHECK(event.type == EventType::kNodeDeleted);
    paths.push_back(event.path);
  }
  CHECK(paths == std::vector<std::string>{"/a/b/d", "/a/b", "/a/c", "/a/e", "/a"});
  CHECK(script.model().sessions().at(1).ephemerals.empty());
  CHECK(script.StatAt("/", removed).num_children == 1);
  script.Do(MakeWrite(remove));
  CHECK(outcomes.applied.steps[0].error == ErrorCode::kOk);
  CHECK(outcomes.applied.events.empty());
}

TEST_CASE("The model filters lists, and lists all paths below a node") {
  Modelled script;
  script.Do(MakeCreate("/a", ""));
  script.Do(MakeCreate("/a/p", "1"));
  script.Do(MakeCreate("/a/p/q", ""));
  const int64_t zxid = script.Do(MakeCreate("/a/e", "2", CreateMode::kEphemeral));
  Request list = MakeRead(OperationKind::kFilteredListDetailed, "/a");
  list.wants_child_data = true;
  list.child_kind = ChildKind::kEphemeral;
  Reply reply = script.model().Read(list, zxid);
  CHECK(reply.children == std::vector<std::string>{"e"});
  CHECK(reply.child_data == std::vector<std::optional<std::string>>{"2"});
  CHECK(reply.child_stats.empty());
  CHECK(reply.stat->num_children == 2);
  list.child_kind = ChildKind::kPersistent;
  list.wants_child_stats = true;
  reply = script.model().Read(list, zxid);
  CHECK(reply.children == std::vector<std::string>{"p"});
  CHECK(reply.child_stats.at(0) == script.StatAt("/a/p", zxid));
  CHECK(script.model().Read(MakeListRecursive("/a", 1), zxid).children ==
        std::vector<std::string>{"/a/e", "/a/p", "/a/p/q"});
  const std::optional<std::string> one = "1";
  CHECK(script.model().WasSo("/a/p", nullptr, &one, zxid, zxid));
  script.Do(MakeSetData("/a/p", "3"));
  CHECK_FALSE(script.model().WasSo("/a/p", nullptr, &one, zxid + 1, zxid + 1));
  CHECK(script.model().WasSo("/a/p", nullptr, &one, zxid, zxid + 1));
}

}  // namespace
}  // namespace quorate::simulation
