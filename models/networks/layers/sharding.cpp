#include "models/networks/layers/sharding.hpp"

#include <algorithm>
#include <numeric>
#include <string>

namespace trainyard {
namespace {

/// Returns the part of a load, relative to the mean, that is within the capacity of experts. Experts behind masks compute
/// their capacity whatever their load.
double load_within_capacity(double load, const Sharding& s) {
  if (s.expert_masks) return s.expert_capacity;
  return s.expert_capacity > 0 ? std::min(load, s.expert_capacity) : load;
}

/// Returns the rows that each rank of the expert axis computes by `expert_loads`, relative to the mean. Each rank has
/// equally many consecutive experts, of which each has a capacity.
std::vector<double> rows_of_ranks(const Sharding& s) {
  const std::vector<double>& loads = s.expert_loads;
  const auto ranks = static_cast<std::size_t>(s.expert);
  const std::size_t count = std::max<std::size_t>(1, loads.size() / ranks);
  const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(loads.size());
  std::vector<double> rows(ranks, 0);
  for (std::size_t i = 0; i < std::min(loads.size(), ranks * count); ++i)
    rows[i / count] += load_within_capacity(loads[i] / mean, s) / static_cast<double>(count);
  return rows;
}

bool are_alike(const std::vector<double>& rows) {
  constexpr double kRounding = 1e-12;
  const auto [least, most] = std::ranges::minmax_element(rows);
  return *most - *least <= kRounding * *most;
}

}  // namespace

double fullest_expert_rank(const Sharding& s) {
  if (!s.expert_loads.empty()) {
    const std::vector<double> rows = rows_of_ranks(s);
    return are_alike(rows) ? rows_within_capacity(s) : *std::ranges::max_element(rows);
  }
  return s.expert == 1 ? load_within_capacity(1, s) : load_within_capacity(s.expert_imbalance, s);
}

double rows_of_expert_rank(const Sharding& s) {
  if (s.expert_rank < 0 || s.expert_loads.empty()) return fullest_expert_rank(s);
  return rows_of_ranks(s).at(static_cast<std::size_t>(s.expert_rank));
}

std::vector<double> unequal_expert_loads(const Sharding& s) {
  if (s.expert_loads.empty()) return {};
  std::vector<double> rows = rows_of_ranks(s);
  return are_alike(rows) ? std::vector<double>{} : rows;
}

double rows_within_capacity(const Sharding& s) {
  if (!s.expert_loads.empty()) {
    if (s.expert_capacity == 0) return 1;
    const std::vector<double> rows = rows_of_ranks(s);
    return std::accumulate(rows.begin(), rows.end(), 0.0) / static_cast<double>(rows.size());
  }
  if (s.expert == 1) return load_within_capacity(1, s);
  const double ranks = s.expert, others = (ranks - s.expert_imbalance) / (ranks - 1);
  return (load_within_capacity(s.expert_imbalance, s) + (ranks - 1) * load_within_capacity(others, s)) / ranks;
}

const char* name_of(Recompute recompute) {
  constexpr std::array<const char*, kRecomputes> names{"none", "selective", "full", "operators"};
  return names.at(static_cast<std::size_t>(recompute));
}

void require_tensor_alone(const Sharding& s, const char* what) {
  const std::string prefix = std::string(what) + ": ";
  if (s.tensor < 1)
    throw ShardingError("tensor", prefix + "tensor axis: " + std::to_string(s.tensor) + " ranks; expected at least 1");
  if (s.sequence || s.context != 1)
    throw ShardingError(
        s.context != 1 ? "context" : "sequence",
        prefix + "sequence and context parallelism are over the tokens of a transformer; expected neither");
  if (s.expert != 1 || s.folds_experts())
    throw ShardingError("expert", prefix + "expert parallelism: there are no experts; expected 1");
  if (s.recompute == Recompute::selective || s.recompute == Recompute::operators)
    throw ShardingError("recompute", prefix + "selective recomputation needs attention; expected none or full");
}

}  // namespace trainyard
