// SPDX-License-Identifier: Apache-2.0

// Draws charts as inline SVG. The style sheet sets the colours: line number i has the class "c0",
// "c1", ...
//
// Thread-safety: functions without state.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace quorate::tools::bench {

struct ChartLine {
  std::string label;
  size_t color = 0;
  // Points (x, y); points with a negative y are unknown and left out.
  std::vector<std::pair<double, double>> points;
};

struct LineChart {
  std::string title;
  // Marks below the x axis: their positions and texts.
  std::vector<std::pair<double, std::string>> x_marks;
  double x_min = 0;
  double x_max = 1;
  // Whether the y axis is logarithmic, with powers of ten; otherwise it begins at 0.
  bool log_y = false;
  // Formats a value of the y axis.
  std::function<std::string(double)> y_text;
  std::vector<ChartLine> lines;
};
std::string ToSvg(const LineChart& chart);

// A ratio with the middle half of its pairs, on an axis of ratios around 1.
struct RatioRow {
  std::string label;
  size_t color = 0;
  double median = 1;
  double quartile1 = 1;
  double quartile3 = 1;
};
std::string ToSvg(const std::string& title, const std::vector<RatioRow>& rows);

// Returns the text escaped for HTML.
std::string Escaped(const std::string& text);

}  // namespace quorate::tools::bench
