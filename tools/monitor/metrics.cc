// SPDX-License-Identifier: Apache-2.0

#include "tools/monitor/metrics.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "base/strings.h"

namespace quorate::tools {

Metrics Metrics::Parse(std::string_view text) {
  Metrics metrics;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() == text.size() ? line.size() : line.size() + 1);
    // Values of labels may have spaces and braces, and the value of the sample has none.
    const size_t space = line.rfind(' ');
    if (line.starts_with('#') || space == std::string_view::npos) continue;
    double value = 0;
    const std::string_view number = line.substr(space + 1);
    if (!absl::SimpleAtod(ToAbsl(number), &value) || !std::isfinite(value)) continue;
    const std::string_view sample = line.substr(0, space);
    const size_t brace = sample.find('{');
    const bool has_labels = brace != std::string_view::npos && sample.ends_with('}');
    const std::string_view labels =
        has_labels ? sample.substr(brace + 1, sample.size() - brace - 2) : std::string_view();
    metrics.metrics_[std::string(sample.substr(0, brace))].insert_or_assign(std::string(labels),
                                                                            value);
  }
  return metrics;
}

std::optional<double> Metrics::Value(std::string_view name, std::string_view labels) const {
  const Samples& samples = All(name);
  const auto found = samples.find(labels);
  return found == samples.end() ? std::nullopt : std::optional(found->second);
}

const Metrics::Samples& Metrics::All(std::string_view name) const {
  static const Samples kNone;
  const auto found = metrics_.find(name);
  return found == metrics_.end() ? kNone : found->second;
}

}  // namespace quorate::tools
