// SPDX-License-Identifier: Apache-2.0

// Tests the tools for the directories of stopped members, on directories written by the server's
// own code.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "consensus/core/membership.h"
#include "consensus/log/data_dir.h"
#include "rpc/member/checkpoints/checkpoint_metadata.h"
#include "rpc/member/checkpoints/divergence_marker.h"
#include "rpc/member/disk/incarnation.h"
#include "tools/offline/load_member.h"
#include "tools/offline/log_dump.h"
#include "tools/offline/printing.h"
#include "tools/offline/rebuild.h"
#include "tools/offline/snapshot_diff.h"
#include "tools/offline/snapshot_dump.h"
#include "tools/offline/testing/offline_test_util.h"
#include "tools/offline/verify.h"
#include "tree/store/backup_file.h"

namespace quorate::tools {
namespace {

namespace fs = std::filesystem;
using consensus::DataDir;
using consensus::Entry;
using consensus::EntryKind;
using consensus::Index;
using consensus::Term;
using nlohmann::json;

constexpr int64_t kNowMs = 4'000'000'000'000;

// Returns the content and the modification time of everything in a directory, by path.
std::map<std::string, std::string> ContentsOf(const std::string& directory) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    std::ostringstream text;
    text << entry.last_write_time().time_since_epoch().count() << "\n";
    if (entry.is_regular_file()) text << std::ifstream(entry.path()).rdbuf();
    contents[entry.path()] = text.str();
  }
  return contents;
}

// Flips one bit of a file.
void Damage(const std::string& path, uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const char byte = static_cast<char>(file.get() ^ 4);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(byte);
  REQUIRE(file.good());
}

// Zeros bytes, as a power failure leaves bytes that were not written yet.
void Erase(const std::string& path, uint64_t begin, uint64_t end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(begin));
  file << std::string(end - begin, '\0');
  REQUIRE(file.good());
}

std::string OnlySegment(const std::string& directory) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(directory + "/log")) {
    paths.push_back(entry.path());
  }
  REQUIRE(paths.size() == 1);
  return paths.front();
}

// A member with a checkpoint at kTestZxid and `entries` entries after it, each a request of 100
// bytes.
class Member {
 public:
  explicit Member(std::vector<uint64_t> voters = {1, 2, 3}, uint64_t entries = 5) {
    FillTree(kTestZxid, &server_);
    const absl::Status made = MakeMember(TestMember(path(), 1, std::move(voters)), server_.tree());
    REQUIRE(made.ok());
    auto dir = Open();
    std::vector<Entry> list;
    for (uint64_t i = 1; i <= entries; ++i) {
      const std::string data = i == 2 ? "\x1b[2J" : std::string(100, 'd');
      tree::Request request;
      request.ops.push_back(tree::MakeSetData("/app", data));
      std::string command;
      AppendRequest(server_.Next(tree::kSession, server_.AttachZxid()), request, &command);
      list.push_back(
          {First() + (i - 1), Term(kTestTerm + 1), EntryKind::kCommand, Slice(std::move(command))});
    }
    REQUIRE(dir->WriteHardState({Term(kTestTerm + 1), consensus::MemberId(1), First()}, First() - 1)
                .ok());
    // Appends one by one, so that each record proves that the records before it were durable.
    for (const Entry& entry : list) {
      REQUIRE(dir->log().Append({&entry, 1}).ok());
      REQUIRE(dir->log().Sync().ok());
    }
  }

  static Index First() { return Index(static_cast<uint64_t>(kTestZxid.value()) + 1); }
  const std::string& path() const { return directory_.path(); }
  MemberPaths paths() const { return MemberPaths::Of(path(), ""); }
  tree::Server& server() { return server_; }

  std::unique_ptr<DataDir> Open() const {
    auto dir = DataDir::Open(consensus::Env::Posix(), path(), consensus::MemberId(1), {65536}, 1);
    REQUIRE(dir.ok());
    return *std::move(dir);
  }

  absl::Status Verify(json* document) const {
    std::ostringstream out;
    absl::Status status = tools::Verify(paths(), /*json=*/true, out);
    *document = json::parse(out.str(), nullptr, /*allow_exceptions=*/false);
    return status;
  }

