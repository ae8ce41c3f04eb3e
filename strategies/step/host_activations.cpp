#include "strategies/step/host_activations.hpp"

#include <algorithm>

namespace trainyard {

HostActivations::HostActivations(StepContext& step, HostOffload& host)
    : step_(step), host_(host), choice_(step.plan.offload.activations) {}

void HostActivations::begin_forward(int layer) {
  if (!choice_.holds(layer) || leaving_.size() < kLeavingLayers) return;
  step_.waits.add(leaving_.front());
  leaving_.pop_front();
}

/// Copies activations, after everything computed so far and after another copy.
Ops HostActivations::copy(HostWay way, Key key, Dep after_copy) {
  const bool leaves = way == HostWay::to_host;
  Op& op = host_.transfer(way, step_.layer(key.first).activations(),
                          leaves ? step_.words.activations_out : step_.words.activations_in,
                          step_.out.last_operation(TrainingStreams::compute), after_copy);
  if (step_.plan.values_by_layer())
    op.effect = effect_of(leaves ? TrainingCall::activations_to_host : TrainingCall::activations_to_gpu,
                          {key.first, key.second});
  co_yield step_.out.emit();
}

Ops HostActivations::end_forward(int layer, int micro_batch) {
  if (!choice_.holds(layer)) co_return;
  const Stream out = step_.streams.host(HostWay::to_host);
  const Bytes bytes = step_.layer(layer).activations();
  co_yield copy(HostWay::to_host, {layer, micro_batch}, {});
  left_[{layer, micro_batch}] = step_.out.last_operation(out);
  co_yield step_.change_memory(-bytes.value, MemoryClass::activations, step_.words.activations_out, out);
  leaving_.push_back(step_.out.last_operation(out));
}

Ops HostActivations::fetch(Key key) {
  const Bytes bytes = step_.layer(key.first).activations();
  co_yield step_.change_memory(bytes.value, MemoryClass::activations, step_.words.activations_in);
  co_yield copy(HostWay::from_host, key, left_.at(key));
  left_.erase(key);
  returning_[key] = step_.out.last_operation(step_.streams.host(HostWay::from_host));
}

Ops HostActivations::begin_backward(const std::vector<int>& chunk, int layer, int micro_batch) {
  if (!choice_.is_used()) co_return;
  int begun = choice_.holds(layer) ? -1 : 0;  // number of layers, without this one
  for (auto next_layer = std::find(chunk.rbegin(), chunk.rend(), layer);
       next_layer != chunk.rend() && begun < choice_.ahead; ++next_layer) {
    if (!choice_.holds(*next_layer)) continue;
    ++begun;
    if (left_.contains({*next_layer, micro_batch})) co_yield fetch({*next_layer, micro_batch});
  }
  const auto returned = returning_.find({layer, micro_batch});
  if (returned == returning_.end()) co_return;
  step_.waits.add(returned->second);
  returning_.erase(returned);
}

}  // namespace trainyard
