#include "scenarios/src/studies/sweeps/layer_cuts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/src/planning/layer_division.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"

namespace trainyard {
namespace {

/// Appends all cuts of the layers to `cuts`. `layers`: number of layers after those in `first_parts`.
void cut(std::vector<int>& first_parts, int layers, std::size_t parts, const Place& place,
         std::vector<std::string>& cuts) {
  if (first_parts.size() + 1 == parts) {
    if (cuts.size() == kMostSweepValues)
      fail(place, fmt::format("more than {} ways to cut the layers into {} parts", kMostSweepValues, parts));
    cuts.push_back(fmt::format("[{}{}{}]", fmt::join(first_parts, ", "), first_parts.empty() ? "" : ", ", layers));
    return;
  }
  const int later_parts = static_cast<int>(parts - first_parts.size()) - 1;
  for (int part = 1; part + later_parts <= layers; ++part) {
    first_parts.push_back(part);
    cut(first_parts, layers - part, parts, place, cuts);
    first_parts.pop_back();
  }
}

}  // namespace

std::vector<std::string> layer_cuts(const Scenario& s) {
  const int parts = s.plan.mesh.parts(s.plan.chunks), layers = layers_to_divide(s.network, s.plan);
  std::vector<int> first_parts;
  std::vector<std::string> cuts;
  cut(first_parts, layers, static_cast<std::size_t>(parts), s.plan.place, cuts);
  return cuts;
}

}  // namespace trainyard
