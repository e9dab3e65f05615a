// Charts as inline SVG. Colours are the style sheet's: line number i has the class "c0", "c1", ...
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
  // (x, y); those whose y is negative are not known and left out.
  std::vector<std::pair<double, double>> points;
};

struct LineChart {
  std::string title;
  // Marks below the x axis: where, and what they say.
  std::vector<std::pair<double, std::string>> x_marks;
  double x_min = 0;
  double x_max = 1;
  // By powers of ten, else from 0 up.
  bool log_y = false;
  // How a value of the y axis is written.
  std::function<std::string(double)> y_text;
  std::vector<ChartLine> lines;
};
std::string ToSvg(const LineChart& chart);

// A value with the middle half of its pairs, on an axis of ratios around 1.
struct RatioRow {
  std::string label;
  size_t color = 0;
  double median = 1;
  double quartile1 = 1;
  double quartile3 = 1;
};
std::string ToSvg(const std::string& title, const std::vector<RatioRow>& rows);

// Text as it may stand in HTML.
std::string Escaped(const std::string& text);

}  // namespace quorate::tools::bench
