// SPDX-License-Identifier: Apache-2.0

#include "tree/store/testing/error_file_system.h"

#include <unistd.h>

#include <mutex>

namespace quorate::tree {

using rocksdb::IOStatus;

namespace {

const char* NameOf(FaultFileSystem::Operation operation) {
  using Operation = FaultFileSystem::Operation;
  switch (operation) {
    case Operation::kCreate:
      return "creating ";
    case Operation::kAppend:
      return "appending to ";
    case Operation::kSync:
      return "syncing ";
    case Operation::kRename:
      return "renaming ";
    case Operation::kLink:
      return "linking ";
    case Operation::kDelete:
      return "removing ";
    case Operation::kSyncDirectory:
      return "syncing the directory ";
    case Operation::kRead:
      return "reading ";
  }
  return "";
}

bool NeedsSpace(const FaultFileSystem::Call& call) {
  using Operation = FaultFileSystem::Operation;
  switch (call.operation) {
    case Operation::kCreate:
    case Operation::kAppend:
    case Operation::kLink:
      return true;
    case Operation::kRename:
      // This rename replaces an existing name, and therefore needs no space.
      return !call.to.ends_with("/current");
    case Operation::kSync:
    case Operation::kDelete:
    case Operation::kSyncDirectory:
    case Operation::kRead:
      return false;
  }
  return false;
}

}  // namespace

bool ErrorFileSystem::CanFail(const Call& call) const {
  switch (fault_) {
    case Fault::kNoSpace:
    case Fault::kFull:
      return NeedsSpace(call);
    case Fault::kNoSpaceLate:
      return call.operation == Operation::kSync;
    case Fault::kUnreadable:
      return call.operation == Operation::kCreate;
    case Fault::kError:
    case Fault::kShortWrite:
    case Fault::kDead:
      // A table that was readable right after it was written does not fail once later.
      return call.operation != Operation::kRead || !call.path.ends_with(".sst");
  }
  return false;
}

void ErrorFileSystem::Heal() {
  const std::lock_guard<std::recursive_mutex> lock(mutex());
  healed_ = true;
}

void ErrorFileSystem::EndProcess() {
  const std::lock_guard<std::recursive_mutex> lock(mutex());
  process_ended_ = true;
}

IOStatus ErrorFileSystem::Before(const Call& call, size_t* bytes_done) {
  if (process_ended_) return IOStatus::IOError(call.path, "the process has ended");
  if (healed_) return IOStatus::OK();
  if (fault_ == Fault::kDead && operations_ >= fail_at_) {
    return IOStatus::IOError(call.path, "injected");
  }
  const bool fails = CanFail(call) && ++operations_ == fail_at_;
  if (fails) failed_ = NameOf(call.operation) + call.path;
  switch (fault_) {
    case Fault::kUnreadable:
      if (fails) unreadable_.insert(call.path);
      return FailReads(call);
    case Fault::kFull:
      if (CanFail(call) && has_failed()) return IOStatus::NoSpace(call.path, "injected");
      return IOStatus::OK();
    case Fault::kNoSpace:
    case Fault::kNoSpaceLate:
      return fails ? IOStatus::NoSpace(call.path, "injected") : IOStatus::OK();
    case Fault::kShortWrite:
      *bytes_done = fails ? call.bytes / 2 : 0;
      break;
    case Fault::kError:
    case Fault::kDead:
      break;
  }
  return fails ? IOStatus::IOError(call.path, "injected") : IOStatus::OK();
}

IOStatus ErrorFileSystem::FailReads(const Call& call) {
  if (unreadable_.count(call.path) == 0) return IOStatus::OK();
  const bool gets_name = call.operation == Operation::kLink || call.operation == Operation::kRename;
  if (gets_name) unreadable_.insert(call.to);
  if (call.operation != Operation::kRead) return IOStatus::OK();
  return IOStatus::IOError(call.path, "injected");
}

void ErrorFileSystem::LoseUnsynced() {
  const std::lock_guard<std::recursive_mutex> lock(mutex());
  for (const auto& [name, sizes] : files()) {
    if (!sizes.sync_failed) continue;
    // A file that does not exist any more has no bytes to lose.
    if (truncate(name.c_str(), static_cast<off_t>(sizes.synced)) != 0) continue;
  }
}

}  // namespace quorate::tree
