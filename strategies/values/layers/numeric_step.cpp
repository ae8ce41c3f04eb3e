#include "strategies/values/layers/numeric_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/error.hpp"
#include "strategies/values/layers/layers.hpp"
#include "strategies/values/layers/operators.hpp"
#include "strategies/values/training_values.hpp"

namespace trainyard {

using numeric::Index;
using numeric::Matrix;

namespace {

using Buffer = TrainingBuffer::Kind;

Index padded_vocabulary(const NumericStepTask& task, const TrainingPlan& plan) {
  const TransformerConfig* config = std::get_if<TransformerConfig>(&task.model);
  if (!config) return 0;
  const ParameterTensor& table = plan.network->layers.front().parameters.front();
  return static_cast<Index>(table.elements) * plan.sharding.tensor / config->hidden_size;
}

bool has_weight_kernels(const Network& network, int layer) {
  const std::vector<BackwardKernel>& kernels = network.layers[static_cast<std::size_t>(layer)].backward;
  return std::any_of(kernels.begin(), kernels.end(), [](const BackwardKernel& k) { return k.for_weights; });
}

}  // namespace

NumericStep::NumericStep(const NumericStepTask& task, const TrainingPlan& plan) : task_(task), plan_(plan) {
  if (plan.network->samples != task.micro_batch_size)
    throw InternalError("a micro-batch of the network is not one of the numbers");
  stand_layers();
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
    const Coordinates at = plan.mesh.of(rank);
    numeric::RankPlace place{
        task_, plan_.sharding, at.tensor, at.context, plan.mesh.expert_of(rank), padded_vocabulary(task, plan)};
    auto parameters = std::make_unique<numeric::RankParameters>(place, plan, rank, at.pipeline);
    ranks_.push_back(std::make_unique<Rank>(Rank{place, at, std::move(parameters), {}, {}, {}, {}, {}}));
  }
}

void NumericStep::stand_layers() {
  stands_.resize(plan_.network->layers.size());
  std::vector<int> seen(stands_.size(), 0);
  for (std::size_t stage = 0; stage < plan_.stages.size(); ++stage)
    for (std::size_t chunk = 0; chunk < plan_.stages[stage].chunks.size(); ++chunk) {
      const std::vector<int>& layers = plan_.stages[stage].chunks[chunk];
      const int place = plan_.schedule ? plan_.schedule->virtual_stage(static_cast<int>(stage), static_cast<int>(chunk),
                                                                       plan_.pipeline)
                                       : 0;
      for (const int layer : layers) {
        stands_.at(static_cast<std::size_t>(layer)) = {place, layer == layers.front(), layer == layers.back()};
        ++seen[static_cast<std::size_t>(layer)];
      }
    }
  if (std::any_of(seen.begin(), seen.end(), [](int times) { return times != 1; }))
    throw InternalError("a layer is in no stage, or in two");
}

Eigen::VectorXd& NumericStep::message(Actor actor, int virtual_stage, int micro_batch, bool back) {
  return values_->buffer(actor,
                         number_of(activation_message(virtual_stage, micro_batch, back, plan_.virtual_stages())));
}

void NumericStep::attach(Values& values) {
  values_ = &values;
  CallDispatcher calls(values);
  for (auto c = static_cast<std::uint16_t>(TrainingCall::forward);
       c <= static_cast<std::uint16_t>(TrainingCall::take_own); ++c)
    calls.on(static_cast<TrainingCall>(c),
             [this, c](Actor rank, const CallArguments& about) { call(static_cast<TrainingCall>(c), rank, about); });
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) make_room(static_cast<Actor>(rank));
}

