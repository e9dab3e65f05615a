// SPDX-License-Identifier: Apache-2.0

#include "rpc/proto/times.h"

#include <google/protobuf/util/time_util.h>

namespace quorate::v1 {

using google::protobuf::util::TimeUtil;

namespace {

constexpr int32_t kNanosMax = 999'999'999;

bool IsValid(const google::protobuf::Duration& duration) {
  const int64_t seconds = duration.seconds();
  const int32_t nanos = duration.nanos();
  return seconds >= TimeUtil::kDurationMinSeconds && seconds <= TimeUtil::kDurationMaxSeconds &&
         nanos >= -kNanosMax && nanos <= kNanosMax && (seconds <= 0 || nanos >= 0) &&
         (seconds >= 0 || nanos <= 0);
}

}  // namespace

std::optional<int64_t> ToMs(const google::protobuf::Duration& duration) {
  if (!IsValid(duration)) return std::nullopt;
  return TimeUtil::DurationToMilliseconds(duration);
}

std::optional<int64_t> ToUs(const google::protobuf::Duration& duration) {
  if (!IsValid(duration)) return std::nullopt;
  return TimeUtil::DurationToMicroseconds(duration);
}

std::optional<int64_t> ToMs(const google::protobuf::Timestamp& time) {
  if (time.seconds() < TimeUtil::kTimestampMinSeconds ||
      time.seconds() > TimeUtil::kTimestampMaxSeconds || time.nanos() < 0 ||
      time.nanos() > kNanosMax) {
    return std::nullopt;
  }
  return TimeUtil::TimestampToMilliseconds(time);
}

google::protobuf::Duration DurationOfMs(int64_t ms) { return TimeUtil::MillisecondsToDuration(ms); }

google::protobuf::Duration DurationOfUs(int64_t us) { return TimeUtil::MicrosecondsToDuration(us); }

google::protobuf::Timestamp TimestampOfMs(int64_t ms) {
  return TimeUtil::MillisecondsToTimestamp(ms);
}

}  // namespace quorate::v1
