// SPDX-License-Identifier: Apache-2.0

// Logs the progress of a start that takes long, once a second.
//
// Thread-safety: none.
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
  // The work begins now. `what` describes it for the log, `unit` is what is counted. `clock` must
  // outlive the object.
  StartProgress(std::string what, std::string unit, const Clock* clock);

  // Records that `done` of `total` units are done, and logs it if nothing was logged for a second.
  void Note(uint64_t done, uint64_t total);

  // Returns the milliseconds since the work began.
  int64_t ms() const;

 private:
  const std::string what_;
  const std::string unit_;
  const Clock* const clock_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point said_;
};

// Logs how much of the Raft log was read while it is opened; nothing if that takes less than a
// second.
class LogScanProgress : public consensus::ScanObserver {
 public:
  explicit LogScanProgress(const Clock* clock) : progress_("reading the log", "segments", clock) {}
  void OnScanned(size_t segments, size_t segments_total) override;

 private:
  StartProgress progress_;
};

// Logs the progress of applying the entries that the log held at the start.
class ReplayProgress {
 public:
  // Logs that entries `first` to `last` will be applied. `clock` must outlive the object. REQUIRES:
  // first <= last.
  ReplayProgress(consensus::Index first, consensus::Index last, const Clock* clock);

  // Called before entries are applied. The duration counts from the first call, because before it
  // the entries wait until they are known to be committed.
  void Begin();
  // Called when all entries up to `index` are applied. Logs the progress, and returns whether the
  // replay is done. REQUIRES: Begin was called.
  bool OnApplied(consensus::Index index);

 private:
  const consensus::Index first_;
  const consensus::Index last_;
  const Clock* const clock_;
  std::optional<StartProgress> progress_;
};

}  // namespace quorate::rpc
