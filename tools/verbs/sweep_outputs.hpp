#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "scenarios/src/studies/sweeps/sweep.hpp"
#include "tools/verbs/arguments.hpp"

namespace trainyard {

/// Where the table of a sweep goes, and which rows of it: the flags that `sweep` and `merge` share.
struct SweepOutputs {
  std::string csv, json, html, svg, sort;
  int top = 0, baseline = 0;
  std::string unfinished;  ///< of a sweep that was interrupted: how far it came, for JSON and page
  bool screen = false;     ///< the table for people, on stdout

  void declare(Arguments&, const std::string& csv_words);
  /// Where no flag says where the table goes: for people on a terminal, and as Markdown where that was asked for; CSV
  /// elsewhere.
  void take_stdout(const Sweep&);
  bool any() const { return !(csv + json + html + svg).empty(); }
  SweepOrder order() const { return parse_sweep_order(sort, top); }
  /// The point, from 1, that others scale from: the first where the flag is not given.
  std::size_t scaled_from() const { return static_cast<std::size_t>(std::max(0, baseline == 0 ? 1 : baseline)); }
  void write(const Sweep&, std::vector<SweepPoint>) const;
  /// Throws UserError where what is asked for takes all points of a sweep that is streamed. `points`: their file.
  void require_streamed(const Sweep&, const std::string& points) const;

 private:
  void add_scaling_to(const Sweep&, std::vector<SweepPoint>&) const;
};

/// Not kept in memory.
inline bool is_streamed(const Sweep& sweep) { return sweep.points() > kMostKeptPoints; }

/// Counts them on stderr, with the first error.
void report_impossible_points(const std::vector<SweepPoint>&);

}  // namespace trainyard
