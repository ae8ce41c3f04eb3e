// All that a rank holds as one vector: what a checkpoint has.
#include "strategies/values/rank_parameters.hpp"

namespace trainyard::numeric {
namespace {

// What `all` takes of a layer.
constexpr auto parameters_part = [](auto& held) -> auto& { return held.shard.parameters; };
constexpr auto gradient_part = [](auto& held) -> auto& { return held.shard.gradient; };
constexpr auto first_part = [](auto& held) -> auto& { return held.first_moment; };
constexpr auto second_part = [](auto& held) -> auto& { return held.second_moment; };

}  // namespace

/// part(held) of all layers, one after the other.
template <class Part>
Eigen::VectorXd RankParameters::all(Part part) const {
  Index size = 0, at = 0;
  for (const auto& [number, held] : layers_) size += part(held).size();
  Eigen::VectorXd values(size);
  for (const auto& [number, held] : layers_) {
    values.segment(at, part(held).size()) = part(held);
    at += part(held).size();
  }
  return values;
}

template <class Part>
void RankParameters::set_all(const Eigen::VectorXd& values, Part part) {
  Index at = 0;
  for (auto& [number, held] : layers_) {
    part(held) = values.segment(at, part(held).size()).eval();
    at += part(held).size();
  }
}

Eigen::VectorXd RankParameters::all_parameters() const { return all(parameters_part); }
void RankParameters::set_all_parameters(const Eigen::VectorXd& values) { set_all(values, parameters_part); }
Eigen::VectorXd RankParameters::all_gradients() const { return all(gradient_part); }
void RankParameters::set_all_gradients(const Eigen::VectorXd& values) { set_all(values, gradient_part); }

Eigen::VectorXd RankParameters::state() const {
  const Eigen::VectorXd parameters = all_parameters();
  Eigen::VectorXd values(3 * parameters.size() + 1);
  values << parameters, all(first_part), all(second_part), updates_;
  return values;
}

void RankParameters::set_state(const Eigen::VectorXd& values) {
  const Index size = values.size() / 3;
  set_all(values.head(size), parameters_part);
  set_all(values.segment(size, size), first_part);
  set_all(values.segment(2 * size, size), second_part);
  updates_ = static_cast<int>(values[3 * size]);
}

void RankParameters::forget_parameters() {
  for (auto& [number, held] : layers_) held.shard.parameters.setConstant(kGone);
}

}  // namespace trainyard::numeric
