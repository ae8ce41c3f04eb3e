// Values of parameters, gradients and states outside the GPU: in host memory, on drives, and as vectors for checkpoints.
#include <fmt/format.h>

#include "sim/error.hpp"
#include "strategies/values/rank_parameters.hpp"

namespace trainyard::numeric {

void RankParameters::fill_share(std::size_t number, Eigen::VectorXd& buffer) {
  Bucket& b = buckets_.at(number);
  const int micro_batches = b.exchanged ? b.taken[0] : micro_batches_in(b);
  if (micro_batches == b.left)
    throw InternalError(fmt::format("bucket {} goes to the host without new gradients", number));
  b.left = micro_batches;
  buffer.resize(b.own_size());
  visit_own_block(b, [&](LayerState& state, Index i, Index position) {
    double& gradient = b.gradients_shared ? state.kept[0][i] : state.shard.gradient[i];
    buffer[position] = gradient;
    if (b.gradients_shared) gradient = 0;
  });
  if (!b.gradients_shared) clear_gradients(number);
}

void RankParameters::keep_on_host(std::size_t number, Eigen::VectorXd& buffer) {
  Bucket& b = buckets_.at(number);
  if (buffer.size() != b.own_size())
    throw InternalError(fmt::format("gradients of bucket {} have not come to the host", number));
  if (b.on_host.size() == 0) b.on_host.setZero(buffer.size());
  b.on_host += buffer;
  b.kept_on_host = b.left;
  buffer.resize(0);  // used up
}

void RankParameters::read_states(std::size_t number) {
  Bucket& b = buckets_.at(number);
  if (b.states_read) throw InternalError(fmt::format("states of bucket {} are read twice", number));
  b.states_read = true;
}

void RankParameters::update_on_host(std::size_t number, Eigen::VectorXd& buffer) {
  Bucket& b = buckets_.at(number);
  if (const int all = plan_.micro_batches_of_layer(); b.kept_on_host != all)
    throw InternalError(
        fmt::format("the host has the gradients of {} micro-batches of {} of bucket {}", b.kept_on_host, all, number));
  if (plan_.offload.optimizer == OffloadDevice::nvme && !b.states_read)
    throw InternalError(fmt::format("states of bucket {} are on the drives", number));
  buffer.resize(b.own_size());
  visit_own_block(b, [&](LayerState& state, Index i, Index position) {
    state.last_gradient[i] = b.on_host[position];
    step(state, i, state.host_parameters[i]);
    buffer[position] = state.host_parameters[i];
  });
  b.updated_on_host = true;
  b.unwritten = plan_.offload.drives();
}

void RankParameters::write_states(std::size_t number, Eigen::VectorXd& buffer) {
  Bucket& b = buckets_.at(number);
  b.states_read = b.unwritten = false;
  if (plan_.offload.parameters == OffloadDevice::nvme) buffer.resize(0);
}

void RankParameters::fill_host_parameters(std::size_t number, Eigen::VectorXd& buffer) {
  const Bucket& b = buckets_.at(number);
  buffer.resize(b.own_size());
  visit_own_block(b, [&](LayerState& state, Index i, Index position) { buffer[position] = state.host_parameters[i]; });
}

void RankParameters::take_own(std::size_t number, Eigen::VectorXd& buffer, Eigen::VectorXd& on_host) {
  const Bucket& b = buckets_.at(number);
  if (buffer.size() != b.own_size())
    throw InternalError(fmt::format("parameters of bucket {} have not come from the host", number));
  visit_own_block(b, [&](LayerState& state, Index i, Index position) { state.shard.parameters[i] = buffer[position]; });
  buffer.resize(0);  // used up
  if (plan_.offload.parameters != OffloadDevice::cpu) on_host.resize(0);
}

/// Checks at the end of a step that every bucket has been updated and is back in its place.
void RankParameters::finish_on_host() {
  for (std::size_t number = 0; number < buckets_.size(); ++number) {
    Bucket& b = buckets_[number];
    if (!b.updated_on_host) throw InternalError(fmt::format("the host has not updated bucket {}", number));
    if (b.unwritten) throw InternalError(fmt::format("states of bucket {} are not back on the drives", number));
    b.on_host.resize(0);
    b.left = b.kept_on_host = 0;
    b.updated_on_host = false;
  }
}

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