 private:
  TestDirectory directory_;
  tree::Server server_;
};

// Returns the only problem that verify finds.
json OnlyProblem(const Member& member) {
  json document;
  const absl::Status status = member.Verify(&document);
  INFO(document.dump(2));
  CHECK(absl::IsDataLoss(status));
  CHECK(document["whole"] == false);
  std::vector<json> problems;
  for (const json& finding : document["findings"]) {
    if (finding["problem"] == true) problems.push_back(finding);
  }
  REQUIRE(problems.size() == 1);
  CHECK(!problems[0]["advice"].get<std::string>().empty());
  return problems[0];
}

TEST_CASE("verify finds no problem with a whole member, and changes no byte") {
  Member member;
  // The ballast file is not examined.
  if (GENERATE(false, true)) REQUIRE(member.Open()->log().MakeBallast().ok());
  const auto before = ContentsOf(member.path());
  json document;
  const absl::Status status = member.Verify(&document);
  INFO(document.dump(2));
  CHECK(status.ok());
  CHECK(document["whole"] == true);
  CHECK(document["findings"].empty());
  CHECK(document["identity"]["member"] == 1);
  CHECK(document["log"]["last_index"] == (Member::First() + 4).value());
  CHECK(document["checkpoint"]["whole"] == true);
  CHECK(document["checkpoint"]["znodes"] == member.server().tree().node_count());
  CHECK(document["hard_state"]["whole_copies"] == 2);
  std::ostringstream out;
  CHECK(Verify(member.paths(), /*json=*/false, out).ok());
  CHECK_THAT(out.str(), Catch::Contains("whole: a server can start from it") &&
                            Catch::Contains("zxid 0x500000123"));
  CHECK(DumpLog(member.paths(), {}, out).ok());
  CHECK(DumpSnapshot(member.path(), {}, out).ok());
  CHECK(ContentsOf(member.path()) == before);
}

TEST_CASE("verify reports which entries a member knows to be committed") {
  const uint64_t first = Member::First().value();
  json document;
  std::ostringstream out;
  SECTION("of several voters: up to the saved commit index") {
    Member member;
    REQUIRE(member.Verify(&document).ok());
    CHECK(document["committed"] ==
          json({{"known", first}, {"open_entries", 4}, {"only_voter", false}}));
    REQUIRE(Verify(member.paths(), /*json=*/false, out).ok());
    CHECK_THAT(out.str(), Catch::Contains("committed   up to entry " + std::to_string(first) +
                                          " for certain; of the rest, 4, only"));
  }
  SECTION("of one voter: all entries") {
    Member member({1});
    REQUIRE(member.Verify(&document).ok());
    CHECK(document["committed"] ==
          json({{"known", first + 4}, {"open_entries", 0}, {"only_voter", true}}));
    REQUIRE(Verify(member.paths(), /*json=*/false, out).ok());
    CHECK_THAT(out.str(), Catch::Contains("all that is there: no other member votes"));
  }
  SECTION("of a damaged member: none") {
    Member member;
    fs::remove(member.path() + "/hard_state");
    CHECK_FALSE(member.Verify(&document).ok());
    CHECK_FALSE(document.contains("committed"));
  }
}

TEST_CASE("verify only remarks on what a start repairs, and changes nothing") {
  Member member;
  // Damage to the last record looks like a torn write, because no valid record follows.
  const std::string segment = OnlySegment(member.path());
  json document;
  REQUIRE(member.Verify(&document).ok());
  std::ostringstream dump;
  LogDumpOptions options;
  options.json = true;
  REQUIRE(DumpLog(member.paths(), options, dump).ok());
  const uint64_t offset = json::parse(dump.str())["items"].back()["offset"];
  Erase(segment, offset, offset + 40);
  Damage(member.path() + "/hard_state", 4096 + 20);
  const auto before = ContentsOf(member.path());
  const absl::Status status = member.Verify(&document);
  INFO(document.dump(2));
  CHECK(status.ok());
  REQUIRE(document["findings"].size() == 2);
  CHECK(document["findings"][0]["offset"] == 4096);
  CHECK(document["findings"][1]["file"] == segment);
  CHECK(document["findings"][1]["offset"] == offset);
  CHECK(document["log"]["last_index"] == (Member::First() + 3).value());
  std::ostringstream text;
  CHECK(DumpLog(member.paths(), {}, text).ok());
  CHECK_THAT(text.str(), Catch::Contains("-- torn: " + segment));
  CHECK(ContentsOf(member.path()) == before);
  // A server can start from the directory.
  CHECK(member.Open()->log().last_index() == Member::First() + 3);
}

