#include "strategies/step/training_program.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.hpp"
#include "strategies/step/training_step.hpp"

namespace trainyard {
namespace {

constexpr Operation kUsed[] = {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                               Operation::all_to_all, Operation::send_recv};

TrainingStep::Peers peers_of_rank(int rank, const TrainingPlan& plan) {
  TrainingStep::Peers peers;
  for (int i = 0; i < kLanes; ++i) {
    const LaneGroups& lane = plan.lanes[static_cast<std::size_t>(i)];
    if (!lane.used() || lane.of_rank[static_cast<std::size_t>(rank)] < 0) continue;
    const LaneGroup& group = lane.of(rank);
    if (group.settings.flow) peers.flows[static_cast<std::size_t>(i)] = group.settings.flow.get();
    const int size = static_cast<int>(group.members.size());
    const int index =
        static_cast<int>(std::find(group.members.begin(), group.members.end(), rank) - group.members.begin());
    for (const Operation operation : kUsed) {
      const Collective* algorithm = lane.algorithm[static_cast<std::size_t>(operation)];
      if (!algorithm) continue;
      auto& of = peers.collectives[static_cast<std::size_t>(i)][static_cast<std::size_t>(operation)];
      of.first_slot = static_cast<std::uint16_t>(peers.slots.size());
      of.peers = peers_of(*algorithm, {index, size, &group.settings});
      for (const int peer : of.peers) peers.slots.push_back(group.members[static_cast<std::size_t>(peer)]);
    }
  }
  for (std::size_t way = 0; way < kHostWays && !plan.offload.ways.empty(); ++way)
    peers.flows[kLanes + way] = &plan.offload.ways[static_cast<std::size_t>(rank)][way];
  const std::vector<int> stages = plan.mesh.group(rank, Axis::pipeline);
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    peers.stage_slot.push_back(static_cast<std::uint16_t>(peers.slots.size()));
    if (stages.size() > 1) peers.slots.push_back(stages[stage]);
  }
  if (plan.updates.gossip) {
    peers.first_gossip = static_cast<std::uint16_t>(peers.slots.size());
    peers.gossip = plan.updates.gossip->all_neighbours(rank);
    peers.slots.insert(peers.slots.end(), peers.gossip.begin(), peers.gossip.end());
  }
  peers.input_slot = static_cast<std::uint16_t>(peers.slots.size());
  if (const Actor loader = plan.input.used() ? plan.input.loader_of_rank[static_cast<std::size_t>(rank)] : -1;
      loader >= 0)
    peers.slots.push_back(loader);
  return peers;
}

Pass pass_of(PipelineTask::Pass pass) {
  switch (pass) {
    case PipelineTask::Pass::forward:
      return Pass::forward;
    case PipelineTask::Pass::backward:
      return Pass::backward;
    case PipelineTask::Pass::backward_input:
      return Pass::backward_input;
    case PipelineTask::Pass::backward_weights:
      return Pass::backward_weights;
  }
  return Pass::forward;
}

TrainingCall call_of(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return TrainingCall::forward;
    case Pass::backward:
      return TrainingCall::backward;
    case Pass::backward_input:
      return TrainingCall::backward_input;
    case Pass::backward_weights:
      return TrainingCall::backward_weights;
  }
  return TrainingCall::forward;
}

}  // namespace

