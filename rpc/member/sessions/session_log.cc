// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/sessions/session_log.h"

#include <spdlog/spdlog.h>

#include <numeric>

namespace quorate::rpc {

void SessionLog::Note(Event event, tree::SessionId session, int32_t timeout_ms,
                      std::chrono::steady_clock::time_point now) {
  Tick(now);
  if (!began_.has_value()) began_ = now;
  if (lines_ == kLinesMax) {
    ++counted_[static_cast<size_t>(event)];
    return;
  }
  ++lines_;
  const auto id = static_cast<uint64_t>(session.value());  // as `cons` shows it, without a sign
  switch (event) {
    case Event::kOpened:
      spdlog::info("session opened session=0x{:x} timeout_ms={}", id, timeout_ms);
      return;
    case Event::kMoved:
      spdlog::info("session moved to this server session=0x{:x} timeout_ms={}", id, timeout_ms);
      return;
    case Event::kExpired:
      spdlog::info(
          "session expires: nothing was received from its client within the timeout session=0x{:x}",
          id);
      return;
  }
}

void SessionLog::Tick(std::chrono::steady_clock::time_point now) {
  if (!began_.has_value() || now - *began_ < kInterval) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - *began_).count();
  if (std::accumulate(counted_.begin(), counted_.end(), uint64_t{0}) > 0) {
    const auto count = [this](Event event) { return counted_[static_cast<size_t>(event)]; };
    spdlog::info("more sessions in the last {} s opened={} moved={} expired={}", seconds,
                 count(Event::kOpened), count(Event::kMoved), count(Event::kExpired));
  }
  began_.reset();
  lines_ = 0;
  counted_ = {};
}

}  // namespace quorate::rpc
