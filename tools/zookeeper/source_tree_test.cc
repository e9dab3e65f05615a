// SPDX-License-Identifier: Apache-2.0

// Tests the export from members, on directories written by the server's own code.
#include "tools/zookeeper/source_tree.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "consensus/core/membership.h"
#include "consensus/log/data_dir.h"
#include "consensus/log/hard_state_file.h"
#include "tools/offline/testing/offline_test_util.h"
#include "tree/store/backup_file.h"

namespace quorate::tools::zookeeper {
namespace {

namespace fs = std::filesystem;
using consensus::DataDir;
using consensus::Entry;
using consensus::EntryKind;
using consensus::Index;
using consensus::Term;
using tree::Zxid;

constexpr uint64_t kEntries = 5;
constexpr uint64_t kLogTerm = kTestTerm + 1;

Index At(uint64_t distance) { return Index(static_cast<uint64_t>(kTestZxid.value()) + distance); }

// Member 1, with a checkpoint at kTestZxid and kEntries entries after it. Entry number N creates
// the znode /N.
class Member {
 public:
  struct Shape {
    std::vector<uint64_t> voters = {1, 2, 3};
    std::vector<uint64_t> observers{};
    Index commit_hint = At(0);
    consensus::MemberState member_state = consensus::MemberState::kNormal;
    // The membership in an entry that replaces the last entry.
    std::optional<consensus::Membership> last_membership{};
  };

  explicit Member(const Shape& shape) {
    FillTree(kTestZxid, &server_);
    NewMember member = TestMember(path(), 1, shape.voters);
    member.observers = shape.observers;
    REQUIRE(MakeMember(std::move(member), server_.tree()).ok());
    auto dir = DataDir::Open(consensus::Env::Posix(), path(), consensus::MemberId(1), {65536}, 1);
    REQUIRE(dir.ok());
    const consensus::HardState state{Term(kLogTerm), consensus::MemberId(1), shape.commit_hint};
    REQUIRE((*dir)->WriteHardState(state, At(0)).ok());
    for (uint64_t i = 1; i <= kEntries; ++i) {
      const bool is_membership = i == kEntries && shape.last_membership.has_value();
      const Entry entry{At(i), Term(kLogTerm),
                        is_membership ? EntryKind::kMembership : EntryKind::kCommand,
                        Slice(is_membership ? EncodeMembership(*shape.last_membership)
                                            : CreateCommand(absl::StrCat("/", i)))};
      REQUIRE((*dir)->log().Append({&entry, 1}).ok());
    }
    REQUIRE((*dir)->log().Sync().ok());
    dir->reset();
    if (shape.member_state != state.member_state) LoseMemberState(state, shape.member_state);
  }

  const std::string& path() const { return directory_.path(); }

  SourceTree Load() const {
    Progress progress;
    auto source = LoadSourceTree(path(), "", &progress);
    INFO(source.status());
    REQUIRE(source.ok());
    return *std::move(source);
  }

 private:
  // Changes the state in a way that a server never does to a directory with data.
  void LoseMemberState(consensus::HardState state, consensus::MemberState member_state) const {
    const std::string path = this->path() + "/hard_state";
    fs::remove(path);
    auto file = consensus::HardStateFile::Create(consensus::Env::Posix(), path);
    REQUIRE(file.ok());
    state.member_state = member_state;
    REQUIRE((*file)->Write({state, At(0)}).ok());
  }

  std::string CreateCommand(const std::string& node) {
    tree::Request request;
    request.ops.push_back(tree::MakeCreate(node));
    std::string command;
    AppendRequest(server_.Next(tree::kSession, server_.AttachZxid()), request, &command);
    return command;
  }

