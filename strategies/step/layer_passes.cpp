#include "strategies/step/layer_passes.hpp"

#include <algorithm>

namespace trainyard {
namespace {

constexpr int kAllKernels = 1 << 30;

TrainingCall call_of(Pass pass) {
  constexpr TrainingCall kCalls[kPasses] = {TrainingCall::forward, TrainingCall::backward, TrainingCall::backward_input,
                                            TrainingCall::backward_weights};
  return kCalls[static_cast<std::size_t>(pass)];
}

/// True for the lanes at whose exchanges two passes alternate. Megatron-Core alternates at the dispatch and the
/// combination of tokens alone (combined_1f1b.py).
bool alternates_passes(Lane lane) {
  return lane == Lane::expert || lane == Lane::expert_return || lane == Lane::expert_tensor;
}

}  // namespace

LayerPasses::LayerPasses(StepContext& step, LaneCollectives& collectives, GradientExchange& gradients,
                         ParameterGathers& parameters, HostOffload& host, const PassSeries* series)
    : step_(step),
      collectives_(collectives),
      gradients_(gradients),
      parameters_(parameters),
      activations_(step, host),
      series_(series && series->has_passes() ? series : nullptr),
      ends_(step.stage.chunks.size()) {
  for (std::size_t lane = 0; lane < kLanes; ++lane)
    if (const LaneGroup* group = step.peers.lane(static_cast<Lane>(lane)).group)
      is_one_join_[lane] =
          step.plan.lane(static_cast<Lane>(lane)).has_one_kind && group->settings.fidelity == Fidelity::modelled;
  for (const PipelineTask& task : step.stage.tasks) {
    if (task.pass != Pass::backward && task.pass != Pass::backward_weights) continue;
    Ends& ends = ends_[task.chunk];
    if (ends.first < 0) ends.first = task.micro_batch;
    ends.last = task.micro_batch;
  }
}

Ops LayerPasses::chunk(const PipelineTask& task, bool sends) {
  co_yield layers(task, sends);
  if (step_.plan.lane(Lane::maxima).is_used() && !step_.plan.values) co_yield amax_reduction(task);
}

Ops LayerPasses::amax_reduction(const PipelineTask& task) {
  if (task.pass == Pass::backward_weights) co_return;
  int products = 0;
  for (const int layer : step_.stage.chunks[task.chunk]) products += step_.plan.network->layers[layer].delayed_products;
  if (products == 0) co_return;
  // TransformerEngine, fp8.py: input, weight and output of a product forward; gradients of output and input backward.
  const int tensors = task.pass == Pass::forward ? 3 : 2;
  const Bytes maxima = element_size(Precision::fp32) * (tensors * products);
  Work small;
  small.kernel = static_cast<std::uint16_t>(Kernel::elementwise);
  small.precision = static_cast<std::uint8_t>(Precision::fp32);
  small.bytes = maxima * 2;
  while (step_.waits.exceed_one_op()) co_yield step_.take_waits();
  co_yield step_.work(small, Kind::local, step_.words.compute, step_.words.scales);  // one tensor of all maxima
  co_yield collectives_.run({Lane::maxima, Operation::all_reduce, maxima, step_.words.maxima, 0,
                             step_.out.last_operation(TrainingStreams::compute)});
  step_.waits.add(collectives_.end_of(Lane::maxima));
  while (step_.waits.exceed_one_op()) co_yield step_.take_waits();
  co_yield step_.work(small, Kind::local, step_.words.compute, step_.words.scales);  // the history and the scales
}

Ops LayerPasses::layers(const PipelineTask& task, bool sends) {
  if (const PassSeries::ChunkSeries* chunk_series = series_of(task, sends)) {
    co_yield series(*chunk_series);
    co_return;
  }
  const std::vector<int>& layers = step_.stage.chunks[task.chunk];
  if (task.pass == Pass::forward)
    for (const int layer : layers) co_yield pass(layer, task);
  else
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) co_yield pass(*layer, task);
}

