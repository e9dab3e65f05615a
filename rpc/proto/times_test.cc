// SPDX-License-Identifier: Apache-2.0

#include "rpc/proto/times.h"

#include <catch2/catch.hpp>

namespace quorate::v1 {
namespace {

google::protobuf::Duration DurationOf(int64_t seconds, int32_t nanos) {
  google::protobuf::Duration duration;
  duration.set_seconds(seconds);
  duration.set_nanos(nanos);
  return duration;
}

TEST_CASE("milliseconds become durations and times, and come back") {
  const int64_t ms = GENERATE(as<int64_t>{}, 0, 1, 999, 1000, 1234567, -1, -1001);
  CHECK(ToMs(DurationOfMs(ms)) == ms);
  CHECK(ToMs(TimestampOfMs(ms)) == ms);
}

TEST_CASE("microseconds become durations, and come back") {
  const int64_t us = GENERATE(as<int64_t>{}, 0, 1, 999'999, 1'000'000, 1'234'567, -1, -1'000'001);
  CHECK(ToUs(DurationOfUs(us)) == us);
  CHECK_FALSE(ToUs(DurationOf(1, -1)).has_value());
}

TEST_CASE("durations are rounded to milliseconds toward zero") {
  CHECK(ToMs(DurationOf(1, 1'999'999)) == 1001);
  CHECK(ToMs(DurationOf(0, 999'999)) == 0);
  CHECK(ToMs(DurationOf(-1, -1'999'999)) == -1001);
}

TEST_CASE("the longest durations have milliseconds") {
  CHECK(ToMs(DurationOf(315'576'000'000, 999'999'999)) == 315'576'000'000'999);
  CHECK(ToMs(DurationOf(-315'576'000'000, -999'999'999)) == -315'576'000'000'999);
}

TEST_CASE("durations that are not valid have no milliseconds") {
  CHECK_FALSE(ToMs(DurationOf(315'576'000'001, 0)).has_value());
  CHECK_FALSE(ToMs(DurationOf(-315'576'000'001, 0)).has_value());
  CHECK_FALSE(ToMs(DurationOf(INT64_MAX, 0)).has_value());
  CHECK_FALSE(ToMs(DurationOf(INT64_MIN, 0)).has_value());
  CHECK_FALSE(ToMs(DurationOf(0, 1'000'000'000)).has_value());
  CHECK_FALSE(ToMs(DurationOf(0, INT32_MIN)).has_value());
  CHECK_FALSE(ToMs(DurationOf(1, -1)).has_value());
  CHECK_FALSE(ToMs(DurationOf(-1, 1)).has_value());
}

TEST_CASE(
    "times before the epoch are rounded down, and times that are not valid have no milliseconds") {
  google::protobuf::Timestamp time;
  time.set_seconds(-1);
  time.set_nanos(999'999);
  CHECK(ToMs(time) == -1000);
  time.set_nanos(-1);
  CHECK_FALSE(ToMs(time).has_value());
  time.set_nanos(1'000'000'000);
  CHECK_FALSE(ToMs(time).has_value());
  time.set_nanos(0);
  time.set_seconds(INT64_MAX);
  CHECK_FALSE(ToMs(time).has_value());
  time.set_seconds(INT64_MIN);
  CHECK_FALSE(ToMs(time).has_value());
}

}  // namespace
}  // namespace quorate::v1
