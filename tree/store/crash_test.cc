// SPDX-License-Identifier: Apache-2.0

// Crashes a process that commits checkpoints and replaces them by staged ones, once at each of many
// file operations. Each time, another process must find exactly one whole checkpoint: the last
// committed one, or the one that was being committed.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "rocksdb/env.h"
#include "tree/store/testing/crash_file_system.h"
#include "tree/store/testing/store_scenario.h"

namespace quorate::tree {
namespace {

namespace fs = std::filesystem;

// The progress of the writer, which the reader compares with the store. RocksDB's threads do not
// survive a fork. Therefore writer and reader are separate processes, and this process never uses
// RocksDB.
struct Shared {
  int64_t committed;  // numbers of checkpoints
  int64_t begun;
};

constexpr int kWrong = 3;
constexpr int64_t kCheckpoints = 8;

// Ends a child process with the exit status of a failure, unless `condition`.
void Check(bool condition, const std::string& what) {
  if (condition) return;
  fprintf(stderr, "crash_test: %s\n", what.c_str());
  _exit(kWrong);
}

void CheckOk(const absl::Status& status, const std::string& what) {
  Check(status.ok(), what + ": " + status.ToString());
}

[[noreturn]] void Write(const std::string& path, rocksdb::Env* env, Shared* shared) {
  // Opens the store more than once, because opening writes files too.
  auto store = RocksRecordStore::Open(path, ScenarioOptions(env));
  CheckOk(store.status(), "open");
  store->reset();
  store = RocksRecordStore::Open(path, ScenarioOptions(env));
  CheckOk(store.status(), "open again");
  for (int64_t number = 1; number <= kCheckpoints; ++number) {
    shared->begun = number;
    CheckOk(Make(number, store->get()), "make");
    shared->committed = number;
  }
  _exit(0);
}

// Runs a writer that is killed before a directory sync, and a second one that continues with the
// contents of the page cache. The checkpoint that the second one finds when it opens the store must
// survive.
[[noreturn]] void WriteTwice(const std::string& path, CrashFileSystem* file_system,
                             rocksdb::Env* env, uint64_t kill_at, uint64_t operations,
                             Shared* shared) {
  file_system->KillAtDirectorySync(kill_at);
  {
    auto store = RocksRecordStore::Open(path, ScenarioOptions(env));
    for (int64_t number = 1; store.ok() && number <= kCheckpoints; ++number) {
      shared->begun = number;
      if (!Make(number, store->get()).ok()) break;
      shared->committed = number;
    }
  }
  if (!file_system->killed()) _exit(0);
  file_system->GoOn(operations);
  auto store = RocksRecordStore::Open(path, ScenarioOptions(env));
  CheckOk(store.status(), "open after the kill");
  const std::optional<RecordStore::Metadata> newest = (*store)->newest();
  shared->committed = newest.has_value() ? newest->zxid.value() : 0;
  for (int64_t number = shared->committed + 1;; ++number) {
    shared->begun = number;
    CheckOk(Make(number, store->get()), "make after the kill");
    shared->committed = number;
  }
}

void CheckRecords(const RecordStore& store, int64_t number) {
  const auto records = ReadAll(store);
  CheckOk(records.status(), "read");
  Check(*records == RecordsOf(number), "the records of checkpoint " + std::to_string(number));
}

[[noreturn]] void Read(const std::string& path, const Shared& shared) {
  auto store = RocksRecordStore::Open(path, ScenarioOptions(nullptr));
  CheckOk(store.status(), "open after the crash");
  const auto names = std::distance(fs::directory_iterator(path), fs::directory_iterator());
  Check(names == 2, "leftovers");
  const std::optional<RecordStore::Metadata> newest = (*store)->newest();
  const int64_t number = newest.has_value() ? newest->zxid.value() : 0;
  Check(number == shared.committed || number == shared.begun, "a checkpoint is lost");
  if (number > 0) {
    Check(newest == MetadataOf(number), "metadata");
    CheckRecords(**store, number);
  }
  // Further checkpoints can be written after the crash.
  for (int64_t next = number + 1; next <= number + 3; ++next) {
    CheckOk(Make(next, store->get()), "make another");
  }
  store->reset();
  store = RocksRecordStore::Open(path, ScenarioOptions(nullptr));
  CheckOk(store.status(), "open after that");
  Check((*store)->newest() == MetadataOf(number + 3), "the metadata after the crash");
  CheckRecords(**store, number + 3);
  _exit(0);
}

// Runs `body` in a child process and returns its exit status.
template <typename Body>
int InChild(Body body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) body();
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Runs `write` on a directory until the power fails, and checks the remaining store. Returns false
// if `write` ended before the power failed.
template <typename Writer>
bool CrashIn(uint64_t operation, uint64_t seed, bool keeps_all, Shared* shared, Writer write) {
  const char* base = std::getenv("TEST_TMPDIR");
  std::string directory = std::string(base != nullptr ? base : "/tmp") + "/crash-XXXXXX";
  REQUIRE(mkdtemp(directory.data()) != nullptr);
  const std::string graveyard = directory + "/graveyard";
  const std::string store = directory + "/tree";
  fs::create_directory(graveyard);
  *shared = Shared{};
  const int written = InChild([&] {
    const auto file_system =
        std::make_shared<CrashFileSystem>(operation, seed, keeps_all, graveyard);
    const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(file_system);
    write(store, file_system.get(), env.get());
  });
  REQUIRE((written == kCrashExitCode || written == 0));
  const int read = InChild([&] { Read(store, *shared); });
  REQUIRE(read == 0);
  fs::remove_all(directory);
  return written == kCrashExitCode;
}

bool CrashAt(uint64_t operation, bool keeps_all, Shared* shared) {
  return CrashIn(operation, operation, keeps_all, shared,
                 [&](const std::string& path, CrashFileSystem*, rocksdb::Env* env) {
                   Write(path, env, shared);
                 });
}

// Returns memory that this process shares with its children.
Shared* MapShared() {
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(shared != MAP_FAILED);
  return shared;
}

TEST_CASE("after a kill, and a power failure in or after an open, one whole checkpoint remains") {
  Shared* shared = MapShared();
  uint64_t crashes = 0;
  bool killed = true;
  for (uint64_t kill_at = 1; killed; ++kill_at) {
    // Most of these power failures are during the open, some after it.
    for (uint64_t operations = 2 + kill_at % 13; operations < 100; operations += 13) {
      CAPTURE(kill_at, operations);
      killed = CrashIn(1'000'000, kill_at + operations, /*keeps_all=*/false, shared,
                       [&](const std::string& path, CrashFileSystem* files, rocksdb::Env* env) {
                         WriteTwice(path, files, env, kill_at, operations, shared);
                       });
      if (!killed) break;
      ++crashes;
    }
  }
  CHECK(crashes > 50);
  munmap(shared, sizeof(Shared));
}

TEST_CASE("after a crash there is exactly one whole checkpoint") {
  Shared* shared = MapShared();
  const bool keeps_all = GENERATE(true, false);
  CAPTURE(keeps_all);
  uint64_t crashes = 0;
  // The steps are odd, so that all kinds of operations are hit.
  for (uint64_t operation = 1;; operation += keeps_all ? 11 : 7) {
    CAPTURE(operation);
    if (!CrashAt(operation, keeps_all, shared)) break;
    ++crashes;
  }
  CHECK(crashes > 15);
  munmap(shared, sizeof(Shared));
}

}  // namespace
}  // namespace quorate::tree