TEST_CASE("verify distinguishes damage from a torn tail, and reports its place and what follows") {
  Member member;
  const std::string segment = OnlySegment(member.path());
  std::ostringstream dump;
  LogDumpOptions options;
  options.json = true;
  REQUIRE(DumpLog(member.paths(), options, dump).ok());
  const json items = json::parse(dump.str())["items"];
  REQUIRE(items.size() == 5);
  const uint64_t offset = items[2]["offset"];
  Damage(segment, offset + 50);
  const json problem = OnlyProblem(member);
  CHECK(problem["file"] == segment);
  CHECK(problem["offset"] == offset);
  CHECK_THAT(problem["what"].get<std::string>(),
             Catch::Contains("record of entry " + std::to_string(Member::First().value() + 2)));
  CHECK_THAT(problem["advice"].get<std::string>(), Catch::Contains("quorate rebuild"));
  // The entries before the damage in the same file are still found.
  json document;
  CHECK(absl::IsDataLoss(member.Verify(&document)));
  CHECK(document["log"]["last_readable_index"] == Member::First().value() + 1);
  std::ostringstream facts;
  CHECK(absl::IsDataLoss(tools::Verify(member.paths(), /*json=*/false, facts)));
  CHECK_THAT(facts.str(),
             Catch::Contains("entries " + std::to_string(Member::First().value()) + " to " +
                             std::to_string(Member::First().value() + 1) + ", in 1 file; damaged"));
  // A server reports the same damage.
  auto dir =
      DataDir::Open(consensus::Env::Posix(), member.path(), consensus::MemberId(1), {65536}, 1);
  CHECK(absl::IsDataLoss(dir.status()));
  CHECK_THAT(std::string(dir.status().message()),
             Catch::Contains("quorate verify") && Catch::Contains("quorate rebuild"));
  std::ostringstream text;
  CHECK(absl::IsDataLoss(DumpLog(member.paths(), {}, text)));
  CHECK_THAT(text.str(), Catch::Contains(std::to_string(Member::First().value() + 1) + "  term") &&
                             Catch::Contains("-- damage: " + segment));
}

