// SPDX-License-Identifier: Apache-2.0

#include "tree/sequence.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <system_error>

#include "base/assert.h"

namespace quorate::tree {
namespace {

constexpr size_t kWidth = 10;

}  // namespace

void AppendSequence(int32_t sequence, std::string* path) {
  ASSERT(path != nullptr);
  std::array<char, 16> digits;
  const int64_t magnitude = sequence < 0 ? -int64_t{sequence} : int64_t{sequence};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), magnitude);
  ASSERT(error == std::errc{}, "at most ten digits");
  const size_t count = static_cast<size_t>(end - digits.data());
  const size_t sign = sequence < 0 ? 1 : 0;
  if (sign > 0) path->push_back('-');
  if (sign + count < kWidth) path->append(kWidth - sign - count, '0');
  path->append(digits.data(), count);
}

}  // namespace quorate::tree