TrainingStep::TrainingStep(int rank, const TrainingPlan& plan, const PassTables& tables, const TrainingStreams& streams,
                           Peers peers)
    : CoroutineProgram(peers.slots, streams.count()),
      plan_(plan),
      tables_(tables),
      streams_(streams),
      words_(tables.words()),
      rank_(rank),
      at_(plan.mesh.of(rank)),
      stage_(plan.stages[static_cast<std::size_t>(at_.pipeline)]),
      peers_(std::move(peers)) {
  buckets_of_layer_.resize(plan.network->layers.size());
  parameters_ready_.resize(plan.network->layers.size());
  for (std::size_t b = 0; b < stage_.buckets.size(); ++b)
    for (const GradientBucket::Part& part : stage_.buckets[b].parts) {
      std::vector<int>& of = buckets_of_layer_[static_cast<std::size_t>(part.layer)];
      if (of.empty() || of.back() != static_cast<int>(b)) of.push_back(static_cast<int>(b));
    }
  bucket_free_.resize(stage_.buckets.size() * static_cast<std::size_t>(plan.updates.delay + 1));
  added_on_host_.resize(stage_.buckets.size());
  delayed_.resize(static_cast<std::size_t>(plan.updates.delay + 1));
  ends_.resize(stage_.chunks.size());
  for (const PipelineTask& task : stage_.tasks) {
    if (task.pass != PipelineTask::Pass::backward && task.pass != PipelineTask::Pass::backward_weights) continue;
    Ends& ends = ends_[static_cast<std::size_t>(task.chunk)];
    if (ends.first < 0) ends.first = task.micro_batch;
    ends.last = task.micro_batch;
  }
  if (plan.zero == ZeroStage::parameters) plan_visits();
}

std::unique_ptr<Program> training_program(int rank, const TrainingPlan& plan, const PassTables& tables,
                                          const TrainingStreams& streams) {
  return std::make_unique<TrainingStep>(rank, plan, tables, streams, peers_of_rank(rank, plan));
}

Ops TrainingStep::run() {
  for (const MemoryPart& part : stage_.memory.parts)
    co_yield holds(part.bytes.value, part.memory_class, words_.setup, TrainingStreams::compute, {});
  if (plan_.values && plan_.offload.parameters == OffloadDevice::cpu) co_yield fill_host();
  for (int number = 0; number < plan_.steps; ++number) {
    out_.begin_sample(static_cast<std::uint32_t>(number));
    co_yield step(number);
    if (plan_.values && plan_.overlap_parameters && shares_out() && plan_.zero != ZeroStage::parameters)
      co_yield gather_all();  // the next step would begin with it
  }
  for (int late = std::max(0, plan_.steps - plan_.updates.delay - 1); plan_.updates.delay > 0 && late < plan_.steps;
       ++late)
    co_yield update_delayed(late);
  co_yield settle();
}

Ops TrainingStep::step(int number) {
  const int delay = plan_.updates.delay;
  if (delay > 0 && number > delay) co_yield update_delayed(number - delay - 1);
  slot_ = number % (delay + 1);
  next_bucket_ = 0;
  visit_ = next_gather_ = opened_ = 0;
  gathered_.assign(plan_.network->layers.size(), 0);
  exchanged_.clear();
  if (plan_.overhead_kernel != 0) {
    Work host;
    host.kernel = plan_.overhead_kernel;
    co_yield work(host, Kind::delay, words_.framework, words_.overhead);
  }
  if (shares_out() && plan_.zero != ZeroStage::parameters && plan_.overlap_parameters) co_yield gather_all();
  for (const PipelineTask& next : stage_.tasks) co_yield task(next);
  if (delay > 0) {
    co_yield leave_gradients();
  } else {
    co_yield finish_gradients();
    co_yield update();
    if (plan_.updates.alone()) co_yield meet_replicas(number);
  }
  if (!plan_.marks_steps) co_return;
  Op& over = out_.fresh(Kind::mark, TrainingStreams::compute);
  over.name = words_.step_over;
  co_yield out_.give_fresh();
}

