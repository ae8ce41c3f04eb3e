#pragma once
#include <functional>
#include <string>
#include <vector>

#include "scenarios/src/pictures/svg.hpp"

namespace trainyard {

/// One axis of a plot: its range of values and the round values in it.
class ChartAxis {
 public:
  /// `binary`: linear, with ticks that are round in KiB, MiB, …. `places`: linear, with a tick at every whole number.
  enum class Scale { linear, binary, places, log2, log10 };
  explicit ChartAxis(Scale scale = Scale::linear) : scale_(scale) {}
  ChartAxis(double least, double most) : least_(least), most_(most) {}

  void include(double value);
  /// Adds this share of the range at both ends, as room for marks.
  void widen(double share);
  /// Position of a value on the axis, from 0 (`least`) to 1 (`most`).
  double share(double value) const;
  /// Returns about `wanted` round values of the range: 1, 2 or 5 times a power of ten, or powers.
  std::vector<double> ticks(double wanted) const;
  double lowest() const { return least_; }
  double highest() const { return most_; }

 private:
  Scale scale_ = Scale::linear;
  double least_ = 1e300, most_ = -1e300;

  bool logarithmic() const { return scale_ == Scale::log2 || scale_ == Scale::log10; }
};

/// The rectangle of a picture in which a plot draws its values.
struct PlotArea {
  double left = 0, top = 0, width = 0, height = 0;
  double x(const ChartAxis& axis, double value) const { return left + width * axis.share(value); }
  double y(const ChartAxis& axis, double value) const { return top + height * (1 - axis.share(value)); }
};

using TickLabel = std::function<std::string(double)>;
std::string short_number(double);  ///< the number with four significant digits
/// Draws vertical grid lines through the area, and their labels below it.
void draw_x_axis(Svg&, const PlotArea&, const ChartAxis&, const TickLabel&);

struct LegendEntry {
  std::string fill, words;
};
/// Draws coloured squares and their words, in lines from `x` to `right`. Returns the height of these lines.
double draw_legend(Svg&, double x, double y, double right, const std::vector<LegendEntry>&);

/// Returns the color of a series. People with the common kinds of color blindness can tell these colors apart.
const char* series_color(std::size_t number);

/// Points of a plot, drawn as a line through them, as squares, or both.
struct ChartSeries {
  struct Point {
    double x = 0, y = 0;
    std::string label = {};  ///< text beside its square
    bool marked = false;     ///< drawn as a square, in `mark_color` if that is set
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

/// A sheet with a title, a note, rows of plots, and a legend.
struct ChartSheet {
  std::string title, note = {}, description = {};
  std::size_t columns = 1;
  double width = 300, height = 220;  ///< size of each plot with its labels
  std::vector<LegendEntry> legend = {};
};
std::string charts_svg(const ChartSheet&, std::vector<Chart>);

}  // namespace trainyard