  TestDirectory directory_;
  tree::Server server_;
};

bool Has(const SourceTree& source, const std::string& path) {
  tree::Stat stat;
  return source.tree->FindStat(path, &stat);
}

// Checks that the tree has all entries, and that `open` of them are not known to be committed.
void CheckWhole(const SourceTree& source, uint64_t open) {
  CHECK(source.tree->last_zxid() == Zxid(kTestZxid.value() + static_cast<int64_t>(kEntries)));
  CHECK(source.tree->digest() == source.tree->ComputeDigest());
  for (uint64_t i = 1; i < kEntries; ++i) CHECK(Has(source, absl::StrCat("/", i)));
  CHECK(source.term == kLogTerm);
  CHECK(source.commit.known == At(kEntries - open));
  CHECK(source.commit.open == open);
}

TEST_CASE("entries that a member does not know to be committed are in the tree, with a warning") {
  Member::Shape shape;
  shape.commit_hint = At(2);
  const SourceTree source = Member(shape).Load();
  CheckWhole(source, 3);
  CHECK(Has(source, "/5"));
  REQUIRE(source.warnings.size() == 1);
  CHECK_THAT(source.warnings[0],
             Catch::Contains("the last 3 entries (zxid 0x500000126 to 0x500000128, the last one of "
                             "term 8)") &&
                 Catch::Contains("quorate verify") && Catch::Contains("quorate backup"));
}

TEST_CASE("entries in the checkpoint are committed, even if the saved commit index is older") {
  Member::Shape shape;
  shape.commit_hint = Index(1);
  const SourceTree source = Member(shape).Load();
  CheckWhole(source, kEntries);
}

TEST_CASE("there is no warning if the member knows all entries to be committed") {
  Member::Shape shape;
  shape.commit_hint = At(kEntries);
  const SourceTree source = Member(shape).Load();
  CheckWhole(source, 0);
  CHECK(source.warnings.empty());
}

TEST_CASE("all entries of the only voter are committed") {
  Member::Shape shape;
  SECTION("from the beginning") { shape.voters = {1}; }
  SECTION("and has observers") {
    shape.voters = {1};
    shape.observers = {2};
  }
  SECTION("since the last entry") {
    shape.last_membership.emplace().voters = {consensus::MemberId(1)};
  }
  const SourceTree source = Member(shape).Load();
  CheckWhole(source, 0);
  CHECK(source.commit.only_voter);
  CHECK(source.warnings.empty());
}

TEST_CASE("entries of a member that is not the only voter may be uncommitted") {
  Member::Shape shape;
  SECTION("an observer of the only voter") {
    shape.voters = {2};
    shape.observers = {1};
  }
  SECTION("the only voter of a joint membership") {
    shape.last_membership.emplace().voters = {consensus::MemberId(1)};
    shape.last_membership->outgoing = {consensus::MemberId(1), consensus::MemberId(2),
                                       consensus::MemberId(3)};
  }
  const SourceTree source = Member(shape).Load();
  CheckWhole(source, kEntries);
  CHECK(source.warnings.size() == 1);
}

TEST_CASE("there is a warning if the member was recovering") {
  Member::Shape shape;
  shape.commit_hint = At(kEntries);
  shape.member_state = consensus::MemberState::kRecovering;
  const SourceTree source = Member(shape).Load();
  CheckWhole(source, 0);
  REQUIRE(source.warnings.size() == 1);
  CHECK_THAT(source.warnings[0], Catch::Contains("still receiving data"));
}

TEST_CASE("a log that the checkpoint replaces is not applied") {
  // The member has the entries of a deposed leader, and the snapshot that its successor sent. The
  // server died before it had replaced its log.
  const Member member{Member::Shape()};
  const TestDirectory other;
  tree::Server successor;
  FillTree(Zxid(kTestZxid.value() + 3), &successor);
  auto writer = MemberDirectoryWriter::Create(TestMember(other.path(), 1, {1, 2, 3}),
                                              successor.tree().last_zxid(), kLogTerm + 1,
                                              successor.tree().digest());
  REQUIRE(writer.ok());
  successor.tree().ForEachRecord([&](std::string_view key, std::optional<std::string_view> value) {
    REQUIRE((*writer)->Add(key, *value).ok());
  });
  REQUIRE((*writer)->Finish().ok());
  writer->reset();
  fs::remove_all(member.path() + "/checkpoints");
  fs::rename(other.path() + "/checkpoints", member.path() + "/checkpoints");

  const SourceTree source = member.Load();
  CHECK(source.tree->last_zxid() == successor.tree().last_zxid());
  CHECK(source.tree->digest() == successor.tree().digest());
  CHECK_FALSE(Has(source, "/4"));
  CHECK(source.term == kLogTerm + 1);
  CHECK(source.commit.open == 0);
  CHECK(source.warnings.empty());
}

TEST_CASE("all of a backup is committed") {
  const TestDirectory directory;
  tree::Server server;
  FillTree(kTestZxid, &server);
  tree::BackupHeader header;
  header.cluster_id = kTestClusterId;
  header.zxid = kTestZxid;
  header.term = kTestTerm;
  header.digest = server.tree().digest();
  const std::string path = directory.path() + "/backup";
  auto writer = tree::BackupFileWriter::Create(path, header);
  REQUIRE(writer.ok());
  server.tree().ForEachRecord([&](std::string_view key, std::optional<std::string_view> value) {
    REQUIRE((*writer)->Add(key, *value).ok());
  });
  REQUIRE((*writer)->Finish().ok());

  Progress progress;
  const auto source = LoadSourceTree(path, "", &progress);
  INFO(source.status());
  REQUIRE(source.ok());
  CHECK(source->tree->digest() == server.tree().digest());
  CHECK(source->term == kTestTerm);
  CHECK(source->commit.known == At(0));
  CHECK(source->commit.open == 0);
  CHECK(source->warnings.empty());
}

}  // namespace
}  // namespace quorate::tools::zookeeper
