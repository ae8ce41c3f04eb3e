#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "scenarios/src/studies/sweeps/sweep_chart.hpp"
#include "tools/verbs/arguments.hpp"

namespace trainyard {

/// The flags that `sweep` and `merge` share: where the table of a sweep goes, and which of its rows.
struct SweepOutputs {
  std::string csv, json, html, svg, sort;
  SweepChartAxes chart;
  int top = 0, baseline = 0;
  std::string unfinished;  ///< progress of an interrupted sweep, for JSON and page; empty: the sweep is complete
  bool screen = false;     ///< print the table for people on stdout

  void declare(Arguments&, const std::string& csv_words);
  /// Chooses what stdout gets if no flag does: the table for people on a terminal, in a lesson and with --markdown; else
  /// CSV, if no file is written.
  void take_stdout(const Sweep&);
  bool has_any() const { return !(csv + json + html + svg).empty(); }
  SweepOrder order() const { return parse_sweep_order(sort, top); }
  /// Number, from 1, of the point that the others are compared with; the first if the flag is not given.
  std::size_t scaled_from() const { return static_cast<std::size_t>(std::max(0, baseline == 0 ? 1 : baseline)); }
  /// Throws UserError for axes of the chart that the sweep does not have, or that no chart shows.
  void check_chart(const Sweep&) const;
  void write(const Sweep&, std::vector<SweepPoint>) const;
  /// Throws UserError if a requested output needs all points in memory, which a streamed sweep does not keep. `points`:
  /// the file of points.
  void require_streamed(const Sweep&, const std::string& points) const;

 private:
  bool stdout_is_free() const;
  bool draws_scaling(const Sweep&, const std::vector<SweepPoint>&) const;
  void add_scaling_to(const Sweep&, std::vector<SweepPoint>&) const;
};

/// Returns true if the sweep has too many points to keep them in memory.
inline bool is_streamed(const Sweep& sweep) { return sweep.points() > kMostKeptPoints; }

/// Prints on stderr how many points are impossible, with the first error.
void report_impossible_points(const std::vector<SweepPoint>&);

}  // namespace trainyard
