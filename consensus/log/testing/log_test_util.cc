// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/testing/log_test_util.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace quorate::consensus {

Entry TestEntry(uint64_t index, uint64_t term, size_t payload_bytes) {
  std::string payload(payload_bytes, '\0');
  uint64_t state = index * 0x9E3779B97F4A7C15u + term * 0xBF58476D1CE4E5B9u + payload_bytes;
  for (char& byte : payload) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<char>(state >> 56);
  }
  EntryKind kind = EntryKind::kCommand;
  if (payload_bytes == 0) kind = EntryKind::kNoOp;
  if (payload_bytes == kMembershipBytes) kind = EntryKind::kMembership;
  if (payload_bytes == kVersionBytes) kind = EntryKind::kVersion;
  return {Index(index), Term(term), kind, Slice(std::move(payload))};
}

std::vector<Entry> TestEntries(uint64_t first, uint64_t last, uint64_t term, size_t payload_bytes) {
  std::vector<Entry> entries;
  for (uint64_t index = first; index <= last; ++index) {
    entries.push_back(TestEntry(index, term, payload_bytes));
  }
  return entries;
}

void Require(const absl::Status& status) {
  INFO(status.ToString());
  REQUIRE(status.ok());
}

std::vector<Entry> ReadAll(const SegmentLog& log) {
  std::vector<Entry> all;
  for (size_t bytes_max : {size_t{1}, size_t{700}, ~size_t{0}}) {
    std::vector<Entry> entries;
    for (Index next = log.first_index(); next <= log.last_index();) {
      // Checked without Catch first, which would be slow: this runs very often.
      absl::StatusOr<std::vector<Entry>> some = log.Read(next, log.last_index(), bytes_max);
      if (!some.ok()) Require(some.status());
      if (some->empty() || some->front().index != next) FAIL("entry " << next.value());
      next = some->back().index + 1;
      entries.insert(entries.end(), some->begin(), some->end());
    }
    if (bytes_max == 1) all = entries;
    REQUIRE(entries == all);
  }
  return all;
}

std::vector<std::string> SegmentFiles(Env* env, const std::string& directory) {
  std::vector<std::string> paths;
  for (const std::string& name : Require(env->List(directory))) {
    if (absl::EndsWith(name, ".log")) paths.push_back(absl::StrCat(directory, "/", name));
  }
  return paths;
}

uint64_t FileSize(Env* env, const std::string& path) {
  return Require(Require(env->OpenFile(path, /*create=*/false))->Size());
}

bool Contains(const absl::Status& status, const std::string& text) {
  return absl::StrContains(status.message(), text);
}

}  // namespace quorate::consensus