TEST_CASE("verify reports every other problem that keeps a server from starting") {
  Member member;
  SECTION("the identity is damaged") {
    Damage(member.path() + "/identity", 12);
    CHECK(OnlyProblem(member)["file"] == member.path() + "/identity");
  }
  SECTION("the hard state is gone") {
    fs::remove(member.path() + "/hard_state");
    CHECK(OnlyProblem(member)["file"] == member.path() + "/hard_state");
  }
  SECTION("both copies of the hard state are damaged") {
    Damage(member.path() + "/hard_state", 20);
    Damage(member.path() + "/hard_state", 4096 + 20);
    CHECK(OnlyProblem(member)["offset"] == 0);
  }
  SECTION("the log is gone") {
    fs::remove_all(member.path() + "/log");
    CHECK(OnlyProblem(member)["file"] == member.path() + "/log");
  }
  SECTION("the checkpoint is gone") {
    fs::remove_all(member.path() + "/checkpoints");
    CHECK_THAT(OnlyProblem(member)["what"].get<std::string>(), Catch::Contains("no checkpoint"));
  }
  SECTION("a file of the store is damaged") {
    std::string largest;
    for (const auto& entry : fs::recursive_directory_iterator(member.path() + "/checkpoints")) {
      if (entry.path().extension() == ".sst") largest = entry.path();
    }
    Damage(largest, 30);
    CHECK_THAT(OnlyProblem(member)["what"].get<std::string>(), Catch::Contains(".sst"));
  }
  SECTION("\"current\" names nothing") {
    std::ofstream(member.path() + "/checkpoints/current") << "\x1b[31m";
    CHECK(OnlyProblem(member)["file"] == member.path() + "/checkpoints");
  }
  SECTION("an old hard state was put back") {
    const std::string path = member.path() + "/hard_state";
    fs::remove(path);
    auto file = consensus::HardStateFile::Create(consensus::Env::Posix(), path);
    REQUIRE(file.ok());
    REQUIRE((*file)->Write({{Term(1), consensus::kNoMember, Index(1)}, Index(1)}).ok());
    CHECK_THAT(OnlyProblem(member)["what"].get<std::string>(), Catch::Contains("old copy"));
  }
  SECTION("it is marked as differing from the others") {
    REQUIRE(rpc::WriteDivergenceMarker(consensus::Env::Posix(), member.path(), {5, 6, 7}).ok());
    CHECK(OnlyProblem(member)["file"] == member.path() + "/diverged");
  }
  SECTION("the incarnation is not a number") {
    std::ofstream(member.path() + "/incarnation") << "many";
    CHECK(OnlyProblem(member)["file"] == member.path() + "/incarnation");
  }
  SECTION("myid names another member") {
    std::ofstream(member.path() + "/myid") << "2\n";
    CHECK(OnlyProblem(member)["file"] == member.path() + "/myid");
  }
  SECTION("it is marked as incomplete") {
    std::ofstream(member.path() + "/unfinished") << "";
    CHECK(OnlyProblem(member)["file"] == member.path() + "/unfinished");
  }
  SECTION("no server can apply an entry") {
    {
      auto dir = member.Open();
      const Entry entry{Member::First() + 5, Term(kTestTerm + 1), EntryKind::kCommand,
                        Slice(std::string("nonsense"))};
      REQUIRE(dir->log().Append({&entry, 1}).ok());
      REQUIRE(dir->log().Sync().ok());
    }
    CHECK_THAT(OnlyProblem(member)["what"].get<std::string>(),
               Catch::Contains("no server can apply it"));
  }
}

TEST_CASE("a stopped member's tree is its checkpoint with all of its log applied") {
  const Member member;
  const auto before = ContentsOf(member.path());
  auto loaded = LoadMember(member.paths());
  REQUIRE(loaded.ok());
  CHECK(ContentsOf(member.path()) == before);
  CHECK(loaded->tree->last_zxid() == kTestZxid + 5);
  std::string_view data;
  bool has_data = false;
  tree::Stat stat;
  REQUIRE(loaded->tree->GetData("/app", {}, &data, &has_data, &stat) == tree::ErrorCode::kOk);
  CHECK(data == std::string(100, 'd'));
  CHECK(stat.mzxid == kTestZxid + 5);
  CHECK(loaded->member == consensus::MemberId(1));
  CHECK(loaded->cluster_id == kTestClusterId);
  CHECK(loaded->term == kTestTerm + 1);
  // According to the hard state, only the first of five entries is committed.
  CHECK(loaded->commit.known == Member::First());
  CHECK(loaded->commit.open == 4);
  CHECK_FALSE(loaded->commit.only_voter);
  CHECK_FALSE(loaded->was_recovering);
  uint64_t records = 0;
  loaded->tree->ForEachRecord(
      [&](std::string_view, std::optional<std::string_view>) { ++records; });
  CHECK(loaded->records == records);

  // All members that are restored from the same data belong to one cluster; other data give
  // another.
  CHECK(LoadMember(member.paths())->checksum == loaded->checksum);
  const Member shorter({1, 2, 3}, 4);
  CHECK(LoadMember(shorter.paths())->checksum != loaded->checksum);
  // All entries of an only voter are committed.
  const Member alone({1});
  const auto of_alone = LoadMember(alone.paths());
  CHECK(of_alone->commit.only_voter);
  CHECK(of_alone->commit.open == 0);
}

