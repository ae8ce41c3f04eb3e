#pragma once
#include <cstdio>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "scenarios/src/pictures/views.hpp"
#include "scenarios/src/running/simulate_options.hpp"

namespace trainyard {

/// What a page shows of one simulated step besides its answer, taken from the very run that answers.
class RunPictures {
 public:
  /// Makes a run with these options keep what is drawn. Steps of more than kMostKept operations are not drawn over time.
  RunPictures(const Scenario&, const Plan&, SimulateOptions&);
  /// After the run. Null where nothing was simulated; else
  /// - `left_out`: why there is no timeline; or `timeline`: `tick_s`, `end` and all times in ticks, `tones`, `names`,
  ///   `ranks` with their lanes and memory (see the code for its lists of numbers), and the critical `path`;
  /// - `machine`: a drawing (SVG) of the node of the rank that ends last, each cable with the share of time that it is
  ///   busy, and `links`: classes of equal links with what they carry.
  nlohmann::ordered_json read() const;

 private:
  std::shared_ptr<std::FILE> kept_;  ///< without a name; the run is in a process of its own
};

}  // namespace trainyard
