// SPDX-License-Identifier: Apache-2.0

#include "base/similar_names.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

namespace quorate {
namespace {

// Returns the number of letters to insert, remove or replace that turn `a` into `b`.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> SimilarNames(const std::string& name,
                                      const std::vector<std::string>& names) {
  std::vector<std::string> similar;
  for (const std::string& other : names) {
    if (EditDistance(name, other) <= 2 || absl::EqualsIgnoreCase(name, other) ||
        (name.size() >= 3 && absl::StartsWith(other, name))) {
      similar.push_back(other);
    }
  }
  return similar;
}

}  // namespace quorate
