// A process that commits checkpoints and replaces them by staged ones is stopped at one file
// operation after the other: each time, another process finds exactly one whole checkpoint: the
// last one that was committed, or the one that was about to be.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "rocksdb/env.h"
#include "tree/store/crash_file_system.h"
#include "tree/store/rocks_record_store.h"

namespace quorate::tree {
namespace {

namespace fs = std::filesystem;
using Label = RecordStore::Label;
using Records = std::map<std::string, std::string>;

// What the writer had done, for the reader to compare with. RocksDB's threads do not survive a
// fork, so that both are processes of their own, and this one never touches RocksDB.
struct Shared {
  int64_t committed;  // numbers of checkpoints
  int64_t begun;
};

constexpr int kWrong = 3;
constexpr int64_t kCheckpoints = 8;

// In a child there is nobody to tell but whoever waits for it.
void Check(bool condition, const std::string& what) {
  if (condition) return;
  fprintf(stderr, "crash_test: %s\n", what.c_str());
  _exit(kWrong);
}

void CheckOk(const absl::Status& status, const std::string& what) {
  Check(status.ok(), what + ": " + status.ToString());
}

RocksRecordStore::Options OptionsOf(rocksdb::Env* env) {
  RocksRecordStore::Options options;
  options.env = env;
  options.buffer_bytes = 2000;
  return options;
}

Label LabelOf(int64_t number) {
  return {Zxid(number), static_cast<uint64_t>(number), "checkpoint " + std::to_string(number)};
}

// Some are staged as a whole.
bool IsStaged(int64_t number) { return number % 3 == 0; }

// What checkpoint `number` changes, or is as a whole if it is staged.
std::map<std::string, std::optional<std::string>> ChangesOf(int64_t number) {
  std::mt19937_64 random(static_cast<uint64_t>(number));
  std::map<std::string, std::optional<std::string>> changes;
  for (int i = 0; i < 60; ++i) {
    auto& value = changes["key " + std::to_string(random() % 80)];
    value = std::string(random() % 200, static_cast<char>('a' + number));
    if (!IsStaged(number) && random() % 4 == 0) value.reset();
  }
  return changes;
}

Records RecordsOf(int64_t number) {
  Records records;
  for (int64_t i = 1; i <= number; ++i) {
    if (IsStaged(i)) records.clear();
    for (const auto& [key, value] : ChangesOf(i)) {
      if (value.has_value()) {
        records[key] = *value;
      } else {
        records.erase(key);
      }
    }
  }
  return records;
}

void Stage(int64_t number, RecordStore* store) {
  CheckOk(store->BeginStaging(), "begin staging");
  for (const auto& [key, value] : ChangesOf(number)) CheckOk(store->Stage(key, *value), "stage");
  CheckOk(store->FinishStaging(LabelOf(number)), "finish staging");
  CheckOk(store->ReplaceByStaged(), "replace");
}

void Commit(int64_t number, RecordStore* store) {
  for (const auto& [key, value] : ChangesOf(number)) CheckOk(store->Write(key, value), "write");
  CheckOk(store->Commit(LabelOf(number)), "commit");
}

[[noreturn]] void Write(const std::string& path, rocksdb::Env* env, Shared* shared) {
  // Opened more than once, since opening writes files too.
  auto store = RocksRecordStore::Open(path, OptionsOf(env));
  CheckOk(store.status(), "open");
  store->reset();
  store = RocksRecordStore::Open(path, OptionsOf(env));
  CheckOk(store.status(), "open again");
  for (int64_t number = 1; number <= kCheckpoints; ++number) {
    shared->begun = number;
    if (IsStaged(number)) {
      Stage(number, store->get());
    } else {
      Commit(number, store->get());
    }
    shared->committed = number;
  }
  _exit(0);
}

Records ReadAll(const RecordStore& store) {
  auto view = store.OpenView();
  CheckOk(view.status(), "view");
  Records records;
  bool more = true;
  while (more) {
    auto next = (*view)->Next(1000, [&](std::string_view key, std::string_view value) {
      records.emplace(key, value);
      return absl::OkStatus();
    });
    CheckOk(next.status(), "next");
    more = *next;
  }
  return records;
}

[[noreturn]] void Read(const std::string& path, const Shared& shared) {
  auto store = RocksRecordStore::Open(path, OptionsOf(nullptr));
  CheckOk(store.status(), "open after the crash");
  size_t names = 0;
  for (const auto& entry : fs::directory_iterator(path)) {
    names += entry.path().filename() == "current.new" ? 0 : 1;
  }
  Check(names == 2, "leftovers");
  const std::optional<Label> newest = (*store)->newest();
  const int64_t number = newest.has_value() ? newest->zxid.value() : 0;
  Check(number == shared.committed || number == shared.begun, "a checkpoint is lost");
  if (number > 0) {
    Check(newest == LabelOf(number), "label");
    Check(ReadAll(**store) == RecordsOf(number), "records");
  }
  // And others can be written over what the crash left.
  for (int64_t next = number + 1; next <= number + 3; ++next) {
    if (IsStaged(next)) {
      Stage(next, store->get());
    } else {
      Commit(next, store->get());
    }
  }
  store->reset();
  store = RocksRecordStore::Open(path, OptionsOf(nullptr));
  CheckOk(store.status(), "open after that");
  Check((*store)->newest() == LabelOf(number + 3), "the label after the crash");
  Check(ReadAll(**store) == RecordsOf(number + 3), "the records after the crash");
  _exit(0);
}

// The exit status of a process that runs `body`.
template <typename Body>
int InChild(Body body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) body();
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Returns false if the writer came to its end before.
bool CrashAt(uint64_t operation, bool keeps_all, Shared* shared) {
  const char* base = std::getenv("TEST_TMPDIR");
  std::string directory = std::string(base != nullptr ? base : "/tmp") + "/crash-XXXXXX";
  REQUIRE(mkdtemp(directory.data()) != nullptr);
  const std::string graveyard = directory + "/graveyard";
  const std::string store = directory + "/tree";
  fs::create_directory(graveyard);
  *shared = Shared{};
  const int written = InChild([&] {
    const auto file_system =
        std::make_shared<CrashFileSystem>(operation, operation, keeps_all, graveyard);
    const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(file_system);
    Write(store, env.get(), shared);
  });
  REQUIRE((written == kCrashExitCode || written == 0));
  const int read = InChild([&] { Read(store, *shared); });
  REQUIRE(read == 0);
  fs::remove_all(directory);
  return written == kCrashExitCode;
}

TEST_CASE("after a crash there is exactly one whole checkpoint") {
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(shared != MAP_FAILED);
  const bool keeps_all = GENERATE(true, false);
  CAPTURE(keeps_all);
  uint64_t crashes = 0;
  // An odd distance meets all kinds of operations.
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
