// SPDX-License-Identifier: Apache-2.0

// Conversions between the durations and times of quorate.v1 and milliseconds, for clients and servers.
//
// Thread-safety: functions without state.
#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <optional>

namespace quorate::v1 {

// Returns the milliseconds of a duration from any sender, rounded toward zero; nothing if it is not
// one that google/protobuf/duration.proto allows: seconds beyond 10,000 years, nanoseconds of a
// second or more, or parts with different signs.
std::optional<int64_t> ToMs(const google::protobuf::Duration& duration);

// Returns the milliseconds since the epoch of a time from any sender, rounded down; nothing if it is
// not one that google/protobuf/timestamp.proto allows: before the year 1, after 9999, or nanoseconds
// that are negative or a second or more.
std::optional<int64_t> ToMs(const google::protobuf::Timestamp& time);

// As ToMs, in microseconds.
std::optional<int64_t> ToUs(const google::protobuf::Duration& duration);

// Returns the duration of so many milliseconds.
google::protobuf::Duration DurationOfMs(int64_t ms);

// Returns the duration of so many microseconds.
google::protobuf::Duration DurationOfUs(int64_t us);

// Returns the time so many milliseconds after the epoch.
google::protobuf::Timestamp TimestampOfMs(int64_t ms);

}  // namespace quorate::v1