Ops LayerPasses::in_turn(Ops one, Ops other) {
  static const Event kGoesOn{};
  waiting_pass_.emplace();
  Ops* running = &one;
  Ops* waiting = &other;
  const auto change_over = [&] {
    std::swap(running, waiting);
    std::swap(exchanges_, waiting_pass_->exchanges);
    std::swap(step_.waits, waiting_pass_->waits);
  };
  for (bool one_is_over = false;;) {
    const Op* op = nullptr;
    const Pull pull = running->next(op);
    if (pull == Pull::op) {
      co_yield *op;
      continue;
    }
    if (pull == Pull::done && one_is_over) break;
    if (pull == Pull::waiting) running->deliver(kGoesOn);
    if (!one_is_over) change_over();
    one_is_over = one_is_over || pull == Pull::done;
  }
  step_.waits.add(waiting_pass_->waits);
  waiting_pass_.reset();
}

/// A pass can be a series if nothing waits for parameters between layers, no bucket leaves, and no gradient takes memory.
const PassSeries::ChunkSeries* LayerPasses::series_of(const PipelineTask& task, bool sends) const {
  if (!series_ || waiting_pass_) return nullptr;
  const bool makes_gradients = task.pass == Pass::backward || task.pass == Pass::backward_weights;
  const bool last = task.micro_batch == ends_[task.chunk].last;
  if (makes_gradients && gradients_.sends_during_backward(last)) return nullptr;
  if (makes_gradients && task.micro_batch == ends_[task.chunk].first && !step_.stage.freed_gradients.empty())
    return nullptr;
  const std::vector<int>& layers = step_.stage.chunks[task.chunk];
  if (std::ranges::any_of(layers, [this](int layer) { return parameters_.waits_for(layer); })) return nullptr;
  const bool first = task.micro_batch == ends_[task.chunk].first || gradients_.exchanges_each_micro_batch();
  const PassSeries::ChunkSeries& series = series_->chunk(task.pass, step_.place.pipeline, task.chunk, first, sends);
  return series.is_valid ? &series : nullptr;
}

Ops LayerPasses::series(const PassSeries::ChunkSeries& chunk) {
  if (chunk.series.parts.empty()) co_return;
  while (chunk.begins_with_exchange ? step_.waits.has_any() : step_.waits.exceed_one_op()) co_yield step_.take_waits();
  Op& op = step_.out.begin(Kind::series, TrainingStreams::compute);
  op.group = step_.words.compute;
  op.message.tag = chunk.number;
  step_.waits.take_into(op);
  co_yield step_.out.emit();
  for (int i = 0; i < chunk.pending_exchanges; ++i) step_.waits.add(step_.out.last_operation(TrainingStreams::compute));
}