TEST_CASE("a tree is not loaded from a directory that is damaged, empty or in use") {
  const Member member;
  const auto segment = OnlySegment(member.path());
  {
    const auto running = member.Open();
    CHECK(absl::IsFailedPrecondition(LoadMember(member.paths()).status()));
  }
  std::ostringstream dump;
  LogDumpOptions options;
  options.json = true;
  REQUIRE(DumpLog(member.paths(), options, dump).ok());
  const uint64_t offset = json::parse(dump.str())["items"][2]["offset"];
  Damage(segment, offset + 50);
  const absl::Status damaged = LoadMember(member.paths()).status();
  INFO(damaged);
  CHECK(absl::IsDataLoss(damaged));
  CHECK_THAT(std::string(damaged.message()),
             Catch::Contains(segment) && Catch::Contains("quorate verify"));
  const TestDirectory empty;
  CHECK_FALSE(LoadMember(MemberPaths::Of(empty.path(), "")).ok());
  REQUIRE(DataDir::Open(consensus::Env::Posix(), empty.path(), consensus::MemberId(1), {65536}, 1)
              .ok());
  const absl::Status is_new = LoadMember(MemberPaths::Of(empty.path(), "")).status();
  CHECK(absl::IsFailedPrecondition(is_new));
  CHECK_THAT(std::string(is_new.message()), Catch::Contains("holds no data"));
  CHECK(absl::IsNotFound(LoadMember(MemberPaths::Of(empty.path() + "/none", "")).status()));
}

TEST_CASE("all tools refuse the directory of a running member") {
  Member member;
  auto running = member.Open();
  json document;
  std::ostringstream out;
  const auto is_refusal = [](const absl::Status& status) {
    CHECK_THAT(std::string(status.message()), Catch::Contains("running server"));
    return absl::IsFailedPrecondition(status);
  };
  CHECK(is_refusal(member.Verify(&document)));
  CHECK(is_refusal(DumpLog(member.paths(), {}, out)));
  CHECK(is_refusal(DumpSnapshot(member.path(), {}, out)));
  RebuildOptions options;
  options.now_ms = kNowMs;
  options.confirm = [] { return true; };
  CHECK(is_refusal(Rebuild(member.paths(), options, out)));
  CHECK(fs::exists(member.path() + "/identity"));
}

TEST_CASE("a line of a log dump names session and operation, and is safe for a terminal") {
  Member member;
  std::ostringstream out;
  LogDumpOptions options;
  options.from = Member::First().value() + 1;
  options.to = options.from;
  options.data = true;
  REQUIRE(DumpLog(member.paths(), options, out).ok());
  CHECK(out.str() ==
        "21474836773  term 8  2023-11-14 22:13:20.000 UTC  session "
        "0x100000000000001  setData /app (4 bytes) hex:1b5b324a\n");
  CHECK_THAT(out.str(), !Catch::Contains("\x1b"));
}

TEST_CASE("a log dump shows the compares and both branches of a transaction") {
  Member member;
  tree::Request request;
  request.multi = true;
  request.has_branches = true;
  request.compares = {
      {tree::CompareTarget::kMzxid, tree::CompareRelation::kNotEqual, "/a", 5, {}},
      {tree::CompareTarget::kValue, tree::CompareRelation::kLess, "/b", 0, "\x1b[2J"}};
  request.ops = {tree::MakeCreate("/a/b"), tree::MakeDelete("/c")};
  request.ops[0].with_parents = true;
  request.then_count = 1;
  std::string command;
  AppendRequest(tree::CommandHeader(), request, &command);
  const Entry entry{Member::First() + 5, Term(kTestTerm + 1), EntryKind::kCommand,
                    Slice(std::move(command))};
  {
    auto dir = member.Open();
    REQUIRE(dir->log().Append({&entry, 1}).ok());
    REQUIRE(dir->log().Sync().ok());
  }
  LogDumpOptions options;
  options.from = entry.index.value();
  const auto dump = [&] {
    std::ostringstream out;
    REQUIRE(DumpLog(member.paths(), options, out).ok());
    return out.str();
  };
  CHECK_THAT(dump(), Catch::EndsWith("multi of 2 operations\n"
                                     "    if mzxid of /a != 5\n"
                                     "    if data of /b < (4 bytes)\n"
                                     "    create /a/b with parents (0 bytes)\n"
                                     "   otherwise\n"
                                     "    delete /c\n"));
  options.data = true;
  CHECK_THAT(dump(), Catch::Contains("if data of /b < hex:1b5b324a\n"));
  options.json = true;
  const json shown = json::parse(dump())["items"].back();
  CHECK(shown["then"] == 1);
  CHECK(shown["compares"][0]["number"] == 5);
  CHECK(shown["operations"][0]["with_parents"] == true);
}