/// For what arrives: a message does not make its own room.
void NumericStep::make_room(Actor actor) {
  const Rank& r = *ranks_[static_cast<std::size_t>(actor)];
  const Index columns = r.place.own_tokens().size();
  const auto room = [&](int virtual_stage, int micro_batch, bool back, int layer) {
    message(actor, virtual_stage, micro_batch, back)
        .setConstant(numeric::input_rows(r.place, layer) * columns, std::numeric_limits<double>::quiet_NaN());
  };
  for (const int layer : r.parameters->numbers()) {
    const Stand& stand = stands_[static_cast<std::size_t>(layer)];
    for (int m = 0; m < plan_.micro_batches; ++m) {
      if (stand.begins_chunk && layer > 0) room(stand.virtual_stage - 1, m, false, layer);
      if (stand.ends_chunk && !is_last(layer)) room(stand.virtual_stage, m, true, layer + 1);
    }
  }
}

void NumericStep::call(TrainingCall what, Actor actor, const CallArguments& about) {
  numeric::RankParameters& parameters = *ranks_.at(static_cast<std::size_t>(actor))->parameters;
  const int bucket = about.index;
  const auto buffer = [&](TrainingBuffer::Kind kind) -> Eigen::VectorXd& {
    return buffer_of(*values_, actor, kind, about.bucket());
  };
  switch (what) {
    case TrainingCall::forward:
    case TrainingCall::backward:
    case TrainingCall::backward_input:
    case TrainingCall::backward_weights:
      return pass(what, actor, about);
    case TrainingCall::fill_bucket:
      return parameters.fill_bucket(bucket, buffer(Buffer::gradients));
    case TrainingCall::keep_gradients:
      return parameters.keep_gradients(bucket, buffer(Buffer::gradients));
    case TrainingCall::update:
      return parameters.update();
    case TrainingCall::give_replica:
    case TrainingCall::mix_replicas:
      throw InternalError("replicas out of step have numbers of their own (replica_numerics)");
    case TrainingCall::fill_parameters:
      return parameters.fill_parameters(bucket, buffer(Buffer::parameters));
    case TrainingCall::take_parameters:
      return parameters.take_parameters(bucket, buffer(Buffer::parameters));
    case TrainingCall::drop_parameters:
      return parameters.drop_parameters(bucket);
    case TrainingCall::fill_tied:
      return parameters.fill_tied(buffer(Buffer::tied));
    case TrainingCall::take_tied:
      return parameters.take_tied(buffer(Buffer::tied));
    case TrainingCall::fill_partial:
      return parameters.fill_partial(buffer(Buffer::partial));
    case TrainingCall::take_partial:
      return parameters.take_partial(buffer(Buffer::partial));
    case TrainingCall::fill_share:
      return parameters.fill_share(bucket, buffer(Buffer::gradient_share));
    case TrainingCall::keep_on_host:
      return parameters.keep_on_host(bucket, buffer(Buffer::host_gradients));
    case TrainingCall::read_states:
      return parameters.read_states(bucket);
    case TrainingCall::update_on_host:
      return parameters.update_on_host(bucket, buffer(Buffer::host_parameters));
    case TrainingCall::write_states:
      return parameters.write_states(bucket, buffer(Buffer::host_parameters));
    case TrainingCall::fill_host_parameters:
      return parameters.fill_host_parameters(bucket, buffer(Buffer::host_parameters));
    case TrainingCall::take_own:
      return parameters.take_own(bucket, buffer(Buffer::own_parameters), buffer(Buffer::host_parameters));
  }
}

