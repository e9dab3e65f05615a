// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace quorate::tools::bench {
namespace {

constexpr double kWidth = 460, kHeight = 250;
constexpr double kLeft = 70, kRight = 14, kTop = 34, kBottom = 30;

std::string Text(double x, double y, const char* anchor, const std::string& text,
                 const char* style = "mark") {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">%s</text>", x,
                         y, anchor, style, Escaped(text));
}

std::string Line(double x1, double y1, double x2, double y2, const std::string& style) {
  return absl::StrFormat("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>", x1,
                         y1, x2, y2, style);
}

std::string Begin(double width, double height, const std::string& title) {
  return absl::StrFormat(
      "<svg viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" "
      "aria-label=\"%s\">",
      width, height, width, height, Escaped(title));
}

// Returns a step of 1, 2 or 5 times a power of ten, so that about four steps reach `max`.
double StepFor(double max) {
  const double power = std::pow(10, std::floor(std::log10(max / 4)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (power * factor * 5 >= max) return power * factor;
  }
  return power * 10;
}

// The scale of the y axis: its ends, and its marks.
class Axis {
 public:
  explicit Axis(const LineChart& chart) : is_log_(chart.log_y) {
    double min = 0, max = 0;
    for (const ChartLine& line : chart.lines) {
      for (const auto& [x, y] : line.points) {
        if (y > 0 && (min == 0 || y < min)) min = y;
        max = std::max(max, y);
      }
    }
    if (max <= 0) min = max = 1;
    if (is_log_) {
      from_ = std::floor(std::log10(min));
      to_ = std::max(from_ + 1, std::ceil(std::log10(max)));
      for (double at = from_; at <= to_; at += 1) marks_.push_back(std::pow(10, at));
    } else {
      const double step = StepFor(max);
      to_ = std::ceil(max / step) * step;
      for (int i = 0; i * step <= to_ * 1.001; ++i) marks_.push_back(i * step);
    }
  }

  const std::vector<double>& marks() const { return marks_; }
  double Place(double value) const {
    const double at = is_log_ ? std::log10(std::max(value, 1e-9)) : value;
    const double share = std::clamp((at - from_) / (to_ - from_), 0.0, 1.0);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }

 private:
  const bool is_log_;
  double from_ = 0;
  double to_ = 1;
  std::vector<double> marks_;
};

}  // namespace

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string ToSvg(const LineChart& chart) {
  const Axis axis(chart);
  const double x_range = chart.x_max > chart.x_min ? chart.x_max - chart.x_min : 1;
  const auto place_x = [&chart, x_range](double x) {
    return kLeft + (x - chart.x_min) / x_range * (kWidth - kLeft - kRight);
  };
  std::string svg = Begin(kWidth, kHeight, chart.title);
  svg += Text(4, 16, "start", chart.title, "title");
  for (const double mark : axis.marks()) {
    const double y = axis.Place(mark);
    svg += Line(kLeft, y, kWidth - kRight, y, "grid");
    svg += Text(kLeft - 6, y + 4, "end", chart.y_text(mark));
  }
  for (const auto& [x, text] : chart.x_marks) {
    svg += Text(place_x(x), kHeight - kBottom + 18, "middle", text);
  }
  for (const ChartLine& line : chart.lines) {
    std::string path;
    std::string dots;
    for (const auto& [x, y] : line.points) {
      if (y < 0) continue;
      absl::StrAppendFormat(&path, "%s%.1f %.1f", path.empty() ? "M" : " L", place_x(x),
                            axis.Place(y));
      absl::StrAppendFormat(&dots,
                            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" class=\"c%d dot\">"
                            "<title>%s: %s</title></circle>",
                            place_x(x), axis.Place(y), line.color, Escaped(line.label),
                            Escaped(chart.y_text(y)));
    }
    if (path.empty()) continue;
    absl::StrAppendFormat(&svg, "<path d=\"%s\" class=\"c%d line\"/>", path, line.color);
    svg += dots;
  }
  return svg + "</svg>";
}

std::string ToSvg(const std::string& title, const std::vector<RatioRow>& rows) {
  constexpr double kRowHeight = 22, kLabelWidth = 190, kChartWidth = 760, kValueWidth = 60;
  double widest = 2;
  for (const RatioRow& row : rows) {
    for (const double ratio : {row.median, row.quartile1, row.quartile3}) {
      if (ratio > 0) widest = std::max({widest, ratio, 1 / ratio});
    }
  }
  const double range = std::log2(widest) * 1.05;
  const auto place = [range](double ratio) {
    const double at = std::clamp(std::log2(std::max(ratio, 1e-9)) / range, -1.0, 1.0);
    return kLabelWidth + (at + 1) / 2 * (kChartWidth - kLabelWidth - kValueWidth);
  };
  const double height = kTop + kRowHeight * static_cast<double>(rows.size()) + 24;
  std::string svg = Begin(kChartWidth, height, title);
  svg += Text(4, 16, "start", title, "title");
  const double bottom = height - 24;
  // Marks powers of two, as many as are readable.
  const int step = std::max(1, static_cast<int>(range / 4));
  for (int power = -static_cast<int>(range) / step * step; power <= range; power += step) {
    const double x = place(std::exp2(power));
    svg += Line(x, kTop - 6, x, bottom, power == 0 ? "one" : "grid");
    svg += Text(x, bottom + 16, "middle",
                power < 0 ? absl::StrCat("1/", 1 << -power) : absl::StrCat(1 << power));
  }
  double y = kTop + kRowHeight / 2;
  for (const RatioRow& row : rows) {
    const std::string color = absl::StrCat("c", row.color);
    const double x = place(row.median);
    svg += Text(kLabelWidth - 10, y + 4, "end", row.label);
    svg += Line(place(1), y, x, y, color + " bar");
    svg += Line(place(row.quartile1), y, place(row.quartile3), y, "whisker");
    svg +=
        absl::StrFormat("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" class=\"%s dot\"/>", x, y, color);
    svg += Text(kChartWidth - 4, y + 4, "end",
                absl::StrFormat("%.*f x", row.median < 10 ? 2 : 1, row.median));
    y += kRowHeight;
  }
  return svg + "</svg>";
}

}  // namespace quorate::tools::bench
