// SPDX-License-Identifier: Apache-2.0

// The metrics of a server, read from the text format of Prometheus (docs/reference/metrics.md).
//
// Thread-safety: a value.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace quorate::tools {

class Metrics {
 public:
  // By the text of the labels, such as `member="2"`.
  using Samples = std::map<std::string, double, std::less<>>;

  // Reads a page. Lines that are no samples, and values that are no numbers, are skipped.
  static Metrics Parse(std::string_view text);

  bool empty() const { return metrics_.empty(); }
  // Returns the value of the sample with these labels; nullopt if the server has none.
  std::optional<double> Value(std::string_view name, std::string_view labels = "") const;
  // Returns all samples of a metric; none if the server does not have it.
  const Samples& All(std::string_view name) const;

 private:
  std::map<std::string, Samples, std::less<>> metrics_;
};

}  // namespace quorate::tools
