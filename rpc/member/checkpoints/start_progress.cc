// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/checkpoints/start_progress.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace quorate::rpc {
namespace {

constexpr auto kInterval = std::chrono::seconds(1);

int64_t ToMs(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

}  // namespace

StartProgress::StartProgress(std::string what, std::string unit, const Clock* clock)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      clock_(clock),
      start_(clock->Now()),
      said_(start_) {}

void StartProgress::Note(uint64_t done, uint64_t total) {
  const auto now = clock_->Now();
  if (now - said_ < kInterval || total == 0) return;
  said_ = now;
  spdlog::info("{}: {} of {} {}, {} %, {} a second", what_, done, total, unit_, done * 100 / total,
               done * 1000 / static_cast<uint64_t>(ToMs(now - start_)));
}

int64_t StartProgress::ms() const { return ToMs(clock_->Now() - start_); }

void LogScanProgress::OnScanned(size_t segments, size_t segments_total) {
  if (segments < segments_total) return progress_.Note(segments, segments_total);
  const int64_t ms = progress_.ms();
  if (ms >= ToMs(kInterval)) spdlog::info("reading the log: {} segments in {} ms", segments, ms);
}

ReplayProgress::ReplayProgress(consensus::Index first, consensus::Index last, const Clock* clock)
    : first_(first), last_(last), clock_(clock) {
  ASSERT(first <= last);
  spdlog::info("log replay from entry {} to {}", first.value(), last.value());
}

void ReplayProgress::Begin() {
  if (!progress_.has_value()) progress_.emplace("log replay", "entries", clock_);
}

bool ReplayProgress::OnApplied(consensus::Index index) {
  const uint64_t total = last_.value() + 1 - first_.value();
  if (index < last_) {
    progress_->Note(index.value() + 1 - first_.value(), total);
    return false;
  }
  spdlog::info("log replay: {} entries, applied in {} ms", total, progress_->ms());
  return true;
}

}  // namespace quorate::rpc
