// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace quorate::chaos {
namespace {

constexpr int64_t kKeptMax = 3;        // violations of one invariant
constexpr size_t kLineCharsMax = 600;  // longer data are cut
constexpr size_t kWindowMax = 40;      // lines

}  // namespace

void Verdicts::Fail(std::string_view invariant, std::string details,
                    const std::vector<const Operation*>& operations,
                    std::vector<LineId> more_lines) {
  ++violation_count_;
  if (++by_invariant_[std::string(invariant)] > kKeptMax) return;
  Violation& violation = violations_.emplace_back();
  violation.invariant = invariant;
  violation.details = std::move(details);
  violation.lines = std::move(more_lines);
  for (const Operation* operation : operations) {
    if (operation == nullptr) continue;
    violation.lines.push_back(operation->invoked_line);
    violation.lines.push_back(operation->answered_line);
  }
}

std::vector<std::string> Verdicts::Window(const Violation& violation) const {
  std::vector<LineId> lines = violation.lines;
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  std::vector<std::pair<int64_t, std::string>> window;
  for (const LineId& line : lines) {
    if (line.file < 0) continue;
    std::string text = run_->TextOf(line);
    const auto parsed = Parse(text);
    const int64_t time_ns = parsed.ok() ? parsed->time_ns : 0;
    if (text.size() > kLineCharsMax) {
      text = absl::StrCat(text.substr(0, kLineCharsMax), "... (", text.size(), " characters)");
    }
    const double seconds = static_cast<double>(time_ns - run_->first_ns()) / 1e9;
    window.emplace_back(time_ns, absl::StrFormat("%+12.6fs  %s", seconds, text));
  }
  std::stable_sort(window.begin(), window.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> texts;
  for (auto& [time_ns, text] : window) {
    if (texts.size() < kWindowMax) texts.push_back(std::move(text));
  }
  return texts;
}

std::string Verdicts::Print() const {
  std::string text = absl::StrFormat("%-12s %s", name_, good() ? "good" : "BAD ");
  for (const auto& [what, count] : counts_) absl::StrAppend(&text, "  ", count, " ", what);
  text.push_back('\n');
  for (const std::string& what : undecided_) absl::StrAppend(&text, "  not decided: ", what, "\n");
  for (const Violation& violation : violations_) {
    absl::StrAppend(&text, "\n  BROKEN: ", violation.invariant, "\n    ", violation.details, "\n");
    for (const std::string& line : Window(violation)) absl::StrAppend(&text, "    ", line, "\n");
  }
  for (const auto& [invariant, count] : by_invariant_) {
    if (count <= kKeptMax) continue;
    absl::StrAppend(&text, "\n  ", count - kKeptMax, " more of: ", invariant, "\n");
  }
  return text;
}

nlohmann::ordered_json Verdicts::Json() const {
  nlohmann::ordered_json json;
  json["name"] = name_;
  json["ok"] = good();
  for (const auto& [what, count] : counts_) json[what] = count;
  json["not decided"] = undecided_.size();
  json["wrong"] = violation_count_;
  json["undecided"] = undecided_;
  json["violations"] = nlohmann::ordered_json::array();
  for (const Violation& violation : violations_) {
    json["violations"].push_back({{"invariant", violation.invariant},
                                  {"details", violation.details},
                                  {"window", Window(violation)}});
  }
  return json;
}

}  // namespace quorate::chaos
