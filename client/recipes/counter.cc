// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/counter.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "client/recipes/waiting.h"

namespace quorate {
absl::StatusOr<Counter::Reading> Counter::Read(bool linearizable) {
  absl::StatusOr<GetResult> read = client_->Get(path_, {.linearizable = linearizable});
  if (ErrorOf(read.status()) == ErrorCode::kNoNode) return Reading{};
  if (!read.ok()) return read.status();
  Reading reading{0, read->stat.version};
  const size_t size = width_ == Width::k64Bits ? sizeof(int64_t) : sizeof(int32_t);
  if (read->data.empty()) return reading;
  if (read->data.size() != size) {
    return absl::FailedPreconditionError(absl::StrCat(path_, ": a counter's data has ", size,
                                                      " bytes, but this znode's has ",
                                                      read->data.size()));
  }
  reading.value = width_ == Width::k64Bits ? LoadInt<std::endian::big, int64_t>(read->data.data())
                                           : LoadInt<std::endian::big, int32_t>(read->data.data());
  return reading;
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

absl::StatusOr<bool> Counter::Replace(const Reading& reading, int64_t value) {
  absl::StatusOr<std::string> data = Encode(value);
  if (!data.ok()) return data.status();
  if (!reading.version.has_value()) {
    const absl::Status status =
        client_->Create(path_, *std::move(data), {.create_parents = true}).status();
    if (ErrorOf(status) == ErrorCode::kNodeExists) return false;
    if (!status.ok()) return status;
    return true;
  }
  const absl::Status status =
      client_->Set(path_, *std::move(data), {.version = reading.version}).status();
  const std::optional<ErrorCode> error = ErrorOf(status);
  if (error == ErrorCode::kBadVersion || error == ErrorCode::kNoNode) return false;
  if (!status.ok()) return status;
  return true;
}

absl::StatusOr<int64_t> Counter::Get() {
  const absl::StatusOr<Reading> reading = Read(true);
  if (!reading.ok()) return reading.status();
  return reading->value;
}

absl::StatusOr<int64_t> Counter::Add(int64_t delta) {
  for (int attempts = 1;; ++attempts) {
    // A stale number does no harm: Replace fails, and after that this session reads a newer one.
    const absl::StatusOr<Reading> reading = Read(false);
    if (!reading.ok()) return reading.status();
    int64_t sum = 0;
    if (__builtin_add_overflow(reading->value, delta, &sum)) {
      return absl::OutOfRangeError(
          absl::StrCat(path_, ": ", reading->value, " + ", delta, " does not fit into 8 bytes"));
    }
    const absl::StatusOr<bool> replaced = Replace(*reading, sum);
    if (!replaced.ok()) return replaced.status();
    if (*replaced) return sum;
    internal::PauseAfterConflict(attempts);
  }
}

absl::StatusOr<bool> Counter::CompareAndSet(int64_t expected, int64_t desired) {
  for (int attempts = 1;; ++attempts) {
    const absl::StatusOr<Reading> reading = Read(true);
    if (!reading.ok()) return reading.status();
    if (reading->value != expected) return false;
    const absl::StatusOr<bool> replaced = Replace(*reading, desired);
    if (!replaced.ok() || *replaced) return replaced;
    internal::PauseAfterConflict(attempts);
  }
}

absl::Status Counter::Set(int64_t value) {
  absl::StatusOr<std::string> data = Encode(value);
  if (!data.ok()) return data.status();
  for (;;) {
    absl::Status status = client_->Set(path_, *data).status();
    if (ErrorOf(status) != ErrorCode::kNoNode) return status;
    status = client_->Create(path_, *data, {.create_parents = true}).status();
    if (ErrorOf(status) != ErrorCode::kNodeExists) return status;
  }
}

}  // namespace quorate
