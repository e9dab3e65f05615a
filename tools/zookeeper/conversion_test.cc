// SPDX-License-Identifier: Apache-2.0

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "consensus/log/env.h"
#include "tools/zookeeper/export.h"
#include "tools/zookeeper/import.h"
#include "tools/zookeeper/session_password.h"
#include "tools/zookeeper/test_files.h"
#include "tree/command.h"
#include "tree/node_kind.h"
#include "tree/snapshot.h"

namespace quorate::tools::zookeeper {
namespace {

using Type = TransactionType;
using tree::SessionId;
using tree::Zxid;

void Nothing(const std::string&) {}

// Returns a directory that is built from transactions, as if loaded from a server's files.
LoadedDirectory Loaded(const std::function<void(LogBuilder*)>& fill) {
  LoadedDirectory loaded;
  loaded.data_tree = std::make_unique<DataTree>();
  const std::vector<tree::Acl> open = tree::OpenAcl();
  for (std::string_view path : {"/", "/zookeeper", "/zookeeper/quota"}) {
    DataTree::SnapshotNode node;
    node.path = path;
    node.has_data = true;
    node.acl = &open;
    REQUIRE(loaded.data_tree->AddNode(node).ok());
  }
  LogBuilder log;
  fill(&log);
  TransactionLog reader("log", log.bytes());
  Transaction transaction;
  absl::StatusOr<bool> more = reader.Open();
  while (more.ok() && *more) {
    more = reader.Next(&transaction);
    if (!more.ok() || !*more) break;
    loaded.data_tree->Apply(transaction);
    loaded.last_zxid = transaction.zxid;
  }
  REQUIRE(more.ok());
  REQUIRE(loaded.data_tree->Finish(loaded.last_zxid).ok());
  return loaded;
}

constexpr int64_t kEpoch = int64_t{5} << 32;

void Everything(LogBuilder* log) {
  const std::vector<tree::Acl> list = {{tree::permission::kRead, {"digest", "u:hash"}}};
  RecordBuilder container, ttl;
  container.String("/c").String("").AclList().Int(1);
  ttl.String("/t").String("").AclList().Int(2).Long(60'000);
  log->Add(kEpoch + 1, Type::kCreateSession, RecordBuilder().Int(30000).bytes())
      .Add(kEpoch + 2, Type::kCreateContainer, container.bytes())
      .Add(kEpoch + 3, Type::kCreateTtl, ttl.bytes())
      .Add(kEpoch + 4, Type::kMulti,
           MultiRecord({{Type::kCreate, CreateRecord("/m", "m", false, 3)},
                        {Type::kCreate, CreateRecord("/m/b", "b", false, 1)},
                        {Type::kCreate, CreateRecord("/m/a", "a", false, 2)},
                        {Type::kCreate, CreateRecord("/m/a/x", "x", false, 1)}}))
      .Add(kEpoch + 5, Type::kCreate,
           RecordBuilder().String("/null").Null().AclList(list).Bool(false).Int(4).bytes())
      .Add(kEpoch + 6, Type::kCreate, CreateRecord("/m/e", "e", true, 3))
      .Add(kEpoch + 7, Type::kSetData, SetDataRecord("/m/b", "bb", 1))
      .Add(kEpoch + 8, Type::kSetAcl, RecordBuilder().String("/m/b").AclList(list).Int(1).bytes())
      .Add(kEpoch + 9, Type::kDelete, DeleteRecord("/m/a/x"));
}

std::unique_ptr<tree::Tree> TreeOf(const Importer& importer) {
  tree::TreeLoader loader;
  const absl::Status status = importer.ForEachRecord(
      [&loader](std::string_view key, std::string_view value) { return loader.Add(key, value); },
      Nothing);
  INFO(status);
  REQUIRE(status.ok());
  auto tree = loader.Finish(importer.summary().zxid, importer.summary().digest);
  REQUIRE(tree.ok());
  return *std::move(tree);
}

std::unique_ptr<tree::Tree> Import(LoadedDirectory* loaded) {
  const absl::StatusOr<Importer> importer = Importer::Create(loaded);
  INFO(importer.status());
  REQUIRE(importer.ok());
  return TreeOf(*importer);
}

std::string ImportError(const std::function<void(LogBuilder*)>& fill) {
  LoadedDirectory loaded = Loaded(fill);
  return std::string(Importer::Create(&loaded).status().message());
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string path = (std::filesystem::temp_directory_path() / "quorate-XXXXXX").string();
    REQUIRE(mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string ToHex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<uint8_t>(c) >> 4];
    text += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return text;
}

}  // namespace

TEST_CASE("session passwords are those that ZooKeeper derives") {
  CHECK(ToHex(SessionPassword(SessionId(1))) == "054cc74a37327db215e702e20c73f005");
  CHECK(ToHex(SessionPassword(SessionId(0x01000012345678ab))) ==
        "b7c3a6194c9474b12a7e41fccc5ebbcf");
}

TEST_CASE("an imported tree has all znodes and sessions") {
  LoadedDirectory loaded = Loaded(Everything);
  const std::unique_ptr<tree::Tree> tree = Import(&loaded);
  CHECK(tree->last_zxid() == Zxid(kEpoch + 9));
  CHECK(tree->digest() == tree->ComputeDigest());
  CHECK(tree->time_ms() == TimeOf(9));

  tree::Stat stat;
  REQUIRE(tree->FindStat("/m", &stat));
  CHECK(stat.czxid == Zxid(kEpoch + 4));
  CHECK(stat.pzxid == Zxid(kEpoch + 6));
  CHECK(stat.cversion == 3);
  CHECK(stat.num_children == 3);
  CHECK(stat.ctime_ms == TimeOf(4));
  REQUIRE(tree->FindStat("/m/a", &stat));
  CHECK(stat.cversion == 2);
  CHECK(stat.pzxid == Zxid(kEpoch + 9));
  REQUIRE(tree->FindStat("/m/b", &stat));
  CHECK(stat.version == 1);
  CHECK(stat.aversion == 1);
  CHECK(stat.mzxid == Zxid(kEpoch + 7));
  REQUIRE(tree->FindStat("/m/e", &stat));
  CHECK(stat.ephemeral_owner == SessionId(kSession));
  REQUIRE(tree->FindStat("/zookeeper/config", &stat));
  CHECK(stat.aversion == -1);

  std::string_view data;
  bool has_data = true;
  const std::vector<tree::Identity> user = {{"digest", "u:hash"}};
  REQUIRE(tree->GetData("/null", user, &data, &has_data, &stat) == tree::ErrorCode::kOk);
  CHECK_FALSE(has_data);
  CHECK(tree->GetData("/null", {}, &data, &has_data, &stat) == tree::ErrorCode::kNoAuth);
  CHECK(tree->FindExpired(TimeOf(9) + 100'000, 10) == std::vector<std::string>{"/t"});

  CHECK(tree->CheckPassword(SessionId(kSession), SessionPassword(SessionId(kSession))));
  CHECK(tree->Ephemerals(SessionId(kSession)) == std::vector<std::string>{"/m/e"});
}

TEST_CASE("all members of a new cluster get the same records and id, and other clusters do not") {
  LoadedDirectory one = Loaded(Everything);
  LoadedDirectory two = Loaded(Everything);
  const absl::StatusOr<Importer> first = Importer::Create(&one);
  const absl::StatusOr<Importer> second = Importer::Create(&two);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(first->summary().digest == second->summary().digest);
  CHECK(first->ClusterId("", {1, 2, 3}, {4}) == second->ClusterId("", {3, 2, 1}, {4}));
  CHECK(first->ClusterId("", {1, 2, 3}, {}) != first->ClusterId("", {1, 2}, {3}));
  CHECK(first->ClusterId("", {1}, {}).size() == 16);
  CHECK(first->ClusterId("staging", {1}, {}) != first->ClusterId("production", {1}, {}));
}

TEST_CASE("content that our tree cannot hold is refused") {
  CHECK_THAT(ImportError([](LogBuilder*) {}), Catch::Contains("nothing was ever written"));
  const std::string timeout = RecordBuilder().Int(1000).bytes();
  const int64_t of_server_255 = static_cast<int64_t>(0xFF00000000000001);
  CHECK_THAT(ImportError([&](LogBuilder* log) {
               log->Add(1, Type::kCreateSession, timeout, std::nullopt, of_server_255);
             }),
             Catch::Contains("0xff00000000000001"));
  CHECK_THAT(ImportError([&](LogBuilder* log) {
               log->Add(1, Type::kCreateSession, RecordBuilder().Int(0).bytes());
             }),
             Catch::Contains("timeout of 0 ms"));
  CHECK_THAT(ImportError([&](LogBuilder* log) {
               log->Add(1, Type::kCreate, CreateRecord("/a", "", true, 1), std::nullopt,
                        static_cast<int64_t>(0xFF01000000000001));
             }),
             Catch::Contains("the node /a is of an extended type"));
}

TEST_CASE("an export of an import has the same content") {
  LoadedDirectory loaded = Loaded(Everything);
  const std::unique_ptr<tree::Tree> tree = Import(&loaded);
  const TemporaryDirectory directory;
  const auto exported = ExportSnapshot(*tree, directory.path(), consensus::Env::Posix());
  INFO(exported.status());
  REQUIRE(exported.ok());
  CHECK(exported->file == directory.path() + "/version-2/snapshot.500000009");
  CHECK(exported->epoch == 5);
  CHECK(exported->nodes == tree->node_count());
  CHECK(exported->ttl_nodes == 1);

  DataDirectory source;
  source.data_dir = directory.path();
  auto again = LoadDirectory(source, Nothing);
  INFO(again.status());
  REQUIRE(again.ok());
  CHECK(again->digests_checked == 1);
  // The exported directory has no log.
  REQUIRE(again->warnings.size() == 1);
  CHECK_THAT(again->warnings[0], Catch::Contains("has no log"));
  const std::unique_ptr<tree::Tree> back = Import(&*again);
  // A snapshot does not contain the time of the last transaction.
  std::vector<std::string> records[2];
  const tree::Tree* trees[] = {tree.get(), back.get()};
  for (size_t i = 0; i < 2; ++i) {
    trees[i]->ForEachRecord([&](std::string_view key, std::optional<std::string_view> value) {
      if (key.size() > 1) records[i].push_back(std::string(key) + std::string(value.value_or("")));
    });
  }
  CHECK(records[0] == records[1]);

  SECTION("not over another snapshot") {
    const auto second = ExportSnapshot(*tree, directory.path(), consensus::Env::Posix());
    CHECK_THAT(std::string(second.status().message()), Catch::Contains("is there"));
  }
  SECTION("not of an empty tree") {
    const TemporaryDirectory other;
    CHECK(absl::IsFailedPrecondition(
        ExportSnapshot(tree::Tree(), other.path(), consensus::Env::Posix()).status()));
  }
}

}  // namespace quorate::tools::zookeeper
