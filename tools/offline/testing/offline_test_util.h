// SPDX-License-Identifier: Apache-2.0

// Shared by the tests of the offline tools: a directory on the disk, and members created in it.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/offline/member_directory.h"
#include "tree/testing/tree_test_util.h"
#include "tree/tree.h"

namespace quorate::tools {

inline const std::string kTestClusterId = "0123456789abcdef";
inline constexpr tree::Zxid kTestZxid{0x500000123};
inline constexpr uint64_t kTestTerm = 7;

// A temporary directory, removed with the object.
class TestDirectory {
 public:
  TestDirectory() {
    const char* base = std::getenv("TEST_TMPDIR");
    path_ = std::string(base != nullptr ? base : "/tmp") + "/offline-XXXXXX";
    REQUIRE(mkdtemp(path_.data()) != nullptr);
  }
  ~TestDirectory() { std::filesystem::remove_all(path_); }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Fills a tree of `zxid` with a session, an ephemeral, an ACL, and data that is not text.
inline void FillTree(tree::Zxid zxid, tree::Server* server) {
  server->OpenSession();
  server->Do(tree::MakeCreate("/app", "text"));
  server->Do(tree::MakeCreate("/app/bytes", std::string_view("\x1b\0\xff", 3)));
  server->Do(tree::MakeCreate("/app/ephemeral", "", tree::CreateMode::kEphemeral));
  server->Do(tree::MakeCreate("/app/closed", "x", tree::CreateMode::kPersistent,
                              {tree::MakeAcl(tree::permission::kRead, "world", "anyone")}));
  server->mutable_tree().Skip(zxid);
}

inline NewMember TestMember(std::string directory, uint64_t member = 1,
                            std::vector<uint64_t> voters = {1}) {
  NewMember result;
  result.data_dir = std::move(directory);
  result.member = member;
  result.voters = std::move(voters);
  result.cluster_id = kTestClusterId;
  return result;
}

// Creates a member's directory with the records of `tree`.
inline absl::Status MakeMember(NewMember member, const tree::Tree& tree,
                               MemberDirectoryEnvs envs = {}) {
  auto writer = MemberDirectoryWriter::Create(std::move(member), tree.last_zxid(), kTestTerm,
                                              tree.digest(), envs);
  if (!writer.ok()) return writer.status();
  absl::Status status;
  tree.ForEachRecord([&](std::string_view key, std::optional<std::string_view> value) {
    if (status.ok()) status = (*writer)->Add(key, *value);
  });
  return status.ok() ? (*writer)->Finish() : status;
}

}  // namespace quorate::tools
