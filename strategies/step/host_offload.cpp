#include "strategies/step/host_offload.hpp"

#include <algorithm>

namespace trainyard {
namespace {

using Buffer = TrainingBuffer::Kind;

BufferRef whole(Buffer kind, std::size_t bucket) { return {number_of({kind, bucket}), 0, 1}; }

}  // namespace

HostOffload::HostOffload(StepContext& step) : step_(step), added_(step.buckets()) {}

Op& HostOffload::transfer(HostTransfer way, Bytes bytes, NameId name, Dep first, Dep second) {
  const auto number = static_cast<std::size_t>(way);
  const GroupFlow* flow = step_.peers.flows[kLanes + number];
  Op& op = step_.out.begin(Kind::join, step_.streams.host(way), name, step_.words.host[number]);
  // Drives are striped: the flow has an edge for each. The memory of a CPU counts reads and writes.
  const bool striped = way == HostTransfer::drive_read || way == HostTransfer::drive_write;
  const double parts = way == HostTransfer::in_host ? 2 : striped && flow ? static_cast<double>(flow->edges.size()) : 1;
  op.message.bytes = bytes / parts;
  op.message.steps = 1;
  op.address(kLanes + number, group_of_transfer(way, step_.rank) << kJoinBits | ++calls_[number]);
  op.deps[0] = first;
  op.deps[1] = second;
  return op;
}

const Op& HostOffload::emit_call(Op& op, TrainingCall call, std::size_t bucket) {
  if (step_.plan.values) op.effect = effect_of(call, CallArguments::of_bucket(bucket));
  return step_.out.emit();
}

Ops HostOffload::fill_host() {
  for (std::size_t b = 0; b < step_.buckets(); ++b)
    co_yield step_.call(TrainingCall::fill_host_parameters, CallArguments::of_bucket(b));
}

Ops HostOffload::open_buckets(std::size_t up_to) {
  if (!is_used() || step_.plan.zero != ZeroStage::gradients) co_return;
  for (; opened_ <= up_to && up_to < step_.buckets(); ++opened_) {
    if (sent_.front().count > 0) {
      step_.waits.add(sent_.front());
      while (step_.waits.has_any()) co_yield step_.take_waits();
    }
    const Bytes bytes = step_.stage.buckets[opened_].elements * step_.plan.gradient_element;
    co_yield step_.change_memory(bytes.value, MemoryClass::gradients, step_.words.buckets[opened_]);
  }
}

Ops HostOffload::send_gradients(std::size_t index, bool accumulate, Dep ready) {
  const Stream out = step_.streams.host(HostTransfer::to_host);
  const double share = step_.own_elements(index);
  if (step_.plan.values) co_yield step_.call_on(out, TrainingCall::fill_share, CallArguments::of_bucket(index), ready);
  // The copy waits until the previous gradients in the host's buffer have been added.
  Op& copied = transfer(HostTransfer::to_host, share * step_.plan.gradient_element, step_.words.gradients_out, ready,
                        added_[index]);
  if (step_.plan.values)
    copied.write_to(whole(Buffer::host_gradients, index), Action::copy, whole(Buffer::gradient_share, index));
  co_yield step_.out.emit();
  sent_ = {sent_.back(), step_.out.last_operation(out)};
  if (step_.plan.zero == ZeroStage::gradients)
    co_yield step_.change_memory(-step_.stage.buckets[index].elements * step_.plan.gradient_element.value,
                                 MemoryClass::gradients, step_.words.buckets[index], out);
  if (!accumulate && !step_.plan.values) co_return;
  const Bytes bytes = accumulate ? share * step_.plan.offload.addition : Bytes{};
  Op& added = transfer(HostTransfer::in_host, bytes, step_.words.add_on_host, sent_.back());
  co_yield emit_call(added, TrainingCall::keep_on_host, index);
  added_[index] = end_of(HostTransfer::in_host);
}

Ops HostOffload::fetch_parameters(std::size_t index) {
  const Dep now = step_.out.last_operation(TrainingStreams::compute);
  Dep read;
  if (step_.plan.offload.parameters == OffloadDevice::nvme) {
    Op& op = transfer(HostTransfer::drive_read, step_.own_elements(index) * step_.plan.parameter_element,
                      step_.words.read_parameters, now);
    co_yield emit_call(op, TrainingCall::fill_host_parameters, index);
    read = end_of(HostTransfer::drive_read);
  }
  co_yield return_parameters(index, now, read);
}

Ops HostOffload::return_parameters(std::size_t index, Dep first, Dep second) {
  Op& op = transfer(HostTransfer::from_host, step_.own_elements(index) * step_.plan.parameter_element,
                    step_.words.parameters_in, first, second);
  if (step_.plan.values)
    op.write_to(whole(Buffer::own_parameters, index), Action::copy, whole(Buffer::host_parameters, index));
  co_yield step_.out.emit();
  if (step_.plan.values)
    co_yield step_.call_on(step_.streams.host(HostTransfer::from_host), TrainingCall::take_own,
                           CallArguments::of_bucket(index));
}

/// Updates the rank's share of one bucket: reads states from the drive and writes them back, updates, and copies the
/// new parameters to the GPU.
Ops HostOffload::update_bucket(std::size_t index, Dep begun) {
  const OffloadPlan& offload = step_.plan.offload;
  const double share = step_.own_elements(index);
  const bool on_drive = offload.optimizer == OffloadDevice::nvme,
             parameters_on_drive = offload.parameters == OffloadDevice::nvme;
  // At most two buckets' new parameters are in host memory.
  Dep read = index + 2 < returned_.size() && returned_[index + 2].count > 0 ? returned_[index + 2] : begun;
  if (on_drive) {
    const auto most = static_cast<std::size_t>(offload.buffers);
    const Dep buffer_free = written_.size() < most ? Dep{} : written_[written_.size() - most];
    Op& op = transfer(HostTransfer::drive_read, share * offload.states, step_.words.read_states, read, buffer_free);
    co_yield emit_call(op, TrainingCall::read_states, index);
    read = end_of(HostTransfer::drive_read);
  }
  // Gradients are scaled by their norm, so all of them must have arrived.
  Op& update = transfer(HostTransfer::in_host, share * offload.update, step_.words.optimizer_step,
                        end_of(HostTransfer::to_host), read);
  co_yield emit_call(update, TrainingCall::update_on_host, index);
  if (on_drive || parameters_on_drive) {
    const Bytes bytes = (on_drive ? share * offload.states : Bytes{}) +
                        (parameters_on_drive ? share * step_.plan.parameter_element : Bytes{});
    Op& op = transfer(HostTransfer::drive_write, bytes, step_.words.write_states, end_of(HostTransfer::in_host));
    co_yield emit_call(op, TrainingCall::write_states, index);
    written_.push_back(end_of(HostTransfer::drive_write));
  }
  if (holds_parameters()) co_return;
  co_yield return_parameters(index, end_of(HostTransfer::in_host), {});
  returned_[index] = end_of(HostTransfer::from_host);
}

Ops HostOffload::update() {
  while (step_.waits.has_any()) co_yield step_.take_waits();
  const Dep begun = step_.out.last_operation(TrainingStreams::compute);
  written_.clear();
  returned_.assign(step_.buckets(), {});
  for (std::size_t b = step_.buckets(); b-- > 0;) co_yield update_bucket(b, begun);
  for (const HostTransfer way :
       {HostTransfer::to_host, HostTransfer::in_host, HostTransfer::from_host, HostTransfer::drive_write})
    step_.waits.add(end_of(way));
  if (!step_.plan.values) co_return;
  while (step_.waits.has_any()) co_yield step_.take_waits();
  co_yield step_.call(TrainingCall::update);
}

HostActivations::HostActivations(StepContext& step, HostOffload& host)
    : step_(step), host_(host), choice_(step.plan.offload.activations) {}

void HostActivations::begin_forward(int layer) {
  if (!choice_.holds(layer) || leaving_.size() < kLeavingLayers) return;
  step_.waits.add(leaving_.front());
  leaving_.pop_front();
}

/// Copies activations, after everything computed so far and after another copy.
Ops HostActivations::copy(HostTransfer way, Key key, Dep after_copy) {
  const bool leaves = way == HostTransfer::to_host;
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
  const Stream out = step_.streams.host(HostTransfer::to_host);
  const Bytes bytes = step_.layer(layer).activations();
  co_yield copy(HostTransfer::to_host, {layer, micro_batch}, {});
  left_[{layer, micro_batch}] = step_.out.last_operation(out);
  co_yield step_.change_memory(-bytes.value, MemoryClass::activations, step_.words.activations_out, out);
  leaving_.push_back(step_.out.last_operation(out));
}

Ops HostActivations::fetch(Key key) {
  const Bytes bytes = step_.layer(key.first).activations();
  co_yield step_.change_memory(bytes.value, MemoryClass::activations, step_.words.activations_in);
  co_yield copy(HostTransfer::from_host, key, left_.at(key));
  left_.erase(key);
  returning_[key] = step_.out.last_operation(step_.streams.host(HostTransfer::from_host));
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
