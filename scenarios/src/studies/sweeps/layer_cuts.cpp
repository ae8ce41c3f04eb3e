#include "scenarios/src/studies/sweeps/layer_cuts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/src/planning/layer_division.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"

namespace trainyard {
namespace {

void cut(std::vector<int>& taken, int layers, std::size_t parts, const Place& place, std::vector<std::string>& into) {
  if (taken.size() + 1 == parts) {
    if (into.size() == kMostSweepValues)
      fail(place, fmt::format("more than {} ways to cut the layers into {} parts", kMostSweepValues, parts));
    into.push_back(fmt::format("[{}{}{}]", fmt::join(taken, ", "), taken.empty() ? "" : ", ", layers));
    return;
  }
  const int later = static_cast<int>(parts - taken.size()) - 1;
  for (int first_part = 1; first_part + later <= layers; ++first_part) {
    taken.push_back(first_part);
    cut(taken, layers - first_part, parts, place, into);
    taken.pop_back();
  }
}

}  // namespace

std::vector<std::string> layer_cuts(const Scenario& s) {
  const int parts = s.plan.mesh.parts(s.plan.chunks), layers = layers_to_divide(s.network, s.plan);
  std::vector<int> taken;
  std::vector<std::string> cuts;
  cut(taken, layers, static_cast<std::size_t>(parts), s.plan.place, cuts);
  return cuts;
}

}  // namespace trainyard
