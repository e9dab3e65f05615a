// SPDX-License-Identifier: Apache-2.0

// The reference model by itself. The other tests, in which it accepts what correct servers do, show
// that it agrees with the servers' tree.
#include "tests/simulation/checkers/model.h"

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

}  // namespace
}  // namespace quorate::simulation