void NumericStep::pass(TrainingCall what, Actor actor, const CallArguments& about) {
  Rank& r = *ranks_.at(static_cast<std::size_t>(actor));
  const int layer = about.index, micro_batch = about.micro_batch;
  const std::string where = fmt::format("rank {}, layer {}, micro-batch {}", actor, layer, micro_batch);
  const bool forward = what == TrainingCall::forward;
  if (!r.parameters->has(layer)) throw InternalError(where + ": the rank does not have that layer");
  if (what == TrainingCall::backward_weights && r.weights_done.count({layer, micro_batch}) > 0) {
    if (about.exchange == kEndOfPass) r.weights_done.erase({layer, micro_batch});
    return;
  }
  const auto known = r.passes.find({layer, micro_batch});
  if (!forward && (known == r.passes.end() || !known->second.forward_done))
    throw InternalError(where + ": a backward pass before the forward pass");
  if (forward && known != r.passes.end() && known->second.forward_done)
    throw InternalError(where + ": a second forward pass");
  Pass& p = r.passes[{layer, micro_batch}];
  if (what == TrainingCall::backward_weights ? !p.input_done : p.input_done)
    throw InternalError(where + ": gradients by weights come after those by inputs, and once");
  if (forward && known == r.passes.end()) {
    r.weights_done.erase({layer, micro_batch});  // of the step before
    define(actor, layer, micro_batch, p);
  }
  if (about.exchange != kEndOfPass) {
    const Layer& l = plan_.network->layers[static_cast<std::size_t>(layer)];
    const Exchange& e =
        (forward ? l.forward_exchanges : l.backward_exchanges).at(static_cast<std::size_t>(about.exchange));
    return exchange(actor, p, e, about.buffer + 2 * about.exchange);
  }
  p.graph.end_pass();
  if (forward) return end_forward(actor, layer, micro_batch);
  if (what != TrainingCall::backward_weights) end_input_gradient(actor, layer, micro_batch);
  // A layer without kernels for weights alone has nothing to put off.
  const bool at_once = what == TrainingCall::backward_input && !has_weight_kernels(*plan_.network, layer);
  if (at_once) r.weights_done.insert({layer, micro_batch});
  if (at_once || what != TrainingCall::backward_input) end_weight_gradients(actor, layer, micro_batch);
}

void NumericStep::exchange(Actor actor, Pass& p, const Exchange& e, int buffer) {
  const std::vector<int> group = plan_.mesh.group(actor, e.axis);
  const auto index = std::find(group.begin(), group.end(), actor) - group.begin();
  p.graph.fill(e, {static_cast<int>(index), static_cast<int>(group.size()),
                   &values_->buffer(actor, static_cast<std::uint16_t>(buffer)),
                   &values_->buffer(actor, static_cast<std::uint16_t>(buffer + 1))});
}

void NumericStep::define(Actor actor, int layer, int micro_batch, Pass& p) {
  Rank& r = *ranks_[static_cast<std::size_t>(actor)];
  const Layer& l = plan_.network->layers[static_cast<std::size_t>(layer)];
  p.graph.list(l.forward_exchanges);
  p.graph.list(l.backward_exchanges);
  const auto taken = [this, &r, actor, layer, micro_batch](bool back) {
    const Stand& stand = stands_[static_cast<std::size_t>(layer)];
    if (back ? stand.ends_chunk : stand.begins_chunk)
      return received(actor, stand.virtual_stage - (back ? 0 : 1), micro_batch, back,
                      numeric::input_rows(r.place, layer + (back ? 1 : 0)));
    auto& handed_on = back ? r.out_gradients : r.inputs;
    const auto at = handed_on.find({layer, micro_batch});
    if (at == handed_on.end())
      throw InternalError(fmt::format("rank {}, layer {}, micro-batch {}: no {} is there", actor, layer, micro_batch,
                                      back ? "gradient by the output" : "input"));
    Matrix value = std::move(at->second);
    handed_on.erase(at);
    return value;
  };
  if (layer > 0)
    p.graph.node("x", [&p, taken] {
      if (!p.input) p.input = taken(false);
      return *p.input;
    });
  if (!is_last(layer))
    p.graph.node("dout", [&p, taken] {
      if (!p.out_gradient) p.out_gradient = taken(true);
      return *p.out_gradient;
    });
  const numeric::RankParameters& held = *r.parameters;
  const Index mine = task_.micro_batch_size, global = mine * plan_.micro_batches * plan_.mesh.data;
  const Index first = held.updates() * global + (r.at.data * plan_.micro_batches + micro_batch) * mine;
  const double scale = 1 / static_cast<double>(global * task_.seq_length);
  const bool last = is_last(layer);
  numeric::define_layer(p.graph, r.place, {layer, last, &held.layer(layer), last ? held.tied_weight() : nullptr},
                        {first, scale});
}

