#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "scenarios/src/sizing/size_answer.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// A cluster, with its network if that is not the one that all figures count: "48 x dgx-h100, rail-only".
template <class Cluster>
std::string cluster_cell(const SizeAnswer& a, const Cluster& c) {
  const bool is_named = !c.network.empty() && c.network != a.counted_network;
  return nodes_in_words(c) + (is_named ? ", " + c.network : "");
}

/// The way to pay for a cluster, if it is a rent: " (spot)".
inline std::string terms_in_words(const std::string& terms) {
  return terms.empty() || terms == "purchase" ? "" : " (" + terms + ")";
}

/// Whole from a thousand on, so that sums agree with their parts: "6,466,123". Else four digits.
inline std::string size_money(double money) { return money < 1000 ? fmt::format("{:.4g}", money) : with_commas(money); }

/// States the chosen network in a sentence, names the sizes that count none, and shows the compared networks as a table.
std::string network_line(const SizeAnswer&);
std::string network_legend(const SizeAnswer&);
std::string network_table(const SizeAnswer&);

/// States the ways to train on owned nodes and on bought ones of another type, in a sentence and as a table.
std::string island_lines(const SizeAnswer&);
std::string island_table(const SizeAnswer&);

/// The values of a quantity, below and above its own, from which another cluster is the cheapest.
struct DecisionRange {
  std::string quantity;
  double value = 0;
  const SizeThreshold *below = nullptr, *above = nullptr;
  /// The share of the value by which it must move at least.
  double least() const {
    const double down = below ? 1 - below->threshold / value : HUGE_VAL;
    return std::min(down, above ? above->threshold / value - 1 : HUGE_VAL);
  }
};

inline std::vector<DecisionRange> decision_ranges(const SizeAnswer& a) {
  std::vector<DecisionRange> all;
  for (const SizeThreshold& t : a.thresholds) {
    if (all.empty() || all.back().quantity != t.quantity) all.push_back({t.quantity, t.value});
    (t.threshold < t.value ? all.back().below : all.back().above) = &t;
  }
  std::ranges::stable_sort(all, [](const DecisionRange& x, const DecisionRange& y) { return x.least() < y.least(); });
  return all;
}

}  // namespace trainyard
