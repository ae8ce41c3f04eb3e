#include "strategies/values/rank_values.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.hpp"
#include "strategies/plan/update_policy.hpp"
#include "strategies/values/layers/operators.hpp"

namespace trainyard::numeric {
namespace {

Index padded_vocabulary(const TrainingTask& task, const TrainingPlan& plan) {
  const TransformerConfig* config = std::get_if<TransformerConfig>(&task.model);
  if (!config) return 0;
  const ParameterTensor& table = plan.network->layers.front().parameters.front();
  return static_cast<Index>(table.elements) * plan.sharding_of(0).tensor / config->hidden_size;
}

/// The task of a rank of `stage`. If stages have widths of their own, its micro-batch is a part of the whole one.
TrainingTask task_of(TrainingTask task, const TrainingPlan& plan, int stage) {
  if (!plan.mesh.widths.empty()) task.micro_batch_size /= plan.mesh.size(Axis::data, stage);
  return task;
}

RankPlace place_of(const TrainingTask& task, const TrainingPlan& plan, int rank) {
  const Coordinates coordinates = plan.mesh.coordinates(rank);
  return {task,
          plan.sharding_of(coordinates.pipeline),
          coordinates.tensor,
          coordinates.context,
          plan.mesh.expert_of(rank),
          padded_vocabulary(task, plan),
          plan.mesh.expert_tensor_of(rank)};
}

}  // namespace

RankValues::RankValues(const TrainingTask& task, const TrainingPlan& plan, const std::vector<LayerPosition>& positions,
                       int rank, Values& values)
    : task_(task_of(task, plan, plan.mesh.coordinates(rank).pipeline)),
      plan_(plan),
      positions_(positions),
      values_(values),
      rank_(rank),
      coordinates_(plan.mesh.coordinates(rank)),
      place_(place_of(task_, plan, rank)),
      parameters_(place_, plan, rank, coordinates_.pipeline) {
  make_room();
}

Eigen::VectorXd& RankValues::message(int virtual_stage, int micro_batch, bool back) {
  return values_.buffer(rank_, number_of(activation_message(virtual_stage, micro_batch, back, plan_.virtual_stages())));
}

/// Allocates the buffers of the activations and gradients that arrive. A message needs a buffer of the right size.
void RankValues::make_room() {
  const Index columns = place_.own_tokens().size();
  const auto room = [&](int virtual_stage, int micro_batch, bool back, int number) {
    message(virtual_stage, micro_batch, back).setConstant(input_rows(place_, number) * columns, kGone);
  };
  for (const int number : parameters_.numbers()) {
    const LayerPosition& place = position(number);
    for (int m = 0; m < plan_.micro_batches; ++m) {
      if (place.begins_chunk && number > 0) room(place.virtual_stage - 1, m, false, number);
      if (place.ends_chunk && number != last()) room(place.virtual_stage, m, true, number + 1);
    }
  }
}

std::string RankValues::location(int number, int micro_batch) const {
  return fmt::format("rank {}, layer {}, micro-batch {}", rank_, number, micro_batch);
}

/// Returns the pass that a call belongs to. Throws InternalError for a call that comes too early, or twice.
RankValues::Pass& RankValues::open_pass(TrainingCall what, int number, int micro_batch) {
  const bool forward = what == TrainingCall::forward;
  const auto found = passes_.find({number, micro_batch});
  if (!forward && (found == passes_.end() || !found->second.forward_done))
    throw InternalError(location(number, micro_batch) + ": a backward pass before the forward pass");
  if (forward && found != passes_.end() && found->second.forward_done)
    throw InternalError(location(number, micro_batch) + ": a second forward pass");
  Pass& p = passes_[{number, micro_batch}];
  if (what == TrainingCall::backward_weights ? !p.input_done : p.input_done)
    throw InternalError(location(number, micro_batch) + ": gradients by weights come after those by inputs, and once");
  if (!forward || found != passes_.end()) return p;
  p.step = next_step_[{number, micro_batch}]++;
  steps_ = std::max(steps_, p.step + 1);
  p.batch = batch_of(p.step, micro_batch);
  define(number, micro_batch, p);
  return p;
}

void RankValues::pass(TrainingCall what, const CallArguments& about) {
  const int number = about.index, micro_batch = about.micro_batch;
  const bool forward = what == TrainingCall::forward;
  if (!parameters_.has(number))
    throw InternalError(location(number, micro_batch) + ": the rank does not have that layer");
  Pass& p = open_pass(what, number, micro_batch);
  if (about.exchange != kEndOfPass) {
    const std::vector<Exchange>& all = forward ? layer(number).forward_exchanges : layer(number).backward_exchanges;
    return exchange(p, all.at(about.exchange), about.buffer + 2 * about.exchange);
  }
  p.graph.end_pass();
  if (forward) return end_forward(number, micro_batch);
  if (what != TrainingCall::backward_weights) end_input_gradient(number, micro_batch);
  if (what != TrainingCall::backward_input) end_weight_gradients(number, micro_batch);
}

void RankValues::move_activations(bool to_host, const CallArguments& about) {
  const Key key{about.index, about.micro_batch};
  std::map<Key, Pass>&from = to_host ? passes_ : on_host_, &to = to_host ? on_host_ : passes_;
  // The pass must keep its address, to which the graph refers: the map's node is moved.
  auto moved = from.extract(key);
  if (moved.empty() || !moved.mapped().forward_done)
    throw InternalError(location(about.index, about.micro_batch) +
                        (to_host ? ": no activations leave" : ": none come back"));
  to.insert(std::move(moved));
}

void RankValues::begin_at(int step) {
  passes_.clear();
  on_host_.clear();
  inputs_.clear();
  out_gradients_.clear();
  steps_ = step;
  losses_.resize(std::min(losses_.size(), static_cast<std::size_t>(step)));
  for (const int number : parameters_.numbers())
    for (int m = 0; m < plan_.micro_batches; ++m) next_step_[{number, m}] = step;
}

Eigen::VectorXd RankValues::whole_step(int step) {
  begin_at(step);
  parameters_.set_all_gradients(Eigen::VectorXd::Zero(parameters_.all_gradients().size()));
  for (int m = 0; m < plan_.micro_batches; ++m) {
    for (int number = 0; number <= last(); ++number) pass(TrainingCall::forward, {number, m, kEndOfPass});
    for (int number = last(); number >= 0; --number) pass(TrainingCall::backward, {number, m, kEndOfPass});
  }
  return parameters_.all_gradients();
}

void RankValues::exchange(Pass& p, const Exchange& e, int buffer) {
  const std::vector<int> group = plan_.mesh.group(rank_, e.axis);
  const auto index = std::ranges::find(group, rank_) - group.begin();
  p.graph.fill(e, {static_cast<int>(index), static_cast<int>(group.size()),
                   &values_.buffer(rank_, static_cast<std::uint16_t>(buffer)),
                   &values_.buffer(rank_, static_cast<std::uint16_t>(buffer + 1))});
}

Batch RankValues::batch_of(int step, int micro_batch) const {
  const Index data = plan_.mesh.size(Axis::data, coordinates_.pipeline), size = task_.micro_batch_size,
              rank_batch = size * plan_.micro_batches, global = rank_batch * data;
  const bool summed = update_policy_of(plan_).sums_gradients(step);
  // With stages of unequal width, the ranks of a stage divide each micro-batch.
  const Index first = plan_.mesh.widths.empty() ? coordinates_.data * rank_batch + micro_batch * size
                                                : (micro_batch * data + coordinates_.data) * size;
  return {step * global + first, 1 / static_cast<double>((summed ? global : rank_batch) * task_.seq_length)};
}

RankLayer RankValues::rank_layer(int number) const {
  const bool is_last = number == last();
  return {number, is_last, &parameters_.layer(number), is_last ? parameters_.tied_weight() : nullptr};
}

Matrix RankValues::loss_gradient(int micro_batch, const Matrix& outputs) {
  Graph loss;
  define_layer(loss, place_, rank_layer(last()), pass_of(last(), micro_batch).batch);
  loss.give("output", outputs);
  return loss["output.d"];
}

Matrix RankValues::take_input(int number, int micro_batch, bool back) {
  const LayerPosition& place = position(number);
  if (back ? place.ends_chunk : place.begins_chunk)
    return received(place.virtual_stage - (back ? 0 : 1), micro_batch, back,
                    input_rows(place_, number + (back ? 1 : 0)));
  auto& values = back ? out_gradients_ : inputs_;
  const auto found = values.find({number, micro_batch});
  if (found == values.end())
    throw InternalError(
        fmt::format("{}: no {} is there", location(number, micro_batch), back ? "gradient by the output" : "input"));
  Matrix value = std::move(found->second);
  values.erase(found);
  return value;
}

void RankValues::define(int number, int micro_batch, Pass& p) {
  p.graph.list(layer(number).forward_exchanges);
  p.graph.list(layer(number).backward_exchanges);
  if (number > 0)
    p.graph.node("x", [this, &p, number, micro_batch] {
      if (!p.input) p.input = take_input(number, micro_batch, false);
      return *p.input;
    });
  if (number != last())
    p.graph.node("dout", [this, &p, number, micro_batch] {
      if (!p.out_gradient) p.out_gradient = take_input(number, micro_batch, true);
      return *p.out_gradient;
    });
  define_layer(p.graph, place_, rank_layer(number), p.batch);
}

Matrix RankValues::received(int virtual_stage, int micro_batch, bool back, Index rows) {
  Eigen::VectorXd& buffer = message(virtual_stage, micro_batch, back);
  if (buffer.size() == 0 || buffer.size() % rows != 0)
    throw InternalError(fmt::format("rank {}: nothing has come of micro-batch {} from virtual stage {}", rank_,
                                    micro_batch, virtual_stage));
  Matrix value = Eigen::Map<const Matrix>(buffer.data(), rows, buffer.size() / rows);
  buffer.setConstant(kGone);  // used up
  return value;
}

void RankValues::send(int virtual_stage, int micro_batch, bool back, const Matrix& value) {
  message(virtual_stage, micro_batch, back) = Eigen::Map<const Eigen::VectorXd>(value.data(), value.size());
}

void RankValues::end_forward(int number, int micro_batch) {
  Pass& p = pass_of(number, micro_batch);
  if (number == last()) {
    losses_.resize(std::max(losses_.size(), static_cast<std::size_t>(p.step) + 1));
    StepLoss& step_loss = losses_[p.step];
    step_loss = {step_loss.loss + p.graph["loss"](0, 0), values_.now()};
  } else if (position(number).ends_chunk) {
    send(position(number).virtual_stage, micro_batch, false, p.graph["out"]);
  } else {
    inputs_[{number + 1, micro_batch}] = p.graph["out"];
  }
  if (layer(number).recomputes_all)
    p.graph.forget_all();
  else
    for (const std::string& name : dropped_after_forward(p.graph, place_)) p.graph.forget(name);
  p.forward_done = true;
}

void RankValues::end_input_gradient(int number, int micro_batch) {
  Pass& p = pass_of(number, micro_batch);
  if (number != last()) p.graph["dout"];  // taken now, even if only the weight gradients need it
  p.input_done = true;
  if (number == 0) return;
  if (position(number).begins_chunk)
    send(position(number).virtual_stage - 1, micro_batch, true, p.graph["dx"]);
  else
    out_gradients_[{number - 1, micro_batch}] = p.graph["dx"];
}

void RankValues::end_weight_gradients(int number, int micro_batch) {
  Pass& p = pass_of(number, micro_batch);
  const auto add = [&p](LayerShard& shard, const LayerShard::Tensor& tensor) {
    const Matrix& gradient = p.graph[gradient_of(tensor.name)];
    const auto size = static_cast<Index>(tensor.shard.numbers.size());
    if (gradient.size() != size) throw InternalError("the gradient of " + tensor.name + " is not of its size");
    shard.gradient.segment(tensor.first, size) += Eigen::Map<const Eigen::VectorXd>(gradient.data(), size);
  };
  LayerShard& shard = parameters_.layer(number);
  for (const LayerShard::Tensor& tensor : shard.tensors) add(shard, tensor);
  if (number == last() && number > 0 && parameters_.tied_weight()) {
    LayerShard& table = parameters_.layer(0);
    add(table, table.find("token_embedding.weight"));
  }
  parameters_.count_micro_batch(number);
  passes_.erase({number, micro_batch});
}

}  // namespace trainyard::numeric
