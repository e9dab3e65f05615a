// What a start that takes long says in the program's log: how far it is, once a second.
//
// Thread-safety: none inside.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "consensus/core/types.h"
#include "consensus/log/segment_log.h"

namespace quorate::rpc {

class StartProgress {
 public:
  // It begins now. `what` is done, and `unit` counted. `clock` must outlive the object.
  StartProgress(std::string what, std::string unit, const Clock* clock);

  // So much of it is done. Says so if nothing was said for a second.
  void Note(uint64_t done, uint64_t total);

  // Since it began.
  int64_t ms() const;

 private:
  const std::string what_;
  const std::string unit_;
  const Clock* const clock_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point said_;
};

// How much of the log is read when it is opened. If that is quick, nothing is said.
class LogScanProgress : public consensus::ScanObserver {
 public:
  explicit LogScanProgress(const Clock* clock) : progress_("reading the log", "segments", clock) {}
  void OnScanned(size_t segments, size_t segments_total) override;

 private:
  StartProgress progress_;
};

// How far the log is applied that a start has found.
class ReplayProgress {
 public:
  // Entries `first` to `last` will be applied; says so. `clock` must outlive the object. REQUIRES:
  // first <= last.
  ReplayProgress(consensus::Index first, consensus::Index last, const Clock* clock);

  // Some are applied now. It begins with the first call: before, entries wait until it is known
  // that they are committed.
  void Begin();
  // All up to `index` are applied; says how far that is, or that it was all of them, and returns
  // whether it was. REQUIRES: Begin was called.
  bool OnApplied(consensus::Index index);

 private:
  const consensus::Index first_;
  const consensus::Index last_;
  const Clock* const clock_;
  std::optional<StartProgress> progress_;
};

}  // namespace quorate::rpc
