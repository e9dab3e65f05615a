// SPDX-License-Identifier: Apache-2.0

// A file system in which one operation fails, or all operations from one on fail.
//
// Thread-safety: may be used from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "tree/store/testing/fault_file_system.h"

namespace quorate::tree {

class ErrorFileSystem : public FaultFileSystem {
 public:
  enum class Fault : uint8_t {
    kError,        // one operation fails without effect; data of a failed sync is lost
    kShortWrite,   // one operation fails, but half of an append is written
    kDead,         // all operations from one on fail
    kNoSpace,      // one creation, link, rename or append finds the disk full
    kFull,         // all of these operations from one on find the disk full
    kNoSpaceLate,  // one sync finds the disk full
    kUnreadable,   // one file can be written, but not read
  };

  // Makes operation number `fail_at` fail, counted from 1. Only operations that can have the fault
  // count.
  ErrorFileSystem(Fault fault, uint64_t fail_at) : fault_(fault), fail_at_(fail_at) {}

  const char* Name() const override { return "ErrorFileSystem"; }

  bool has_failed() const { return operations_ >= fail_at_; }
  // Returns a description of the operation that failed.
  const std::string& failed() const { return failed_; }
  // Ends the fault: later operations succeed.
  void Heal();
  // Makes all later operations fail without effect, as if the process had ended at once.
  void EndProcess();
  // Cuts off the data of failed syncs, like a kernel that has dropped the pages. REQUIRES: no file
  // is open.
  void LoseUnsynced();

 protected:
  IOStatus Before(const Call& call, size_t* bytes_done) override;

 private:
  // Returns whether the operation can have the fault.
  bool CanFail(const Call& call) const;
  IOStatus FailReads(const Call& call);

  const Fault fault_;
  const uint64_t fail_at_;
  uint64_t operations_ = 0;
  bool healed_ = false;
  bool process_ended_ = false;
  std::string failed_;
  std::set<std::string> unreadable_;  // the names of the file that cannot be read
};

}  // namespace quorate::tree
