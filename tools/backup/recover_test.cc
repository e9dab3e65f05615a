// SPDX-License-Identifier: Apache-2.0

// Tests `quorate recover` on directories that the server's own code has written.
#include "tools/backup/recover.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "consensus/log/data_dir.h"
#include "consensus/log/file_names.h"
#include "tools/backup/recovered_files.h"
#include "tools/offline/load_member.h"
#include "tools/offline/testing/offline_test_util.h"

namespace quorate::tools {
namespace {

namespace fs = std::filesystem;
using consensus::DataDir;
using consensus::Entry;
using consensus::Env;
using consensus::MemberId;
using consensus::Term;
using nlohmann::json;

constexpr uint64_t kFirst = static_cast<uint64_t>(kTestZxid.value()) + 1;

// A member with a checkpoint at kTestZxid and entries after it, one for each of `terms`.
class Survivor {
 public:
  Survivor(uint64_t member, const std::vector<uint64_t>& terms,
           std::vector<uint64_t> voters = {1, 2, 3}, std::string cluster_id = kTestClusterId) {
    FillTree(kTestZxid, &server_);
    NewMember made = TestMember(path(), member, std::move(voters));
    made.cluster_id = std::move(cluster_id);
    REQUIRE(MakeMember(made, server_.tree()).ok());
    auto dir = Open(member);
    REQUIRE(dir.ok());
    REQUIRE((*dir)
                ->WriteHardState({Term(kTestTerm + 5), consensus::kNoMember,
                                  consensus::Index(kFirst - 1), consensus::MemberState::kNormal},
                                 consensus::Index(kFirst - 1))
                .ok());
    for (size_t i = 0; i < terms.size(); ++i) {
      tree::Request request;
      const std::string data = "written " + std::to_string(i);
      request.ops.push_back(tree::MakeSetData("/app", data));
      std::string command;
      AppendRequest(server_.Next(tree::kSession, server_.AttachZxid()), request, &command);
      const Entry entry{consensus::Index(kFirst + i), Term(terms[i]),
                        consensus::EntryKind::kCommand, Slice(std::move(command))};
      REQUIRE((*dir)->log().Append({&entry, 1}).ok());
      REQUIRE((*dir)->log().Sync().ok());
    }
  }

  absl::StatusOr<std::unique_ptr<DataDir>> Open(uint64_t member = 1) const {
    return DataDir::Open(Env::Posix(), path(), MemberId(static_cast<uint32_t>(member)), {65536}, 1);
  }
  const std::string& path() const { return directory_.path(); }
  MemberPaths paths() const { return MemberPaths::Of(path(), ""); }

 private:
  TestDirectory directory_;
  tree::Server server_;
};

RecoverOptions Confirmed() {
  RecoverOptions options;
  options.addresses = {{1, "one:2888:3888"}, {2, "two:2888:3888"}, {3, "three:2888:3888"}};
  options.zxid_bump = 1000;
  options.new_name = "test";
  options.now_ms = 4'000'000'000'000;
  options.confirm = [] { return true; };
  return options;
}

// Returns the content of everything in a directory but the lock, by path.
std::map<std::string, std::string> ContentsOf(const std::string& directory) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    std::ostringstream text;
    if (entry.is_regular_file()) text << std::ifstream(entry.path()).rdbuf();
    contents[entry.path()] = text.str();
  }
  return contents;
}

std::string DataOf(const tree::Tree& tree, std::string_view path) {
  std::string_view data;
  bool has_data = false;
  tree::Stat stat;
  REQUIRE(tree.GetData(path, {}, &data, &has_data, &stat) == tree::ErrorCode::kOk);
  return std::string(data);
}

// Fails every change after the first `allowed` ones, as if the process had ended there.
class EndingEnv : public Env {
 public:
  explicit EndingEnv(int allowed) : left_(allowed) {}
  bool ended() const { return left_ < 0; }

