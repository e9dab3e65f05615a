// SPDX-License-Identifier: Apache-2.0

// Helpers of the log's tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "consensus/core/types.h"
#include "consensus/log/env.h"
#include "consensus/log/segment_log.h"

namespace quorate::consensus {

// Payloads of these sizes make a TestEntry a membership or a version entry (by kind, not by
// content).
inline constexpr size_t kMembershipBytes = 37;
inline constexpr size_t kVersionBytes = 38;

// Returns an entry whose payload is a function of the arguments, so that tests recognise an entry
// that was never appended, or that is mixed from two.
Entry TestEntry(uint64_t index, uint64_t term, size_t payload_bytes);
std::vector<Entry> TestEntries(uint64_t first, uint64_t last, uint64_t term, size_t payload_bytes);

// Fails the running test case, with the message, unless `status` is OK.
void Require(const absl::Status& status);

template <class T>
T Require(absl::StatusOr<T> value) {
  Require(value.status());
  return *std::move(value);
}

// Returns every entry of the log. Reads them with several values of bytes_max, and checks that the
// results agree.
std::vector<Entry> ReadAll(const SegmentLog& log);

// Returns the paths of the segment files in `directory`, in order of their names.
std::vector<std::string> SegmentFiles(Env* env, const std::string& directory);
uint64_t FileSize(Env* env, const std::string& path);

bool Contains(const absl::Status& status, const std::string& text);

}  // namespace quorate::consensus
