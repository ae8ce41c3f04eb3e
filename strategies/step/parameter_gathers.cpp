#include "strategies/step/parameter_gathers.hpp"

#include <algorithm>
#include <cmath>

namespace trainyard {
namespace {

Lane parameter_lane(const GradientBucket& bucket) {
  return bucket.experts ? Lane::expert_parameters : Lane::parameters;
}

/// Keeps the latest dependency on each stream, which includes all earlier ones.
void keep_latest_of_each_stream(std::vector<Dep>& deps) {
  std::vector<Dep> latest;
  for (const Dep& dep : deps) {
    const auto same = std::ranges::find(latest, dep.stream, &Dep::stream);
    if (same == latest.end())
      latest.push_back(dep);
    else
      same->count = std::max(same->count, dep.count);
  }
  deps = std::move(latest);
}

/// Returns the elements of each broadcast by which the owners of a bucket's tensors send them to all ranks. With as many
/// ranks as tensors or more, each tensor (or its part in this bucket) is sent by itself. Fewer owners send several tensors
/// at once, and each has an equal part.
std::vector<double> broadcast_parts(const StepContext& step, const GradientBucket& bucket) {
  double elements = 0;
  std::size_t tensors = 0;
  for (const GradientBucket& other : step.stage.buckets) {
    if (other.experts != bucket.experts) continue;
    elements += other.elements;
    tensors += other.parts.size();
  }
  const auto ranks = static_cast<std::size_t>(step.shards_of(bucket).count);
  std::vector<double> parts;
  if (ranks >= tensors) {
    for (const GradientBucket::Part& part : bucket.parts)
      parts.push_back(part.elements * bucket.gathered() / bucket.elements);
    return parts;
  }
  const double owners = std::ceil(static_cast<double>(ranks) * bucket.elements / elements);
  parts.assign(std::min(bucket.parts.size(), static_cast<std::size_t>(owners)), 0);
  for (double& part : parts) part = bucket.gathered() / static_cast<double>(parts.size());
  return parts;
}

}  // namespace

ParameterGathers::ParameterGathers(StepContext& step, LaneCollectives& collectives, HostOffload& offload)
    : step_(step), collectives_(collectives), offload_(offload), ready_(step.plan.network->layers.size()) {
  if (step.shards_parameters()) plan_visits();
}

void ParameterGathers::plan_visits() {
  std::vector<bool> met(ready_.size());
  for (const PipelineTask& task : step_.stage.tasks) {
    std::vector<int> layers = step_.stage.chunks[task.chunk];
    if (task.pass != Pass::forward) std::ranges::reverse(layers);
    for (const int layer : layers) {
      const bool again = met[layer];
      met[layer] = true;
      // Weight gradients are products of activations and gradients: they need no weights.
      const bool computes_with = task.pass != Pass::backward_weights;
      visits_.push_back({layer, computes_with && (step_.plan.reshard || !again)});
    }
  }
}

void ParameterGathers::begin_step() {
  visit_ = next_gather_ = 0;
  users_.assign(ready_.size(), 0);
}

void ParameterGathers::wait_for(int layer) {
  std::vector<Dep>& ready = ready_[layer];
  for (const Dep& dep : ready) step_.waits.add(dep);
  ready.clear();
}

/// Gathers the parameters of a bucket from the ranks that shard them. `start`: the end of the operation that completes
/// the rank's own parameters; an empty one: they are complete.
Ops ParameterGathers::gather(std::size_t index, Dep start) {
  const GradientBucket& bucket = step_.stage.buckets[index];
  const Lane lane = parameter_lane(bucket);
  const CallArguments arguments = CallArguments::of_bucket(index);
  if (offload_.holds_parameters()) {
    co_yield offload_.fetch_parameters(index);
    start = step_.out.last_operation(step_.streams.host(HostTransfer::from_host));
  }
  if (!step_.plan.lane(lane).is_used()) co_return;
  if (step_.plan.values && start.count > 0) {  // the compute stream fills in the values
    step_.waits.add(start);
    while (step_.waits.has_any()) co_yield step_.take_waits();
  }
  if (step_.plan.values) co_yield step_.call(TrainingCall::fill_parameters, arguments);
  if (start.count == 0 || step_.plan.values) start = step_.out.last_operation(TrainingStreams::compute);
  const std::uint16_t buffer = step_.buffer({TrainingBuffer::Kind::parameters, index});
  if (step_.plan.broadcasts_parameters)
    for (const double elements : broadcast_parts(step_, bucket))
      co_yield collectives_.run({lane, Operation::broadcast, elements * step_.plan.parameter_element,
                                 step_.words.broadcast_parameters, buffer, start});
  else
    co_yield collectives_.run({lane, Operation::all_gather, bucket.gathered() * step_.plan.parameter_element,
                               step_.words.gather_parameters, buffer, start});
  if (step_.plan.values) co_yield step_.call_on(collectives_.receives(lane), TrainingCall::take_parameters, arguments);
}

Ops ParameterGathers::gather_all() {
  for (std::size_t b = step_.buckets(); b-- > 0;) {
    co_yield gather(b);
    const Lane lane = parameter_lane(step_.stage.buckets[b]);
    if (!step_.plan.lane(lane).is_used()) continue;
    for (const GradientBucket::Part& part : step_.stage.buckets[b].parts)
      ready_[part.layer].push_back(collectives_.end_of(lane));
  }
  for (std::vector<Dep>& ready : ready_) keep_latest_of_each_stream(ready);
}

/// If the backward pass of a layer directly follows its forward pass, its parameters are gathered again only after
/// those of the forward pass are dropped.
Ops ParameterGathers::prefetch() {
  const std::size_t ahead = visit_ + 1 + static_cast<std::size_t>(std::max(step_.plan.prefetch, 0));
  for (; next_gather_ < std::min(ahead, visits_.size()); ++next_gather_) {
    const auto [layer, gathers] = visits_[next_gather_];
    if (!gathers) continue;
    if (next_gather_ > visit_ && visits_[next_gather_ - 1].layer == layer) break;
    for (const int needed : weights_of(layer)) {
      if (users_[needed]++ > 0) continue;
      co_yield gather_layer(needed);
      if (needed == layer) continue;
      const std::vector<Dep>& first_layer = ready_[needed];
      std::vector<Dep>& dependencies = ready_[layer];
      dependencies.insert(dependencies.end(), first_layer.begin(), first_layer.end());
    }
  }
}

/// Returns the layers whose parameters a layer needs: its own, for a tied head also the first layer's, and for a use of a
/// shared block those of its first use.
std::vector<int> ParameterGathers::weights_of(int layer) const {
  if (layer > 0 && step_.layer(layer).tied_elements > 0) return {layer, 0};
  if (const int first = step_.layer(layer).shared_layer; first >= 0) return {layer, first};
  return {layer};
}

Ops ParameterGathers::gather_layer(int layer) {
  double bytes = 0;
  for (const std::size_t bucket : step_.buckets_of(layer))
    bytes += step_.stage.buckets[bucket].gathered() * step_.plan.parameter_element.value;
  if (bytes > 0) co_yield step_.change_memory(bytes, MemoryClass::parameters, step_.words.gather_parameters);
  std::vector<Dep>& ready = ready_[layer];
  for (const std::size_t bucket : step_.buckets_of(layer)) {
    co_yield gather(bucket);
    const Lane lane = parameter_lane(step_.stage.buckets[bucket]);
    if (step_.plan.lane(lane).is_used())
      ready.push_back(collectives_.end_of(lane));
    else if (offload_.holds_parameters())
      ready.push_back(step_.out.last_operation(step_.streams.host(HostTransfer::from_host)));
  }
}

Ops ParameterGathers::drop_layer(int layer) {
  if (--users_[layer] > 0) co_return;
  double elements = 0;
  for (const std::size_t bucket : step_.buckets_of(layer)) {
    elements += step_.stage.buckets[bucket].gathered();
    if (step_.plan.values) co_yield step_.call(TrainingCall::drop_parameters, CallArguments::of_bucket(bucket));
  }
  if (elements > 0)
    co_yield step_.change_memory(-elements * step_.plan.parameter_element.value, MemoryClass::parameters,
                                 step_.words.drop_parameters);
}

Ops ParameterGathers::end_visit(int layer, bool last_use) {
  const bool gathered = visits_[visit_++].gathers;
  if (step_.plan.reshard ? !gathered : !last_use) co_return;
  for (const int needed : weights_of(layer)) co_yield drop_layer(needed);
}

Ops ParameterGathers::update() {
  if (offload_.is_used())
    co_yield offload_.update();
  else
    co_yield run_optimizer();
  if (step_.shards() && !step_.shards_parameters() && !step_.plan.overlap_parameters) co_yield gather_updated();
}

/// Tensor ranks exchange what they need of the matrices that they split. Each exchange follows the one before.
Ops ParameterGathers::exchange_matrices() {
  const UpdateExchanges& all = step_.stage.update_exchanges;
  if (!step_.plan.lane(Lane::tensor).is_used() || all.gathers + all.sums == 0) co_return;
  while (step_.waits.has_any()) co_yield step_.take_waits();
  const Dep start = step_.out.last_operation(TrainingStreams::compute);
  for (int i = 0; i < all.gathers; ++i)
    co_yield collectives_.run(
        {Lane::tensor, Operation::all_gather, all.gathered, step_.words.exchange_matrices, 0, start});
  for (int i = 0; i < all.sums; ++i)
    co_yield collectives_.run(
        {Lane::tensor, Operation::all_reduce, all.summed, step_.words.exchange_matrices, 0, start});
  step_.waits.add(collectives_.end_of(Lane::tensor));
}

Ops ParameterGathers::run_optimizer(int set) {
  co_yield exchange_matrices();
  while (step_.waits.exceed_one_op()) co_yield step_.take_waits();
  co_yield step_.work(step_.stage.optimizer, Kind::local, step_.words.optimizer, step_.words.optimizer_step);
  if (step_.plan.values) co_yield step_.call(TrainingCall::update, {set});
}

Ops ParameterGathers::gather_updated() {
  for (std::size_t b = step_.buckets(); b-- > 0;) {
    Dep returned;  // within co_yield g++ 12 would evaluate both sides of a conditional
    if (offload_.is_used()) returned = offload_.returned(b);
    co_yield gather(b, returned);
  }
  for (const Lane lane : {Lane::parameters, Lane::expert_parameters})
    if (step_.plan.lane(lane).is_used()) step_.waits.add(collectives_.end_of(lane));
}

}  // namespace trainyard
