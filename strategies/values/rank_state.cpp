// The parameters, gradients and optimizer state of a rank as vectors, for checkpoints.
#include "strategies/values/rank_parameters.hpp"

namespace trainyard::numeric {
namespace {

// The parts of a layer that `gather` and `scatter` copy.
constexpr auto parameters_part = [](auto& layer) -> auto& { return layer.shard.parameters; };
constexpr auto gradient_part = [](auto& layer) -> auto& { return layer.shard.gradient; };
constexpr auto first_part = [](auto& layer) -> auto& { return layer.first_moment; };
constexpr auto second_part = [](auto& layer) -> auto& { return layer.second_moment; };

}  // namespace

/// Concatenates part(layer) of all layers.
template <class Part>
Eigen::VectorXd RankParameters::gather(Part part) const {
  Index size = 0, position = 0;
  for (const auto& [number, layer] : layers_) size += part(layer).size();
  Eigen::VectorXd values(size);
  for (const auto& [number, layer] : layers_) {
    values.segment(position, part(layer).size()) = part(layer);
    position += part(layer).size();
  }
  return values;
}

template <class Part>
void RankParameters::scatter(const Eigen::VectorXd& values, Part part) {
  Index position = 0;
  for (auto& [number, layer] : layers_) {
    part(layer) = values.segment(position, part(layer).size()).eval();
    position += part(layer).size();
  }
}

Eigen::VectorXd RankParameters::all_parameters() const { return gather(parameters_part); }
void RankParameters::set_all_parameters(const Eigen::VectorXd& values) { scatter(values, parameters_part); }
Eigen::VectorXd RankParameters::all_gradients() const { return gather(gradient_part); }
void RankParameters::set_all_gradients(const Eigen::VectorXd& values) { scatter(values, gradient_part); }

Eigen::VectorXd RankParameters::state() const {
  const Eigen::VectorXd parameters = all_parameters();
  Eigen::VectorXd values(3 * parameters.size() + 1);
  values << parameters, gather(first_part), gather(second_part), updates_;
  return values;
}

void RankParameters::set_state(const Eigen::VectorXd& values) {
  const Index size = values.size() / 3;
  scatter(values.head(size), parameters_part);
  scatter(values.segment(size, size), first_part);
  scatter(values.segment(2 * size, size), second_part);
  updates_ = static_cast<int>(values[3 * size]);
}

void RankParameters::forget_parameters() {
  for (auto& [number, layer] : layers_) layer.shard.parameters.setConstant(kGone);
}

}  // namespace trainyard::numeric
