#pragma once
#include <functional>
#include <string>
#include <vector>

#include "scenarios/src/pictures/svg.hpp"

namespace trainyard {

/// The values that a plot has in one direction, and the round ones among them.
class ChartAxis {
 public:
  /// `binary`: linear, with ticks that are round in KiB, MiB, ….
  enum class Scale { linear, binary, log2, log10 };
  explicit ChartAxis(Scale scale = Scale::linear) : scale_(scale) {}
  ChartAxis(double least, double most) : least_(least), most_(most) {}

  void include(double value);
  /// Leaves room for marks at the ends.
  void widen(double share);
  /// Where a value lies, from 0 (the least) to 1.
  double share(double value) const;
  /// Round values of the range: 1, 2 or 5 times a power of ten, or powers; about `wanted` of them.
  std::vector<double> ticks(double wanted) const;
  double least() const { return least_; }
  double most() const { return most_; }

 private:
  Scale scale_ = Scale::linear;
  double least_ = 1e300, most_ = -1e300;

  bool logarithmic() const { return scale_ == Scale::log2 || scale_ == Scale::log10; }
};

/// The rectangle on a picture where values of two axes are drawn.
struct PlotArea {
  double left = 0, top = 0, width = 0, height = 0;
  double x(const ChartAxis& axis, double value) const { return left + width * axis.share(value); }
  double y(const ChartAxis& axis, double value) const { return top + height * (1 - axis.share(value)); }
};

using TickLabel = std::function<std::string(double)>;
std::string short_number(double);  ///< four digits
/// Lines of a grid through the area, and below it what they stand for.
void draw_x_axis(Svg&, const PlotArea&, const ChartAxis&, const TickLabel&);

struct LegendEntry {
  std::string fill, words;
};
/// Squares and their words, in lines from `x` to `right`; gives the height that they took.
double draw_legend(Svg&, double x, double y, double right, const std::vector<LegendEntry>&);

/// A color for each of several series, as different as people with the common kinds of color blindness need.
const char* series_color(std::size_t number);

/// Points against two axes: a line through them, squares at them, or both.
struct ChartSeries {
  struct Point {
    double x = 0, y = 0;
    std::string label = {};  ///< beside its square
    bool marked = false;     ///< with a square, of `mark_color` where that is given
    std::string mark_color = {};
  };
  std::string color;
  std::vector<Point> points = {};
  bool line = true, dashed = false;
};

/// One plot. Its axes hold all points of its series.
struct Chart {
  std::string title;
  ChartAxis x = ChartAxis(), y = ChartAxis();
  TickLabel x_label = short_number, y_label = short_number;
  std::vector<ChartSeries> series = {};
};

/// Plots in rows, beneath a title and a note, above a legend.
struct ChartSheet {
  std::string title, note = {}, description = {};
  std::size_t columns = 1;
  double width = 300, height = 220;  ///< of each plot with its labels
  std::vector<LegendEntry> legend = {};
};
std::string charts_svg(const ChartSheet&, std::vector<Chart>);

}  // namespace trainyard