  absl::StatusOr<std::unique_ptr<consensus::File>> OpenFile(const std::string& path,
                                                            bool create) override {
    if (create && !Spend()) return End();
    return real_.OpenFile(path, create);
  }
  absl::Status CreateDirectories(const std::string& path) override {
    return Spend() ? real_.CreateDirectories(path) : End();
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return real_.List(path);
  }
  bool Exists(const std::string& path) override { return real_.Exists(path); }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return Spend() ? real_.Rename(from, to) : End();
  }
  absl::Status Remove(const std::string& path) override {
    return Spend() ? real_.Remove(path) : End();
  }
  absl::Status SyncDirectory(const std::string& path) override { return real_.SyncDirectory(path); }
  absl::StatusOr<std::unique_ptr<consensus::DirectoryLock>> LockDirectory(
      const std::string& path) override {
    return real_.LockDirectory(path);
  }

 private:
  bool Spend() { return left_ >= 0 && --left_ >= 0; }
  static absl::Status End() { return absl::InternalError("the process ends"); }

  Env& real_ = *Env::Posix();
  int left_;
};

TEST_CASE("the survivor with the newest log becomes the only voter, with all its data") {
  // A later term counts more than a longer log.
  const Survivor longer(1, {8, 8, 8, 8}, {1, 2, 3, 4, 5});
  const Survivor newer(2, {8, 9}, {1, 2, 3, 4, 5});
  const auto before = ContentsOf(longer.path());
  std::ostringstream out;
  REQUIRE(Recover({longer.paths(), newer.paths()}, Confirmed(), out).ok());
  INFO(out.str());
  CHECK_THAT(out.str(), Catch::Contains("has fewer") && Catch::Contains("May be lost") &&
                            Catch::Contains("quorate rebuild DIR"));
  CHECK(ContentsOf(longer.path()) == before);

  auto loaded = LoadMember(newer.paths());
  REQUIRE(loaded.ok());
  CHECK(loaded->member == MemberId(2));
  CHECK(loaded->commit.only_voter);
  CHECK(loaded->cluster_id != kTestClusterId);
  CHECK(loaded->term == 10);
  CHECK(static_cast<uint64_t>(loaded->tree->last_zxid().value()) > kFirst + 1000);
  CHECK(DataOf(*loaded->tree, "/app") == "written 1");
  CHECK(loaded->tree->session_count() == 1);
  CHECK_THAT(DataOf(*loaded->tree, "/zookeeper/config"),
             Catch::StartsWith("server.2=two:2888:3888:participant\nversion="));
  CHECK(fs::exists(newer.path() + "/aside-recovered-4000000000000/identity"));
  CHECK(!fs::exists(newer.path() + "/recovering"));

  // The server.N lines of the old cluster still fit.
  auto dir = newer.Open(2);
  REQUIRE(dir.ok());
  Progress progress;
  const MemberExamination examined = ExamineMember(newer.paths(), &progress);
  REQUIRE(examined.checkpoint->meta.has_value());
  consensus::Membership configured;
  for (uint32_t i = 1; i <= 5; ++i) configured.voters.emplace_back(i);
  CHECK((*dir)->SettleMembership(configured, examined.checkpoint->meta).ok());
}

TEST_CASE("a recovered directory is left as it is") {
  const Survivor survivor(1, {8});
  std::ostringstream out;
  REQUIRE(Recover({survivor.paths()}, Confirmed(), out).ok());
  const auto before = ContentsOf(survivor.path());
  RecoverOptions again = Confirmed();
  again.json = true;
  std::ostringstream second;
  REQUIRE(Recover({survivor.paths()}, again, second).ok());
  CHECK(json::parse(second.str())["recovered"] == false);
  CHECK(ContentsOf(survivor.path()) == before);
}

TEST_CASE("a recovery that ends anywhere leaves the old member, or is completed by the next call") {
  bool old_seen = false;
  bool half_seen = false;
  for (int allowed = 0;; ++allowed) {
    INFO("the process ends after " << allowed << " changes");
    const Survivor survivor(1, {8});
    EndingEnv ending(allowed);
    RecoverOptions options = Confirmed();
    options.env = &ending;
    std::ostringstream out;
    const absl::Status status = Recover({survivor.paths()}, options, out);
    CHECK(status.ok() == !ending.ended());
    if (!status.ok()) {
      const auto opened = survivor.Open();
      if (opened.ok()) {
        old_seen = true;
        CHECK((*opened)->cluster_id() == kTestClusterId);
      } else {
        half_seen = true;
        CHECK_THAT(std::string(opened.status().message()), Catch::Contains("is incomplete"));
        CHECK(IsHalfRecovered(survivor.paths()));
      }
    }
    REQUIRE(Recover({survivor.paths()}, Confirmed(), out).ok());
    const auto loaded = LoadMember(survivor.paths());
    REQUIRE(loaded.ok());
    CHECK(loaded->commit.only_voter);
    CHECK(loaded->cluster_id != kTestClusterId);
    CHECK(DataOf(*loaded->tree, "/app") == "written 0");
    CHECK(!fs::exists(survivor.path() + "/recovering"));
    if (status.ok()) break;
  }
  CHECK(old_seen);
  CHECK(half_seen);
}