TEST_CASE("a dump of a tree shows all fields of znodes, and no secrets") {
  Member member;
  std::ostringstream out;
  SnapshotDumpOptions options;
  options.json = true;
  REQUIRE(DumpSnapshot(member.path(), options, out).ok());
  const json document = json::parse(out.str());
  CHECK(document["head"]["zxid"] == "0x500000123");
  CHECK(document["sessions"].size() == 1);
  std::map<std::string, json> nodes;
  for (const json& node : document["znodes"]) nodes[node["path"]] = node;
  CHECK(nodes.size() == member.server().tree().node_count());
  CHECK(nodes["/app"]["data"] == "text");
  CHECK(nodes["/app"]["num_children"] == 3);
  CHECK(nodes["/app"]["cversion"] == 3);
  CHECK(nodes["/app/bytes"]["data_hex"] == "1b00ff");
  CHECK(nodes["/app/ephemeral"]["ephemeral_owner"] == "0x100000000000001");
  CHECK(nodes["/app/closed"]["acl"][0]["permissions"] == "r");
  // The dump shows no passwords of sessions.
  CHECK_THAT(out.str(), !Catch::Contains(std::string(tree::kPassword)));

  std::ostringstream part;
  options = {};
  options.path = "/app/bytes";
  REQUIRE(DumpSnapshot(member.path(), options, part).ok());
  CHECK_THAT(part.str(), Catch::Contains("data 3 bytes hex:1b00ff") &&
                             !Catch::Contains("/app/closed") && !Catch::Contains("\x1b"));
  options.path = "/nowhere";
  CHECK(absl::IsNotFound(DumpSnapshot(member.path(), options, part)));
}

TEST_CASE("a diff compares all fields of two trees, or of a tree and a backup") {
  Member member;
  const std::string backup =
      member.path() + "/../backup-" + fs::path(member.path()).filename().string();
  tree::BackupHeader header;
  header.cluster_id = kTestClusterId;
  header.zxid = kTestZxid;
  header.term = kTestTerm;
  const auto write_backup = [&](tree::Server& server) {
    header.digest = server.tree().digest();
    auto writer = tree::BackupFileWriter::Create(backup, header);
    REQUIRE(writer.ok());
    server.tree().ForEachRecord([&](std::string_view key, std::optional<std::string_view> value) {
      REQUIRE((*writer)->Add(key, *value).ok());
    });
    REQUIRE((*writer)->Finish().ok());
  };
  const auto diff = [&](std::string* text) {
    std::ostringstream out;
    auto differences = DiffSnapshots(member.path(), backup, /*json=*/false, out);
    REQUIRE(differences.ok());
    *text = out.str();
    return *differences;
  };
  std::string text;
  write_backup(member.server());
  CHECK(diff(&text) == 0);
  CHECK(text.empty());

  // Equal to the tree in the member, except for one value, one session and one node.
  tree::Server other;
  FillTree(tree::Zxid(50), &other);
  other.Do(tree::MakeSetData("/app", "other"));
  other.Do(tree::MakeCreate("/new", ""));
  other.OpenSession(tree::kOtherSession);
  write_backup(other);
  CHECK(diff(&text) == 5);
  CHECK_THAT(text, Catch::Contains("znode /app\n") && Catch::Contains("only in b: znode /new") &&
                       Catch::Contains("data: \"text\" in a, \"other\" in b") &&
                       Catch::Contains("only in b: session 0x100000000000002") &&
                       Catch::Contains("znode /\n"));
  std::ostringstream out;
  REQUIRE(DiffSnapshots(backup, member.path(), /*json=*/true, out).ok());
  const json document = json::parse(out.str());
  CHECK(document["same"] == false);
  CHECK(document["differences"].size() == 5);
  std::ostringstream dump;
  CHECK(DumpSnapshot(backup, {}, dump).ok());
  CHECK_THAT(dump.str(), Catch::Contains("/new\n"));
  Damage(backup, 300);
  CHECK(absl::IsDataLoss(DumpSnapshot(backup, {}, dump)));
  fs::remove(backup);
}