Ops TrainingStep::task(PipelineTask task) {
  const int virtual_stage =
      plan_.schedule ? plan_.schedule->virtual_stage(at_.pipeline, task.chunk, plan_.pipeline) : 0;
  const std::vector<int>& layers = stage_.chunks[static_cast<std::size_t>(task.chunk)];
  const Pass what = pass_of(task.pass);
  const int count = static_cast<int>(layers.size());
  if (what == Pass::forward) {
    const bool input = virtual_stage == 0 && takes_input();
    if (input) co_yield take_input();
    if (elsewhere(virtual_stage - 1)) co_yield receive(virtual_stage - 1, task.micro_batch, false);
    for (int i = 0; i < count; ++i) co_yield pass(what, layers[static_cast<std::size_t>(i)], task);
    if (input) co_yield release_input();
    if (elsewhere(virtual_stage + 1)) co_yield send(virtual_stage, task.micro_batch, false);
    co_return;
  }
  const bool passes_on = what != Pass::backward_weights;
  if (passes_on && elsewhere(virtual_stage + 1)) co_yield receive(virtual_stage, task.micro_batch, true);
  for (int i = count - 1; i >= 0; --i) co_yield pass(what, layers[static_cast<std::size_t>(i)], task);
  if (passes_on && elsewhere(virtual_stage - 1)) co_yield send(virtual_stage - 1, task.micro_batch, true);
}

/// A layer's kernels, and the exchanges that go on between or beside them.
Ops TrainingStep::pass(Pass pass, int layer, const PipelineTask& task) {
  const int micro_batch = task.micro_batch;
  const Ends& ends = ends_[static_cast<std::size_t>(task.chunk)];
  const bool first = micro_batch == ends.first;
  if (plan_.zero == ZeroStage::parameters) co_yield begin_visit();
  for (const Dep& ready : parameters_ready_[static_cast<std::size_t>(layer)]) wait_for(ready);
  parameters_ready_[static_cast<std::size_t>(layer)].clear();
  const bool last = micro_batch == ends.last;
  const bool makes_gradients = pass == Pass::backward || pass == Pass::backward_weights;
  if (makes_gradients && plan_.offload.used() && plan_.zero == ZeroStage::parameters)
    for (const int bucket : buckets_of_layer_[static_cast<std::size_t>(layer)])  // those of before leave their buffer
      if (const Dep& left = bucket_free_[static_cast<std::size_t>(bucket)]; left.count > 0) wait_for(left);
  const bool leave = makes_gradients && plan_.overlap_gradients && plan_.zero != ZeroStage::parameters &&
                     (last || leaves_each_micro_batch()) && gradients_leave();
  const bool fine = leave && !plan_.values;  // numbers go layer by layer
  if (leave) co_yield open_buckets();
  const PassTable& table = tables_.pass(pass, layer, first || leaves_each_micro_batch(), fine);
  const std::uint16_t buffer = take_buffers(table.listed);
  over_.assign(table.places, {});
  for (const PassItem& item : table.items) {
    for (const std::int16_t place : item.waits_for)
      if (place >= 0) wait_for(over_[static_cast<std::size_t>(place)]);
    if (item.what == PassItem::What::exchange) {
      co_yield settle();
      co_yield exchange(item, layer, micro_batch, pass, buffer);
      over_[static_cast<std::size_t>(item.place)] = out_.after(streams_.recv(item.lane));
      continue;
    }
    while (waiting_ > 2) co_yield meet();
    out_.give(item.op);
    co_yield out_.remake([this](Op& op) { take_waits(op); });
    if (fine) co_yield gradients_after(layer, item.kernel, first, last);
  }
  for (const std::int16_t place : table.left) wait_for(over_[static_cast<std::size_t>(place)]);
  if (plan_.values) {
    co_yield settle();
    co_yield call(call_of(pass), static_cast<std::size_t>(layer), micro_batch, kEndOfPass, buffer);
    if (leave) co_yield gradients_after(layer, 1 << 30, first, last);
  }
  if (plan_.zero == ZeroStage::parameters) co_yield end_visit(layer, pass, first, last);
}

