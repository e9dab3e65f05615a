// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/counter.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "client/recipes/waiting.h"

namespace quorate {

absl::StatusOr<int64_t> Counter::Decode(std::string_view data) const {
  if (data.empty()) return 0;
  const size_t size = width_ == Width::k64Bits ? sizeof(int64_t) : sizeof(int32_t);
  if (data.size() != size) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, ": a counter's data has ", size, " bytes, but this znode's has ", data.size()));
  }
  if (width_ == Width::k64Bits) return LoadInt<std::endian::big, int64_t>(data.data());
  return LoadInt<std::endian::big, int32_t>(data.data());
}

absl::StatusOr<std::string> Counter::Encode(int64_t value) const {
  std::string data;
  ByteWriter<std::endian::big> writer(&data);
  if (width_ == Width::k64Bits) {
    writer.Int(value);
    return data;
  }
  if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) {
    return absl::OutOfRangeError(absl::StrCat(path_, ": ", value, " does not fit into 4 bytes"));
  }
  writer.Int(static_cast<int32_t>(value));
  return data;
}

absl::StatusOr<int64_t> Counter::Get() {
  const absl::StatusOr<VersionedValue> value = value_.Get();
  if (!value.ok()) return value.status();
  return Decode(value->data);
}

absl::StatusOr<int64_t> Counter::Add(int64_t delta) {
  int64_t sum = 0;
  const absl::Status status =
      value_
          .Update([&](std::string_view before) -> absl::StatusOr<std::string> {
            const absl::StatusOr<int64_t> number = Decode(before);
            if (!number.ok()) return number.status();
            if (__builtin_add_overflow(*number, delta, &sum)) {
              return absl::OutOfRangeError(
                  absl::StrCat(path_, ": ", *number, " + ", delta, " does not fit into 8 bytes"));
            }
            return Encode(sum);
          })
          .status();
  if (!status.ok()) return status;
  return sum;
}

absl::StatusOr<bool> Counter::CompareAndSet(int64_t expected, int64_t desired) {
  for (int attempts = 1;; ++attempts) {
    const absl::StatusOr<VersionedValue> before = value_.Get();
    if (!before.ok()) return before.status();
    const absl::StatusOr<int64_t> number = Decode(before->data);
    if (!number.ok()) return number.status();
    if (*number != expected) return false;
    absl::StatusOr<std::string> data = Encode(desired);
    if (!data.ok()) return data.status();
    const auto made = value_.TrySet(*before, *std::move(data));
    if (!made.ok()) return made.status();
    if (made->has_value()) return true;
    internal::PauseAfterConflict(attempts);
  }
}

absl::Status Counter::Set(int64_t value) {
  absl::StatusOr<std::string> data = Encode(value);
  if (!data.ok()) return data.status();
  return value_.Set(*std::move(data)).status();
}

}  // namespace quorate
