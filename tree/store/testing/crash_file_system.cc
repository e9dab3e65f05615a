// SPDX-License-Identifier: Apache-2.0

#include "tree/store/testing/crash_file_system.h"

#include <unistd.h>

#include <cstdio>
#include <map>
#include <utility>

namespace quorate::tree {
namespace {

using rocksdb::IOStatus;

std::string DirectoryOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

}  // namespace

CrashFileSystem::CrashFileSystem(uint64_t crash_at, uint64_t seed, bool keeps_all,
                                 std::string graveyard)
    : crash_at_(crash_at), keeps_all_(keeps_all), graveyard_(std::move(graveyard)), random_(seed) {}

void CrashFileSystem::Count() {
  if (++operations_ == crash_at_) Crash();
}

void CrashFileSystem::GoOn(uint64_t operations) {
  killed_ = false;
  kill_at_ = 0;
  crash_at_ = operations_ + operations + 1;
}

void CrashFileSystem::Crash() {
  if (!keeps_all_) {
    for (const auto& [name, sizes] : files()) {
      if (sizes.synced == sizes.written) continue;
      const uint64_t kept = sizes.synced + random_() % (sizes.written - sizes.synced + 1);
      // A file that does not exist any more has no bytes to lose.
      if (truncate(name.c_str(), static_cast<off_t>(kept)) != 0) continue;
    }
    std::map<std::string, size_t> lost;
    for (const Change& change : changes_) ++lost[change.directory];
    for (auto& [directory, count] : lost) count = random_() % (count + 1);
    for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
      if (lost[change->directory] == 0) continue;
      --lost[change->directory];
      change->undo();
    }
  }
  _exit(kCrashExitCode);
}

void CrashFileSystem::Changed(const std::string& path, std::function<void()> undo) {
  changes_.push_back({DirectoryOf(path), std::move(undo)});
}

std::string CrashFileSystem::Bury(const std::string& path) {
  std::string grave = graveyard_ + "/" + std::to_string(buried_++);
  return link(path.c_str(), grave.c_str()) == 0 ? grave : "";
}

IOStatus CrashFileSystem::Before(const Call& call, size_t* /*bytes_done*/) {
  if (call.operation == Operation::kRead) return IOStatus::OK();
  if (!killed_ && call.operation == Operation::kSyncDirectory) {
    killed_ = ++directory_syncs_ == kill_at_;
  }
  if (killed_) return IOStatus::IOError("the process is dead");
  Count();
  if (call.operation == Operation::kRename) grave_ = Bury(call.to);
  if (call.operation == Operation::kDelete) grave_ = Bury(call.path);
  return IOStatus::OK();
}

void CrashFileSystem::After(const Call& call) {
  const std::string& path = call.path;
  const std::string& to = call.to;
  switch (call.operation) {
    case Operation::kCreate:
      return Changed(path, [path] { std::remove(path.c_str()); });
    case Operation::kRename:
      return Changed(to, [path, to, replaced = grave_] {
        std::rename(to.c_str(), path.c_str());
        if (!replaced.empty()) std::rename(replaced.c_str(), to.c_str());
      });
    case Operation::kLink:
      return Changed(to, [to] { std::remove(to.c_str()); });
    case Operation::kDelete:
      return Changed(path, [path, grave = grave_] {
        if (!grave.empty()) std::rename(grave.c_str(), path.c_str());
      });
    case Operation::kSync:
      return Count();
    case Operation::kSyncDirectory:
      std::erase_if(changes_, [&path](const Change& change) { return change.directory == path; });
      return Count();
    case Operation::kAppend:
    case Operation::kRead:
      return;
  }
}

}  // namespace quorate::tree