TEST_CASE("a recovery that goes on puts old files beside those that it has put aside already") {
  // Directories of earlier recoveries: by name the first is the last one, and the second is of a clock
  // that was ahead. The others are not of recoveries.
  const std::vector<std::string> others = {"aside-recovered-999", "aside-recovered-5000000000000",
                                           "aside-recovered-9x", "aside-recovered-"};
  int half = 0;
  for (int allowed = 0;; ++allowed) {
    INFO("the process ends after " << allowed << " changes");
    const Survivor survivor(1, {8});
    for (const std::string& name : others) fs::create_directory(survivor.path() + "/" + name);
    EndingEnv ending(allowed);
    RecoverOptions options = Confirmed();
    options.env = &ending;
    std::ostringstream out;
    const bool ended = !Recover({survivor.paths()}, options, out).ok();
    if (ended && IsHalfRecovered(survivor.paths())) ++half;
    REQUIRE(Recover({survivor.paths()}, Confirmed(), out).ok());
    for (const std::string& name : others) CHECK(fs::is_empty(survivor.path() + "/" + name));
    // A call that ended before it moved anything leaves an empty directory.
    std::vector<fs::path> asides;
    for (const auto& entry : fs::directory_iterator(survivor.path())) {
      const std::string name = entry.path().filename();
      if (name.starts_with("aside-recovered-500000000000") && !fs::is_empty(entry)) {
        asides.push_back(entry.path());
      }
    }
    REQUIRE(asides.size() == 1);
    CHECK(asides.front().filename() > others[1]);
    for (const char* file : {"identity", "log", "hard_state"}) {
      CHECK(fs::exists(asides.front() / file));
    }
    if (!ended) break;
  }
  CHECK(half > 0);
}

TEST_CASE("a recovery refuses what it would have to guess, and changes nothing") {
  const Survivor first(1, {8, 8});
  std::unique_ptr<Survivor> second;
  RecoverOptions options = Confirmed();
  std::string reason;
  SECTION("another cluster") {
    second = std::make_unique<Survivor>(2, std::vector<uint64_t>{8}, std::vector<uint64_t>{1, 2, 3},
                                        "another cluster!");
    reason = "are of different clusters";
  }
  SECTION("the same member twice") {
    second = std::make_unique<Survivor>(1, std::vector<uint64_t>{8});
    reason = "are both of member 1";
  }
  SECTION("a majority") {
    second = std::make_unique<Survivor>(2, std::vector<uint64_t>{8});
    reason = "are those of a majority of the voters (1, 2, 3)";
  }
  SECTION("a member that was removed") {
    second = std::make_unique<Survivor>(4, std::vector<uint64_t>{}, std::vector<uint64_t>{1, 2, 4});
    reason = "it was removed";
  }
  SECTION("no address") {
    options.addresses.clear();
    reason = "--address 1=HOST:PORT:PORT";
  }
  SECTION("an address at which others cannot reach it") {
    options.addresses[1] = "0.0.0.0:1:2";
    reason = "other members cannot reach it there";
  }
  SECTION("no confirmation") {
    options.confirm = [] { return false; };
    reason = "nothing was changed";
  }
  SECTION("a damaged directory") {
    std::ofstream(first.path() + "/identity") << "damaged";
    reason = "Nothing is recovered while a given directory is damaged";
  }
  std::vector<MemberPaths> paths{first.paths()};
  if (second != nullptr) paths.push_back(second->paths());
  const auto before = ContentsOf(first.path());
  std::ostringstream out;
  const absl::Status status = Recover(paths, options, out);
  CHECK(!status.ok());
  CHECK_THAT(std::string(status.message()), Catch::Contains(reason));
  CHECK(ContentsOf(first.path()) == before);
}

TEST_CASE("a recovery refuses the directory of a running server") {
  const Survivor survivor(1, {8});
  const auto server = survivor.Open();
  REQUIRE(server.ok());
  std::ostringstream out;
  CHECK(absl::IsFailedPrecondition(Recover({survivor.paths()}, Confirmed(), out)));
}

}  // namespace
}  // namespace quorate::tools
