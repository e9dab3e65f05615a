// SPDX-License-Identifier: Apache-2.0

#include "tools/offline/member_directory.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "consensus/log/data_dir.h"
#include "consensus/log/testing/fault_env.h"
#include "rocksdb/env.h"
#include "rpc/member/checkpoints/checkpoint_metadata.h"
#include "tools/offline/testing/offline_test_util.h"
#include "tree/snapshot.h"
#include "tree/store/testing/crash_file_system.h"

namespace quorate::tools {
namespace {

namespace fs = std::filesystem;
using consensus::DataDir;
using consensus::Env;
using consensus::Index;
using consensus::Term;

absl::StatusOr<std::unique_ptr<DataDir>> OpenDataDir(Env* env, const std::string& path,
                                                     uint32_t member = 1) {
  return DataDir::Open(env, path, consensus::MemberId(member), {16384},
                       /*directory_epoch_if_new=*/1);
}

std::unique_ptr<tree::Tree> LoadTree(const std::string& data_dir, uint64_t* digest) {
  auto store = tree::RocksRecordStore::Open(rpc::CheckpointDirectory(data_dir));
  REQUIRE(store.ok());
  auto view = (*store)->OpenView();
  REQUIRE(view.ok());
  tree::TreeLoader loader;
  for (bool more = true; more;) {
    auto next = (*view)->Next(
        1000, [&](std::string_view key, std::string_view value) { return loader.Add(key, value); });
    REQUIRE(next.ok());
    more = *next;
  }
  *digest = (*view)->metadata().digest;
  auto tree = loader.Finish((*view)->metadata().zxid, *digest);
  REQUIRE(tree.ok());
  return *std::move(tree);
}

TEST_CASE("a created directory has the tree, and a log that begins after it") {
  TestDirectory directory;
  tree::Server server;
  FillTree(kTestZxid, &server);
  const bool apart = GENERATE(false, true);
  NewMember member = TestMember(directory.path() + "/data", 2, {1, 2, 3});
  member.observers = {9};
  if (apart) member.log_dir = directory.path() + "/log";
  const std::string log_dir = apart ? member.log_dir : member.data_dir;
  REQUIRE(MakeMember(member, server.tree()).ok());

  uint64_t digest = 0;
  auto tree = LoadTree(member.data_dir, &digest);
  CHECK(digest == server.tree().digest());
  CHECK(tree->node_count() == server.tree().node_count());
  auto store = tree::RocksRecordStore::Open(rpc::CheckpointDirectory(member.data_dir));
  auto meta = rpc::DecodeCheckpointMetadata(*(*store)->newest());
  REQUIRE(meta.ok());
  CHECK(meta->index == Index(0x500000123));
  CHECK(meta->cluster_id == kTestClusterId);
  CHECK(meta->membership.voters.size() == 3);
  CHECK(meta->membership.learners.size() == 1);
  auto dir = OpenDataDir(Env::Posix(), log_dir, 2);
  REQUIRE(dir.ok());
  CHECK((*dir)->cluster_id() == kTestClusterId);
  REQUIRE((*dir)->AlignLog(meta->index, meta->term).ok());
  CHECK((*dir)->initial_state(*meta).applied == meta->index);
  std::string my_id;
  std::ifstream(member.data_dir + "/myid") >> my_id;
  CHECK(my_id == "2");
  uint64_t incarnation = 0;
  std::ifstream(log_dir + "/incarnation") >> incarnation;
  CHECK(incarnation > 1'000'000'000'000);
}

TEST_CASE("a directory that is not empty is refused, and invalid values are, too") {
  TestDirectory directory;
  tree::Server server;
  FillTree(kTestZxid, &server);
  const NewMember good = TestMember(directory.path());
  SECTION("it contains a file") {
    std::ofstream(directory.path() + "/notes") << "mine";
    const absl::Status status = MakeMember(good, server.tree());
    CHECK(absl::IsFailedPrecondition(status));
    CHECK_THAT(std::string(status.message()),
               Catch::Contains(directory.path()) && Catch::Contains("notes"));
  }
  SECTION("the separate data directory contains a file") {
    std::ofstream(directory.path() + "/notes") << "mine";
    NewMember apart = good;
    apart.log_dir = directory.path() + "/log";
    CHECK(absl::IsFailedPrecondition(MakeMember(apart, server.tree())));
    CHECK_FALSE(fs::exists(apart.log_dir));
  }
  SECTION("it contains its configuration") {
    std::ofstream(directory.path() + "/zoo.cfg") << "tickTime=2000\n";
    std::ofstream(directory.path() + "/myid") << "1\n";
    CHECK(MakeMember(good, server.tree()).ok());
    CHECK(absl::IsFailedPrecondition(MakeMember(good, server.tree())));
  }
  SECTION("myid names another member") {
    std::ofstream(directory.path() + "/myid") << "3\n";
    const absl::Status status = MakeMember(good, server.tree());
    CHECK_THAT(std::string(status.message()), Catch::Contains("names member 3, not 1"));
  }
  SECTION("no such member") {
    NewMember bad = good;
    bad.member = 4;
    CHECK(absl::IsInvalidArgument(MakeMember(bad, server.tree())));
    bad.voters = {1, 4, 300};
    CHECK(absl::IsInvalidArgument(MakeMember(bad, server.tree())));
    bad = good;
    bad.cluster_id = "short";
    CHECK(absl::IsInvalidArgument(MakeMember(bad, server.tree())));
    CHECK(fs::is_empty(directory.path()));
  }
  SECTION("the records have another digest") {
    auto writer = MemberDirectoryWriter::Create(good, kTestZxid, 1, server.tree().digest() + 1);
    REQUIRE(writer.ok());
    server.tree().ForEachRecord([&](std::string_view key, std::optional<std::string_view> value) {
      CHECK(absl::IsInvalidArgument((*writer)->Add(key, *value)));
    });
  }
}

TEST_CASE("wherever the creation is interrupted, a server refuses the directory or it is whole") {
  tree::Server server;
  FillTree(kTestZxid, &server);
  int refused = 0;
  for (uint64_t n = 0;; ++n) {
    CAPTURE(n);
    TestDirectory directory;
    consensus::FaultEnv env;
    env.PowerOffAfter(n);
    MemberDirectoryEnvs envs;
    envs.env = &env;
    const absl::Status made = MakeMember(TestMember(directory.path()), server.tree(), envs);
    const bool done = !env.powered_off();
    env.Crash(n);
    auto dir = OpenDataDir(&env, directory.path());
    if (!dir.ok()) {
      ++refused;
      CHECK_THAT(std::string(dir.status().message()), Catch::Contains("interrupted"));
      REQUIRE(MakeMember(TestMember(directory.path()), server.tree(), envs).ok());
      CHECK(OpenDataDir(&env, directory.path()).ok());
    } else if ((*dir)->hard_state().member_state == consensus::MemberState::kNormal) {
      CHECK((*dir)->log().base_term() == Term(kTestTerm));
      CHECK(env.Exists(directory.path() + "/incarnation"));
      CHECK(env.Exists(directory.path() + "/myid"));
    } else {
      // The store is created only after the mark is durable.
      CHECK_FALSE(fs::exists(rpc::CheckpointDirectory(directory.path())));
    }
    if (done) {
      CHECK(made.ok());
      CHECK(dir.ok());
      break;
    }
  }
  CHECK(refused > 20);
}

constexpr uint64_t kNever = 1'000'000'000;

// Runs in a child process, since RocksDB's threads do not survive a fork.
int MakeInChild(uint64_t crash_at, const std::string& directory, const std::string& graveyard) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto file_system =
        std::make_shared<tree::CrashFileSystem>(crash_at, crash_at,
                                                /*keeps_all=*/false, graveyard);
    const std::unique_ptr<rocksdb::Env> store_env = rocksdb::NewCompositeEnv(file_system);
    tree::Server server;
    FillTree(kTestZxid, &server);
    MemberDirectoryEnvs envs;
    envs.store_env = store_env.get();
    _exit(MakeMember(TestMember(directory), server.tree(), envs).ok() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("a server refuses a directory whose store is not finished") {
  int crashes = 0;
  for (uint64_t operation = 1;; operation += 3) {
    CAPTURE(operation);
    TestDirectory directory;
    const std::string graveyard = directory.path() + "/graveyard";
    fs::create_directory(graveyard);
    const std::string path = directory.path() + "/member";
    const int exit_status = MakeInChild(operation, path, graveyard);
    REQUIRE((exit_status == tree::kCrashExitCode || exit_status == 0));
    auto dir = OpenDataDir(Env::Posix(), path);
    if (exit_status == 0) {
      CHECK(dir.ok());
      break;
    }
    ++crashes;
    REQUIRE(!dir.ok());
    CHECK_THAT(std::string(dir.status().message()), Catch::Contains("interrupted"));
    // A second run completes the directory.
    REQUIRE(MakeInChild(kNever, path, graveyard) == 0);
    REQUIRE(OpenDataDir(Env::Posix(), path).ok());
    uint64_t digest = 0;
    LoadTree(path, &digest);
  }
  CHECK(crashes > 5);
}

TEST_CASE("separate data and log directories are incomplete only if both are marked") {
  TestDirectory directory;
  tree::Server server;
  FillTree(kTestZxid, &server);
  NewMember member = TestMember(directory.path() + "/data");
  member.log_dir = directory.path() + "/log";
  const std::string record = rpc::CheckpointDirectory(member.data_dir) + "/record";
  fs::create_directories(rpc::CheckpointDirectory(member.data_dir));
  std::ofstream(record) << "of a tree";
  SECTION("neither is marked") { CHECK_FALSE(MakeMember(member, server.tree()).ok()); }
  SECTION("one of them is marked") {
    const std::string marked = GENERATE_COPY(as<std::string>{}, member.data_dir, member.log_dir);
    fs::create_directories(marked);
    std::ofstream(marked + "/unfinished") << "";
    CHECK_FALSE(MakeMember(member, server.tree()).ok());
  }
  CHECK(fs::exists(record));
  SECTION("both are marked") {
    fs::create_directories(member.log_dir);
    std::ofstream(member.data_dir + "/unfinished") << "";
    std::ofstream(member.log_dir + "/unfinished") << "";
    REQUIRE(MakeMember(member, server.tree()).ok());
    CHECK_FALSE(fs::exists(record));
    CHECK_FALSE(fs::exists(member.data_dir + "/unfinished"));
    CHECK_FALSE(fs::exists(member.log_dir + "/unfinished"));
    uint64_t digest = 0;
    LoadTree(member.data_dir, &digest);
  }
}

}  // namespace
}  // namespace quorate::tools
