// A file system of which one operation fails, or all from one on.
//
// Thread-safety: may be used from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "tree/store/fault_file_system.h"

namespace quorate::tree {

class ErrorFileSystem : public FaultFileSystem {
 public:
  enum class Fault : uint8_t {
    kError,        // once, without effect; what a sync that fails should have written is lost
    kShortWrite,   // the same, but half of what is appended is written
    kDead,         // from there on everything fails
    kNoSpace,      // once: what would make a file or a name, or a file longer, finds the disk full
    kFull,         // the same from there on
    kNoSpaceLate,  // once: it is the sync that finds the disk full
    kUnreadable,   // of what is written to one file, nothing can be read
  };

  // Operation number `fail_at`, counted from 1, fails. Those that cannot fail so do not count.
  ErrorFileSystem(Fault fault, uint64_t fail_at) : fault_(fault), fail_at_(fail_at) {}

  const char* Name() const override { return "ErrorFileSystem"; }

  bool has_failed() const { return operations_ >= fail_at_; }
  // The operation that failed, for people.
  const std::string& failed() const { return failed_; }
  // Nothing fails any more.
  void Heal() { healed_ = true; }
  // When nobody has files open: cuts off what a sync that failed should have written, as a kernel
  // does that has forgotten it.
  void LoseUnsynced();

 protected:
  IOStatus Before(const Call& call, size_t* bytes_done) override;

 private:
  // Whether it is one of those that can fail.
  bool CanFail(const Call& call) const;
  IOStatus FailReads(const Call& call);

  const Fault fault_;
  const uint64_t fail_at_;
  uint64_t operations_ = 0;
  bool healed_ = false;
  std::string failed_;
  std::set<std::string> unreadable_;  // the names of that file
};

}  // namespace quorate::tree