RebuildOptions Confirmed() {
  RebuildOptions options;
  options.now_ms = kNowMs;
  options.confirm = [] { return true; };
  return options;
}

TEST_CASE("rebuild moves a member's data aside, and the member starts as a new one") {
  Member member;
  std::ofstream(member.path() + "/zoo.cfg") << "tickTime=2000\n";
  REQUIRE(rpc::WriteDivergenceMarker(consensus::Env::Posix(), member.path(), {5, 6, 7}).ok());
  std::ostringstream out;
  RebuildOptions options = Confirmed();
  SECTION("only after confirmation") {
    const auto before = ContentsOf(member.path() + "/log");
    options.confirm = [] { return false; };
    CHECK(absl::IsCancelled(Rebuild(member.paths(), options, out)));
    CHECK_THAT(out.str(), Catch::Contains("CHECK FIRST") && Catch::Contains("voters are 1 2 3"));
    CHECK(ContentsOf(member.path() + "/log") == before);
    return;
  }
  options.remove = GENERATE(false, true);
  const auto log_before = ContentsOf(member.path() + "/log").size();
  REQUIRE(Rebuild(member.paths(), options, out).ok());
  const std::string aside = member.path() + "/aside-20961002-070640";
  CHECK(fs::exists(aside) != options.remove);
  if (!options.remove) {
    CHECK(ContentsOf(aside + "/log").size() == log_before);
    for (const char* name : {"identity", "hard_state", "incarnation", "checkpoints", "diverged"}) {
      CHECK(fs::exists(aside + "/" + name));
    }
  }
  CHECK(fs::exists(member.path() + "/myid"));
  CHECK(fs::exists(member.path() + "/zoo.cfg"));
  auto dir = DataDir::Open(consensus::Env::Posix(), member.path(), consensus::MemberId(1), {65536},
                           static_cast<uint64_t>(kNowMs));
  REQUIRE(dir.ok());
  CHECK((*dir)->hard_state().member_state == consensus::MemberState::kNew);
  CHECK((*dir)->cluster_id().empty());
}

