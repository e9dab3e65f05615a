// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/disk/incomplete_directory.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "consensus/log/new_data_dir.h"
#include "rpc/member/checkpoints/checkpoint_metadata.h"
#include "tree/store/rocks_record_store.h"

namespace quorate::rpc {
namespace {

using consensus::Env;
using consensus::NewDataDir;

constexpr consensus::Index kIndex{5};
constexpr consensus::Term kTerm{2};

// The separate data and log directories of a member, which were made completely except that the
// mark of the data directory was not removed.
class Directories {
 public:
  Directories() {
    const char* base = std::getenv("TEST_TMPDIR");
    root_ = std::string(base != nullptr ? base : "/tmp") + "/unfinished-XXXXXX";
    REQUIRE(mkdtemp(root_.data()) != nullptr);
    MakeLog(log(), 'c');
    std::filesystem::create_directory(data());
    REQUIRE(NewDataDir::Mark(env, data()).ok());
  }
  ~Directories() { std::filesystem::remove_all(root_); }

  std::string data() const { return root_ + "/data"; }
  std::string log() const { return root_ + "/log"; }
  std::string other_log() const { return root_ + "/other"; }

  void MakeLog(const std::string& path, char cluster) const {
    auto made = NewDataDir::Create(env, path);
    REQUIRE(made.ok());
    const consensus::Identity identity{consensus::MemberId(1),
                                       std::string(consensus::kClusterIdBytes, cluster), 7};
    REQUIRE((*made)->Finish(identity, kIndex, kTerm).ok());
  }
  void MakeCheckpoint() const {
    auto store = tree::RocksRecordStore::Open(CheckpointDirectory(data()));
    REQUIRE(store.ok());
    consensus::SnapshotMeta meta;
    meta.index = kIndex;
    meta.term = kTerm;
    meta.membership.voters = {consensus::MemberId(1)};
    meta.cluster_id = std::string(consensus::kClusterIdBytes, 'c');
    REQUIRE((*store)->Commit(MakeCheckpointMetadata(meta, /*digest=*/1)).ok());
  }

  Env* const env = Env::Posix();

 private:
  std::string root_;
};

TEST_CASE("a data directory that is still marked is whole beside its own log only") {
  const Directories directories;
  const auto check = [&](const std::string& log) {
    return CheckWhole(directories.env, log, directories.data());
  };
  // The checkpoint is there, and nothing of the log yet.
  CHECK(absl::IsFailedPrecondition(check(directories.log())));
  directories.MakeCheckpoint();
  CHECK(check(directories.log()).ok());
  const absl::Status beside_nothing = check(directories.other_log());
  CHECK(absl::IsFailedPrecondition(beside_nothing));
  CHECK_THAT(std::string(beside_nothing.message()),
             Catch::Contains(directories.data()) && Catch::Contains(directories.other_log()) &&
                 Catch::Contains("Run the same command again"));
  CHECK_FALSE(std::filesystem::exists(directories.other_log()));
  directories.MakeLog(directories.other_log(), 'd');
  CHECK(absl::IsFailedPrecondition(check(directories.other_log())));
  CHECK(NewDataDir::IsMarked(directories.env, directories.data()));
  // Directories without a mark are complete. The mark of a log directory is checked by
  // DataDir::Open.
  REQUIRE(NewDataDir::Mark(directories.env, directories.other_log()).ok());
  CHECK(check(directories.other_log()).ok());
  REQUIRE(NewDataDir::Unmark(directories.env, directories.other_log()).ok());
  REQUIRE(NewDataDir::Unmark(directories.env, directories.data()).ok());
  CHECK(check(directories.other_log()).ok());
}

}  // namespace
}  // namespace quorate::rpc
