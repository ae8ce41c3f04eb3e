#include "models/networks/layers/sharding.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "models/networks/layers/sharding_error.hpp"

namespace trainyard {
namespace {

/// Returns the part of a load, relative to the mean, that is within the capacity of experts.
double load_within_capacity(double load, const Sharding& s) {
  return s.expert_capacity > 0 ? std::min(load, s.expert_capacity) : load;
}

}  // namespace

double fullest_expert_rank(const Sharding& s) {
  return s.expert == 1 ? load_within_capacity(1, s) : load_within_capacity(s.expert_imbalance, s);
}

double rows_within_capacity(const Sharding& s) {
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