TEST_CASE("rebuild refuses the only voter, and a directory without data") {
  std::ostringstream out;
  SECTION("the only voter") {
    Member alone({1});
    const absl::Status status = Rebuild(alone.paths(), Confirmed(), out);
    CHECK(absl::IsFailedPrecondition(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains("only voter"));
    CHECK(fs::exists(alone.path() + "/identity"));
  }
  SECTION("a directory without data") {
    TestDirectory empty;
    CHECK(absl::IsNotFound(Rebuild(MemberPaths::Of(empty.path(), ""), Confirmed(), out)));
    CHECK(absl::IsNotFound(Rebuild(MemberPaths::Of(empty.path() + "/no", ""), Confirmed(), out)));
  }
}

TEST_CASE("a member whose incarnation is ahead of the clock can be rebuilt") {
  Member member;
  REQUIRE(rpc::SaveIncarnation(consensus::Env::Posix(), member.path(), kNowMs + 1).ok());
  std::ostringstream out;
  CHECK(Rebuild(member.paths(), Confirmed(), out).ok());
}

TEST_CASE("a server refuses an interrupted rebuild, and a second rebuild completes it") {
  // The order in which the files are moved.
  const std::vector<std::string> names = {"identity", "checkpoints", "hard_state", "log",
                                          "incarnation"};
  for (size_t moved = 1; moved < names.size(); ++moved) {
    CAPTURE(moved);
    Member member;
    for (size_t i = 0; i < moved; ++i) {
      fs::create_directory(member.path() + "/aside-before");
      fs::rename(member.path() + "/" + names[i], member.path() + "/aside-before/" + names[i]);
    }
    CHECK_FALSE(
        DataDir::Open(consensus::Env::Posix(), member.path(), consensus::MemberId(1), {65536}, 1)
            .ok());
    std::ostringstream out;
    REQUIRE(Rebuild(member.paths(), Confirmed(), out).ok());
    CHECK(DataDir::Open(consensus::Env::Posix(), member.path(), consensus::MemberId(1), {65536}, 1)
              .ok());
  }
}

TEST_CASE("an observer of the only voter is rebuilt, even after an interrupted rebuild") {
  const std::vector<std::string> names = {"identity", "checkpoints", "hard_state", "log"};
  const bool is_observer = GENERATE(true, false);
  for (size_t moved = 0; moved < names.size(); ++moved) {
    CAPTURE(is_observer, moved);
    const TestDirectory directory;
    tree::Server server;
    FillTree(kTestZxid, &server);
    NewMember member = TestMember(directory.path(), is_observer ? 2 : 1, {1});
    member.observers = {2};
    const absl::Status made = MakeMember(std::move(member), server.tree());
    REQUIRE(made.ok());
    // Directories of other rebuilds, from other times.
    fs::create_directory(directory.path() + "/aside-20200101-000000");
    fs::create_directory(directory.path() + "/aside-20960101-000000");
    for (size_t i = 0; i < moved; ++i) {
      fs::rename(directory.path() + "/" + names[i],
                 directory.path() + "/aside-20960101-000000/" + names[i]);
    }
    std::ostringstream out;
    const absl::Status status = Rebuild(MemberPaths::Of(directory.path(), ""), Confirmed(), out);
    INFO(status);
    // The membership is in the checkpoint here.
    const bool is_known = moved < 2;
    CHECK(status.ok() == (is_observer || !is_known));
    CHECK(fs::exists(directory.path() + "/log") == !status.ok());
  }
}

TEST_CASE("a rebuild moves the checkpoints before the log") {
  const std::vector<std::string> names = {"identity", "checkpoints", "hard_state", "log",
                                          "incarnation"};
  Member member;
  const std::string data_dir = member.path() + "-data";
  fs::create_directory(data_dir);
  fs::rename(member.path() + "/checkpoints", data_dir + "/checkpoints");
  std::ostringstream out;
  RebuildOptions options = Confirmed();
  options.json = true;
  REQUIRE(Rebuild(MemberPaths::Of(data_dir, member.path()), options, out).ok());
  const json moved = json::parse(out.str())["moved"];
  REQUIRE(moved.size() == names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& directory = names[i] == "checkpoints" ? data_dir : member.path();
    CHECK(moved[i]["from"] == directory + "/" + names[i]);
  }
  fs::remove_all(data_dir);
}

TEST_CASE("bytes of clients are escaped for a terminal") {
  CHECK(Escape("plain \xC3\xA4\n\\") == "plain \xC3\xA4\\n\\\\");
  CHECK(Escape("\x1b[31m") == "\\x1b[31m");
  CHECK(Escape("\xC2\x9B") == "\\xc2\\x9b");           // one character that begins a sequence
  CHECK(Escape("\xE2\x80\xAE") == "\\xe2\\x80\\xae");  // reverses the direction of writing
  CHECK(Escape("\xff\xC3") == "\\xff\\xc3");
  CHECK(Escape(std::string_view("\0\x7f", 2)) == "\\x00\\x7f");
  CHECK(TextOrHex("say \"hi\"") == "\"say \\\"hi\\\"\"");
  CHECK(TextOrHex("\x1b") == "hex:1b");
  CHECK(IsText("a\tb\n"));
  CHECK_FALSE(IsText("\xED\xA0\x80"));  // half of a surrogate pair
  CHECK_FALSE(IsText("\xC0\xAF"));
  CHECK(TimeText(1'700'000'000'123) == "2023-11-14 22:13:20.123 UTC");
  CHECK(TimeText(-5) == "-5 ms");
}

}  // namespace
}  // namespace quorate::tools
