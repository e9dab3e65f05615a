// SPDX-License-Identifier: Apache-2.0

// Tests of the real file system, in the test's own directory.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "consensus/log/data_dir.h"
#include "consensus/log/env.h"
#include "consensus/log/out_of_descriptors.h"
#include "consensus/log/testing/log_test_util.h"

namespace quorate::consensus {
namespace {

// Returns a new directory for each test case.
std::string NewDirectory() {
  const char* temporary = std::getenv("TEST_TMPDIR");
  REQUIRE(temporary != nullptr);
  std::string path = absl::StrCat(temporary, "/posix_env_XXXXXX");
  REQUIRE(mkdtemp(path.data()) != nullptr);
  return path;
}

std::string Content(const File& file) {
  std::string bytes(Require(file.Size()) + 10, 'x');
  bytes.resize(Require(file.ReadAt(0, bytes.size(), bytes.data())));
  return bytes;
}

TEST_CASE("many pieces are written one after another") {
  Env* env = Env::Posix();
  auto file = Require(env->OpenFile(NewDirectory() + "/f", /*create=*/true));
  // More pieces than one system call takes, some of them empty.
  std::vector<std::string> texts;
  std::string expected = "....";
  for (int i = 0; i < 3000; ++i) {
    texts.push_back(i % 7 == 0 ? "" : absl::StrCat("<", i, ">"));
    expected += texts.back();
  }
  const std::vector<std::string_view> pieces(texts.begin(), texts.end());
  const std::string_view dots = "....";
  Require(file->WriteAt(0, {&dots, 1}));
  Require(file->WriteAt(4, pieces));
  Require(file->Sync());
  CHECK(Content(*file) == expected);
  Require(file->WriteAt(0, {}));
  char some[4];
  CHECK(Require(file->ReadAt(4, 4, some)) == 4);
  CHECK(std::string(some, 4) == "<1><");
  CHECK(Require(file->ReadAt(expected.size(), 4, some)) == 0);
}

TEST_CASE("preallocated space is there, is zero, and leaves what was written") {
  const std::string path = NewDirectory() + "/f";
  auto file = Require(Env::Posix()->OpenFile(path, /*create=*/true));
  const std::string_view text = "abc";
  Require(file->WriteAt(0, {&text, 1}));
  Require(file->Preallocate(100000));
  CHECK(Content(*file) == "abc" + std::string(99997, '\0'));
  struct stat info;
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK(info.st_blocks * 512 >= 100000);
  Require(file->Preallocate(10));
  CHECK(Require(file->Size()) == 100000);
  Require(file->Truncate(2));
  CHECK(Content(*file) == "ab");
}

TEST_CASE("want of a file descriptor is told apart from a full disk") {
  Env* env = Env::Posix();
  const std::string path = NewDirectory() + "/f";
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 0;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const auto refused = env->OpenFile(path, /*create=*/true);
  const absl::Status unsynced = env->SyncDirectory("/");
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(absl::IsResourceExhausted(refused.status()));
  CHECK(IsOutOfDescriptors(refused.status()));
  CHECK(IsOutOfDescriptors(unsynced));
  CHECK_FALSE(env->Exists(path));
  CHECK_FALSE(IsOutOfDescriptors(absl::ResourceExhaustedError("no space is left on the disk")));
  CHECK_FALSE(IsOutOfDescriptors(env->OpenFile(path, /*create=*/false).status()));
  CHECK(env->OpenFile(path, /*create=*/true).ok());
}

TEST_CASE("directories: create, list, rename, remove") {
  Env* env = Env::Posix();
  const std::string top = NewDirectory();
  Require(env->CreateDirectories(top + "/a/b/c"));
  Require(env->CreateDirectories(top + "/a/b/c"));
  CHECK(env->Exists(top + "/a/b/c"));
  Require(env->OpenFile(top + "/a/two", /*create=*/true));
  Require(env->OpenFile(top + "/a/one", /*create=*/true));
  CHECK(Require(env->List(top + "/a")) == std::vector<std::string>{"b", "one", "two"});
  Require(env->Rename(top + "/a/one", top + "/a/three"));
  Require(env->Remove(top + "/a/two"));
  Require(env->SyncDirectory(top + "/a"));
  CHECK(Require(env->List(top + "/a")) == std::vector<std::string>{"b", "three"});
  CHECK_FALSE(env->Exists(top + "/a/one"));
}

TEST_CASE("errors name the path and say what the system said") {
  Env* env = Env::Posix();
  const std::string top = NewDirectory();
  const std::string missing = top + "/missing";
  for (const absl::Status& error :
       {env->OpenFile(missing, /*create=*/false).status(), env->List(missing).status(),
        env->Remove(missing), env->Rename(missing, top + "/x"), env->SyncDirectory(missing),
        env->LockDirectory(missing).status(),
        env->OpenFile(missing + "/f", /*create=*/true).status()}) {
    CAPTURE(error.ToString());
    CHECK(absl::IsNotFound(error));
    CHECK(Contains(error, missing));
    CHECK(Contains(error, "No such file or directory"));
  }
  Require(env->OpenFile(top + "/file", /*create=*/true));
  CHECK(Contains(env->CreateDirectories(top + "/file"), "Not a directory"));
  CHECK(Contains(env->CreateDirectories(top + "/file/below"), "Not a directory"));
}

TEST_CASE("a path that cannot be looked at counts as there, and opening it says why") {
  Env* env = Env::Posix();
  const std::string path = NewDirectory() + "/loop";
  REQUIRE(symlink("loop", path.c_str()) == 0);
  CHECK(env->Exists(path));
  CHECK(env->OpenFile(path, /*create=*/false).status().message().find("levels of symbolic links") !=
        std::string::npos);
  CHECK_FALSE(env->Exists(path + "-none"));
}

TEST_CASE("a directory is locked once, also within one process") {
  Env* env = Env::Posix();
  const std::string top = NewDirectory();
  auto lock = Require(env->LockDirectory(top));
  const absl::Status error = env->LockDirectory(top).status();
  CHECK(absl::IsFailedPrecondition(error));
  CHECK(Contains(error, top));
  CHECK(Contains(error, absl::StrCat("(process ", getpid(), ")")));
  lock.reset();
  Require(env->LockDirectory(top));
}

TEST_CASE("a lock says who holds it also where a longer number stood") {
  Env* env = Env::Posix();
  const std::string top = NewDirectory();
  {
    auto file = Require(env->OpenFile(top + "/LOCK", /*create=*/true));
    const std::string_view piece = "1234567890123\n";
    Require(file->WriteAt(0, {&piece, 1}));
  }
  auto lock = Require(env->LockDirectory(top));
  const std::string text = absl::StrCat(getpid(), "\n");
  CHECK(Require(Require(env->OpenFile(top + "/LOCK", /*create=*/false))->Size()) == text.size());
  CHECK(Contains(env->LockDirectory(top).status(), absl::StrCat("(process ", getpid(), ")")));
}

TEST_CASE("who only looks cannot change anything, and keeps servers out") {
  Env* env = Env::PosixReadOnly();
  const std::string top = NewDirectory();
  Require(env->LockDirectory(top));
  CHECK_FALSE(env->Exists(top + "/LOCK"));
  Require(Env::Posix()->OpenFile(top + "/file", /*create=*/true));
  auto file = Require(env->OpenFile(top + "/file", /*create=*/false));
  const std::string_view piece = "x";
  CHECK_FALSE(file->WriteAt(0, {&piece, 1}).ok());
  CHECK_FALSE(file->Truncate(0).ok());
  CHECK(absl::IsPermissionDenied(env->OpenFile(top + "/new", /*create=*/true).status()));
  CHECK(absl::IsPermissionDenied(env->CreateDirectories(top + "/new")));
  CHECK(absl::IsPermissionDenied(env->Rename(top + "/file", top + "/new")));
  CHECK(absl::IsPermissionDenied(env->Remove(top + "/file")));
  auto server = Require(Env::Posix()->LockDirectory(top));
  const absl::Status error = env->LockDirectory(top).status();
  CHECK(absl::IsFailedPrecondition(error));
  CHECK(Contains(error, absl::StrCat("(process ", getpid(), ")")));
  server.reset();
  auto looking = Require(env->LockDirectory(top));
  Require(env->LockDirectory(top));
  CHECK(absl::IsFailedPrecondition(Env::Posix()->LockDirectory(top).status()));
}

TEST_CASE("a data directory lives on the real file system") {
  const std::string path = NewDirectory() + "/srv/quorate";
  const SegmentLogOptions options{64 << 10};
  const std::vector<Entry> entries = TestEntries(1, 500, 1, 300);
  {
    auto dir = Require(DataDir::Open(Env::Posix(), path, MemberId{1}, options, 1));
    Require(dir->WriteHardState({Term{1}, MemberId{1}, Index{0}}, Index{0}));
    Require(dir->log().Append(entries));
    Require(dir->log().Sync());
    Require(dir->log().TruncateAfter(Index{400}));
    Require(dir->log().Sync());
    CHECK(absl::IsFailedPrecondition(
        DataDir::Open(Env::Posix(), path, MemberId{1}, options, 1).status()));
  }
  auto dir = Require(DataDir::Open(Env::Posix(), path, MemberId{1}, options, 1));
  CHECK(ReadAll(dir->log()) == TestEntries(1, 400, 1, 300));
  CHECK(dir->hard_state().vote == MemberId{1});
}

}  // namespace
}  // namespace quorate::consensus