Ops TrainingStep::exchange(const PassItem& item, int layer, int micro_batch, Pass pass, std::uint16_t buffer) {
  const auto at = static_cast<std::size_t>(item.lane);
  if (plan_.values)
    co_yield call(call_of(pass), static_cast<std::size_t>(layer), micro_batch,
                  static_cast<std::uint16_t>(item.exchange), buffer);
  const LaneGroups& lane = plan_.lanes[at];
  const LaneGroup& group = lane.of(rank_);
  if (group.settings.fidelity == Fidelity::modelled && lane.alike) {  // made ready
    Op op = item.op;
    op.stream = streams_.recv(item.lane);
    op.message.tag = static_cast<Tag>(item.lane) << 27 | ++calls_[at] | static_cast<Tag>(group.members.front()) << 32;
    op.deps[0] = out_.after(TrainingStreams::compute);
    co_yield out_.give(op);
    co_return;
  }
  const auto own = static_cast<std::uint16_t>(buffer + 2 * item.exchange);
  // What is handed to the next rank leaves from a buffer of its own, and so does what comes from the one before.
  const bool shift = item.operation == Operation::send_recv;
  const auto input = static_cast<std::uint16_t>(own + 1);
  Ops all = collective(item.lane, item.operation, item.bytes, item.op.name, shift ? input : own, input,
                       out_.after(TrainingStreams::compute));
  co_yield all;
  if (!shift || !plan_.values) co_return;
  Op& op = out_.fresh(Kind::mark, streams_.recv(item.lane));
  op.name = words_.call;
  op.effect.action = Action::copy;
  op.effect.read = {input, 0, 1};
  op.effect.write = {own, 0, 1};
  co_yield out_.give_fresh();
}

/// Nothing is left that the next operation would have to wait for besides the one before.
Ops TrainingStep::settle() {
  while (waiting_ > 0) co_yield meet();
}

const Op& TrainingStep::meet() {
  Op& op = out_.fresh(Kind::mark, TrainingStreams::compute);
  op.name = words_.meet;
  take_waits(op);
  return out_.give_fresh();
}

void TrainingStep::take_waits(Op& op) {
  for (Dep& dep : op.deps)
    if (waiting_ > 0) dep = pending_[static_cast<std::size_t>(--waiting_)];
}

const Op& TrainingStep::call(TrainingCall what, std::size_t index, int micro_batch, std::uint16_t which,
                             std::uint16_t buffer) {
  Op& op = out_.fresh(Kind::mark, TrainingStreams::compute);
  op.name = words_.call;
  op.effect.action = Action::call;
  op.effect.call = static_cast<std::uint16_t>(what);
  op.effect.read = {static_cast<std::uint16_t>(index), static_cast<std::uint16_t>(micro_batch), 0, which};
  op.effect.write = {buffer, 0, 0};
  take_waits(op);
  return out_.give_fresh();
}

const Op& TrainingStep::call_on(Stream stream, Dep after, TrainingCall what, std::size_t index) {
  Op& op = out_.fresh(Kind::mark, stream);
  op.name = words_.call;
  op.effect.action = Action::call;
  op.effect.call = static_cast<std::uint16_t>(what);
  op.effect.read = {static_cast<std::uint16_t>(index), 0, 0};
  op.deps[0] = after;
  return out_.give_fresh();
}

const Op& TrainingStep::work(const Work& work, Kind kind, GroupId group, NameId name) {
  Op& op = out_.fresh(kind, TrainingStreams::compute);
  op.work = work;
  op.group = group;
  op.name = name;
  take_waits(op);
  return out_.give_fresh();
}

const Op& TrainingStep::holds(double bytes, MemoryClass memory_class, NameId name, Stream stream, Dep after) {
  Op& op = out_.fresh(Kind::mark, stream);
  op.name = name;
  op.memory.change = bytes;
  op.set_memory_class(static_cast<std::uint8_t>(memory_class));
  op.deps[0] = after;
  return out_.give_fresh();
}

/// Buffers of so many exchanges: two each, in turn.
std::uint16_t TrainingStep::take_buffers(int exchanges) {
  if (next_buffer_ + 2 * exchanges > kExchangeBuffers) next_buffer_ = 0;
  const auto first = static_cast<std::uint16_t>(kExchanges + next_buffer_);
  next_buffer_ = static_cast<std::uint16_t>(next_buffer_ + 2 * exchanges);
  return first;
}

}  // namespace trainyard