Matrix NumericStep::received(Actor actor, int virtual_stage, int micro_batch, bool back, Index rows) {
  Eigen::VectorXd& buffer = message(actor, virtual_stage, micro_batch, back);
  if (buffer.size() == 0 || buffer.size() % rows != 0)
    throw InternalError(fmt::format("rank {}: nothing has come of micro-batch {} from virtual stage {}", actor,
                                    micro_batch, virtual_stage));
  Matrix value = Eigen::Map<const Matrix>(buffer.data(), rows, buffer.size() / rows);
  buffer.setConstant(std::numeric_limits<double>::quiet_NaN());  // used up
  return value;
}

void NumericStep::send(Actor actor, int virtual_stage, int micro_batch, bool back, const Matrix& value) {
  message(actor, virtual_stage, micro_batch, back) = Eigen::Map<const Eigen::VectorXd>(value.data(), value.size());
}

void NumericStep::end_forward(Actor actor, int layer, int micro_batch) {
  Rank& r = *ranks_[static_cast<std::size_t>(actor)];
  Pass& p = r.passes.at({layer, micro_batch});
  const Stand& stand = stands_[static_cast<std::size_t>(layer)];
  if (is_last(layer)) {
    r.losses.resize(static_cast<std::size_t>(r.parameters->updates()) + 1, 0);
    r.losses.back() += p.graph["loss"](0, 0);
  } else if (stand.ends_chunk) {
    send(actor, stand.virtual_stage, micro_batch, false, p.graph["out"]);
  } else {
    r.inputs[{layer + 1, micro_batch}] = p.graph["out"];
  }
  if (plan_.network->layers[static_cast<std::size_t>(layer)].recomputes_all)
    p.graph.forget_all();
  else
    for (const std::string& name : numeric::dropped_after_forward(p.graph, r.place)) p.graph.forget(name);
  p.forward_done = true;
}

void NumericStep::end_input_gradient(Actor actor, int layer, int micro_batch) {
  Rank& r = *ranks_[static_cast<std::size_t>(actor)];
  Pass& p = r.passes.at({layer, micro_batch});
  const Stand& stand = stands_[static_cast<std::size_t>(layer)];
  if (!is_last(layer)) p.graph["dout"];  // taken now, even if weights alone need it
  p.input_done = true;
  if (layer == 0) return;
  if (stand.begins_chunk)
    send(actor, stand.virtual_stage - 1, micro_batch, true, p.graph["dx"]);
  else
    r.out_gradients[{layer - 1, micro_batch}] = p.graph["dx"];
}

void NumericStep::end_weight_gradients(Actor actor, int layer, int micro_batch) {
  Rank& r = *ranks_[static_cast<std::size_t>(actor)];
  Pass& p = r.passes.at({layer, micro_batch});
  const auto add = [&p](numeric::LayerShard& shard, const numeric::LayerShard::Tensor& tensor) {
    const Matrix& gradient = p.graph[numeric::gradient_of(tensor.name)];
    const auto size = static_cast<Index>(tensor.shard.whole.size());
    if (gradient.size() != size) throw InternalError("the gradient of " + tensor.name + " is not of its size");
    shard.gradient.segment(tensor.first, size) += Eigen::Map<const Eigen::VectorXd>(gradient.data(), size);
  };
  numeric::LayerShard& shard = r.parameters->layer(layer);
  for (const numeric::LayerShard::Tensor& tensor : shard.tensors) add(shard, tensor);
  if (is_last(layer) && layer > 0 && r.parameters->tied_weight()) {
    numeric::LayerShard& table = r.parameters->layer(0);
    add(table, table.find("token_embedding.weight"));
  }
  r.parameters->accumulated(layer);
  r.passes.erase({layer, micro_batch});
}

}  // namespace trainyard