Ops LayerPasses::pass(int layer, const PipelineTask& task) {
  const Pass pass = task.pass;
  const Ends& ends = ends_[task.chunk];
  const bool first = task.micro_batch == ends.first, last = task.micro_batch == ends.last;
  const bool makes_gradients = pass == Pass::backward || pass == Pass::backward_weights;
  if (step_.shards_parameters()) co_yield parameters_.prefetch();
  parameters_.wait_for(layer);
  if (pass == Pass::forward)
    activations_.begin_forward(layer);
  else
    co_yield activations_.begin_backward(step_.stage.chunks[task.chunk], layer, task.micro_batch);
  if (makes_gradients && first && !step_.stage.freed_gradients.empty())
    co_yield step_.change_memory(step_.stage.freed_gradients[layer].value, MemoryClass::gradients,
                                 step_.words.gradients);
  if (makes_gradients && step_.shards_parameters()) gradients_.wait_for_buffers(layer);
  const bool leave = makes_gradients && gradients_.sends_during_backward(last);
  const bool fine = leave && !step_.plan.values_by_layer();  // values are computed layer by layer
  if (leave) co_yield gradients_.open_buckets();
  const PassTable& table =
      step_.tables.pass(pass, layer, first || gradients_.exchanges_each_micro_batch(), fine, step_.load);
  const std::uint16_t buffer = take_buffers(table.listed);
  exchanges_.assign(table.places, {});
  for (const PassItem& item : table.items) {
    for (const std::int16_t place : item.waits_for)
      if (place >= 0) step_.waits.add(exchanges_[place]);
    if (item.kind == PassItem::Kind::exchange) {
      while (step_.waits.has_any()) co_yield step_.take_waits();
      if (step_.plan.values_by_layer())
        co_yield step_.call(call_of(pass), {layer, task.micro_batch, item.exchange, buffer});
      if (is_one_join_[static_cast<std::size_t>(item.lane)])
        co_yield modelled_exchange(item);
      else
        co_yield exchange(item, static_cast<std::uint16_t>(buffer + 2 * item.exchange));
      exchanges_[item.place] = collectives_.end_of(item.lane);
      if (waiting_pass_ && alternates_passes(item.lane)) co_await next_event;  // the other pass goes on
      continue;
    }
    while (step_.waits.exceed_one_op()) co_yield step_.take_waits();
    step_.out.emit(item.op);
    co_yield step_.out.amend([this](Op& op) { step_.waits.take_into(op); });
    if (fine) co_yield gradients_.after_kernel(layer, item.kernel, first, last);
  }
  // Buckets that the input-gradient pass has completed leave with the weight gradients, even if the layer has none.
  if (fine && pass == Pass::backward_weights) co_yield gradients_.after_kernel(layer, kAllKernels, first, last);
  for (const std::int16_t place : table.left) step_.waits.add(exchanges_[place]);
  const bool end = pass == Pass::forward && layer + 1 == static_cast<int>(step_.plan.network->layers.size());
  if (step_.plan.values_by_layer() || (step_.plan.rides && end)) {
    while (step_.waits.has_any()) co_yield step_.take_waits();
    co_yield step_.call(call_of(pass), {layer, task.micro_batch, kEndOfPass, buffer});
    if (leave) co_yield gradients_.after_kernel(layer, kAllKernels, first, last);
  }
  if (pass == Pass::forward) co_yield activations_.end_forward(layer, task.micro_batch);
  if (!step_.shards_parameters()) co_return;
  co_yield parameters_.end_visit(layer, makes_gradients && last);
  if (makes_gradients) co_yield gradients_.exchange_layer(layer, first, last);
}

/// Runs an exchange on `buffer`. The buffer after it holds what an all-to-all sends.
Ops LayerPasses::exchange(const PassItem& item, std::uint16_t buffer) {
  // A ring shift sends from a buffer of its own and receives into it; the data are then copied to `buffer`.
  const bool shift = item.operation == Operation::send_recv;
  const auto input = static_cast<std::uint16_t>(buffer + 1);
  co_yield collectives_.run({item.lane, item.operation, item.bytes, item.op.name, shift ? input : buffer,
                             step_.out.last_operation(TrainingStreams::compute), input});
  if (!shift || !step_.plan.values_by_layer()) co_return;
  Op& op = step_.out.begin(Kind::mark, collectives_.receives(item.lane), step_.words.call);
  op.write_to({buffer, 0, 1}, Action::copy, {input, 0, 1});
  co_yield step_.out.emit();
}

/// The pass's table has prepared the operation, except for its tag and dependency.
const Op& LayerPasses::modelled_exchange(const PassItem& item) {
  Op op = item.op;
  op.stream = collectives_.receives(item.lane);
  const Actor group_of = step_.peers.lane(item.lane).group->members.front();
  op.message.tag = collectives_.next_tag(item.lane) | static_cast<Tag>(group_of) << 32;
  op.deps[0] = step_.out.last_operation(TrainingStreams::compute);
  return step_.out.emit(op);
}

/// Takes the buffers of `exchanges` exchanges, two each, in turn.
std::uint16_t LayerPasses::take_buffers(int exchanges) {
  constexpr auto kKind = TrainingBuffer::Kind::exchange;
  const std::size_t buffers = 2 * static_cast<std::size_t>(exchanges);
  if (next_buffer_ + buffers > count_of(kKind)) next_buffer_ = 0;
  const std::uint16_t first = unchecked_number_of({kKind, next_buffer_});
  next_buffer_ += buffers;
  return first;
}

}  // namespace trainyard
