#include "strategies/mechanisms/central/central_step.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/index.hpp"

namespace trainyard {

std::vector<Actor> CentralPlan::actors() const { return consecutive_numbers(Actor{0}, std::max(replicas, center + 1)); }

void without_all_reduce(TrainingPlan& plan) {
  plan.lanes = {};
  plan.through_center = true;
  plan.bucket_copy = false;
  plan.wait_kernel = 0;
}

CentralPlan central_plan(TrainingPlan replicas) {
  CentralPlan central;
  central.step = std::move(replicas);
  central.replicas = central.step.ranks();
  central.memory = central.step.stages.front().memory;
  central.addition = central.step.accumulation;
  const Network& network = *central.step.network;
  const Layer &first = network.layers.front(), &last = network.layers.back();
  if (!first.saved_tensors.empty()) central.input = first.saved_tensors.front().bytes;
  for (const KeptTensor& tensor : last.saved_tensors)
    if (tensor.name == "logits" || tensor.name == "output") central.output = tensor.bytes;
  return central;
}

std::vector<std::string> central_streams(const CentralPlan& plan) {
  std::vector<std::string> names{"compute", "receive"};
  for (int stream = 0; stream < CentralStep::send_streams(static_cast<std::size_t>(plan.replicas)); ++stream)
    names.push_back(stream == 0 ? "send" : fmt::format("send {}", stream));
  return names;
}

CentralStep::CentralStep(const CentralPlan& plan, const PassTables& tables, const CentralNames& words,
                         std::vector<Actor> peers)
    : CentralStep(plan, tables, words, peers, 2 + std::max(1, send_streams(peers.size())), false) {}

CentralStep::CentralStep(const CentralPlan& plan, const PassTables& tables, const CentralNames& words,
                         std::vector<Actor> peers, int streams, bool dynamic)
    : CoroutineProgram(std::move(peers), streams, dynamic),
      plan_(plan),
      step_(plan.step),
      tables_(tables),
      words_(words),
      stage_(plan.step.stages.front()) {}

Ops CentralStep::book_static_memory(const StaticMemory& memory) {
  for (const MemoryPart& part : memory.parts) co_yield book_memory(part.bytes.value, part.memory_class);
}

const Op& CentralStep::book_memory(double bytes, MemoryClass memory_class) {
  Op& op = out_.begin(Kind::mark, compute, words_.setup);
  op.book_memory(bytes, memory_class);
  return out_.emit();
}

Ops CentralStep::overhead() {
  if (step_.overhead_kernel == 0) co_return;
  co_yield drain_waits();
  Op& op = out_.begin(Kind::delay, compute, words_.overhead, words_.framework);
  op.work.kernel = step_.overhead_kernel;
  co_yield out_.emit();
}

Op& CentralStep::message(Kind kind, Stream stream, Content content, std::size_t peer, std::size_t index) {
  Op& op = out_.begin(kind, stream);
  op.address(peer, static_cast<Tag>(content) << 56 | static_cast<Tag>(round_) << 16 | index,
             Mode::put);  // the sender does not wait for the receiver
  const bool sends = kind == Kind::send;
  struct Words {
    GroupId group;
    NameId name;
  };
  const Words labels[] = {{words_.data, words_.input},  // indexed by content
                          {words_.parameters, sends ? words_.give : words_.take},
                          {words_.data, words_.output},
                          {words_.data, words_.output_gradient},
                          {words_.gradients, sends ? words_.push : words_.collect},
                          {words_.gradients, words_.over}};
  op.group = labels[static_cast<std::size_t>(content)].group;
  op.name = labels[static_cast<std::size_t>(content)].name;
  return op;
}

const Op& CentralStep::send(Content content, std::size_t peer, Bytes bytes, std::size_t index, BufferRef from) {
  Op& op = message(Kind::send, stream_to(peer), content, peer, index);
  op.message.bytes = bytes;
  op.deps[0] = out_.last_operation(compute);
  if (step_.values) op.effect.read = from;
  return out_.emit();
}

const Op& CentralStep::receive(Content content, std::size_t peer, std::size_t index, Action action, BufferRef into,
                               bool after_compute) {
  Op& op = message(Kind::recv, receiving, content, peer, index);
  if (after_compute) op.deps[0] = out_.last_operation(compute);
  if (step_.values && into) op.write_to(into, action);
  return out_.emit();
}

Op CentralStep::step_over() const { return {.name = words_.step_over}; }

const Op& CentralStep::work(const Work& amount, GroupId group, NameId name) {
  Op& op = out_.begin(Kind::local, compute, name, group);
  op.work = amount;
  apply_waits(op);
  return out_.emit();
}

const Op& CentralStep::work(const Op& kernel) {
  Op& op = out_.begin(kernel);
  apply_waits(op);
  return out_.emit();
}

void CentralStep::apply_waits(Op& op) {
  for (Dep& dep : op.deps)
    if (!waits_.empty()) {
      dep = waits_.back();
      waits_.pop_back();
    }
}

Ops CentralStep::await_sends() {
  for (int i = 0; i < send_streams(peers()); ++i) wait_for(out_.last_operation(static_cast<Stream>(sending + i)));
  co_yield drain_waits();
}

Ops CentralStep::await_messages() {
  wait_for(out_.last_operation(receiving));
  co_yield drain_waits();
}

Ops CentralStep::give_parameters() {
  for (std::size_t b = stage_.buckets.size(); b-- > 0;) {
    if (step_.values) co_yield call(TrainingCall::fill_parameters, b);
    for (std::size_t peer = 0; peer < peers(); ++peer)
      co_yield send(Content::parameters, peer, parameter_bytes(b), b,
                    whole_buffer(TrainingBuffer::Kind::parameters, b));
  }
}

Ops CentralStep::take_parameters(std::size_t bucket) {
  co_yield receive(Content::parameters, 0, bucket, Action::copy, whole_buffer(TrainingBuffer::Kind::parameters, bucket),
                   true);
  if (step_.values) co_yield call_on(receiving, TrainingCall::take_parameters, bucket);
}

Op& CentralStep::put_message(Kind kind, Stream stream, NameId name, GroupId group, std::size_t peer, Tag tag) {
  Op& op = out_.begin(kind, stream, name, group);
  op.address(peer, tag, Mode::put);
  return op;
}

Ops CentralStep::drain_waits() {
  while (!waits_.empty()) {
    Op& op = out_.begin(Kind::mark, compute, words_.wait_for_messages);
    apply_waits(op);
    co_yield out_.emit();
  }
}

const Op& CentralStep::emit_call(Stream stream, const Effect& effect) {
  Op& op = out_.begin(Kind::mark, stream, words_.call);
  op.effect = effect;
  return out_.emit();
}

BufferRef CentralStep::whole_buffer(TrainingBuffer::Kind kind, std::size_t index) const {
  return step_.values ? BufferRef{number_of({kind, index}), 0, 1} : BufferRef{};
}

/// The loss consists of the last layer's kernels after its last matrix product. In the backward pass it consists of the
/// kernels before the first one.
bool CentralStep::is_in_part(const PassTable& table, std::size_t item, Pass pass, int layer, Part part) const {
  if (part == Part::all || layer + 1 != layers()) return part != Part::loss;
  const auto product = [&table](std::size_t i) { return table.items[i].op.work.flops.value > 0; };
  bool any_product = false, beyond = true;
  for (std::size_t i = 0; i < table.items.size(); ++i) {
    any_product = any_product || product(i);
    if (product(i) && (pass == Pass::forward ? i >= item : i <= item)) beyond = false;
  }
  const bool loss = any_product && beyond;
  return loss == (part == Part::loss);
}

const Op& CentralStep::kernel(const PassItem& item, double times) {
  out_.emit(item.op);
  return out_.amend([this, times](Op& op) {
    op.work.flops = op.work.flops * times;
    op.work.bytes = op.work.bytes * times;
    op.memory.high_water *= times;
    if (times > 1) op.memory.change = 0;
    apply_waits(op);
  });
}

Ops WorkerStep::passes() {
  next_bucket_ = 0;
  for (int micro_batch = 0; micro_batch < step_.micro_batches; ++micro_batch) {
    for (int layer = 0; layer < layers(); ++layer) co_yield pass(Pass::forward, layer, micro_batch);
    for (int layer = layers() - 1; layer >= 0; --layer) co_yield pass(Pass::backward, layer, micro_batch);
  }
  co_yield push_ready(-1, 0);
}

Ops WorkerStep::pass(Pass what, int layer, int micro_batch) {
  const bool first = micro_batch == 0, last = micro_batch + 1 == step_.micro_batches;
  const bool pushes = what == Pass::backward && last && step_.overlap_gradients;
  const bool fine = pushes && !step_.values_by_layer();  // values are computed layer by layer
  if (what == Pass::forward && first) co_yield await_parameters(layer);
  for (const PassItem& item : tables_.pass(what, layer, first, fine).items) {
    co_yield kernel(item);
    if (fine) co_yield push_ready(layer, item.kernel);
  }
  const bool end = what == Pass::forward && layer + 1 == layers();
  if (!step_.values_by_layer() && !(step_.rides && end)) co_return;
  co_yield drain_waits();
  co_yield call(what == Pass::forward ? TrainingCall::forward : TrainingCall::backward, static_cast<std::size_t>(layer),
                micro_batch);
  if (pushes) co_yield push_ready(layer, 1 << 30);
}

/// Pushes the buckets whose last gradient is computed when this kernel of this layer has ended.
Ops WorkerStep::push_ready(int layer, int kernel) {
  for (; next_bucket_ < stage_.buckets.size(); ++next_bucket_) {
    const GradientBucket& bucket = stage_.buckets[next_bucket_];
    if (bucket.layer < layer || (bucket.layer == layer && bucket.kernel > kernel)) break;
    co_yield push(next_bucket_);
  }
}

}  // namespace trainyard
