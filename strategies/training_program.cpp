#include "strategies/training_program.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.hpp"
#include "strategies/training_step.hpp"

namespace trainyard {
namespace {

constexpr Operation kUsed[] = {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                               Operation::all_to_all, Operation::send_recv};

// Tags of messages between stages; those of collectives count from 1 in their lane.
constexpr Tag kStageMessages = Tag{31} << 27;

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

TrainingStreams::TrainingStreams(const TrainingPlan& plan) {
  names_ = {"compute", "send", "receive", "coordinator"};
  const LaneGroups& gradients = plan.lane(Lane::gradients);
  const Collective* algorithm = gradients.algorithm[static_cast<std::size_t>(Operation::all_reduce)];
  int channels = 1;
  if (gradients.used() && algorithm) {
    const LaneGroup& group = gradients.groups.front();
    channels = algorithm->channels_of({0, static_cast<int>(group.members.size()), &group.settings});
    for (int channel = 1; channel < channels; ++channel)
      for (const char* half : {"send", "receive"}) names_.push_back(fmt::format("{} of channel {}", half, channel));
  }
  for (int slot = 1; slot <= plan.updates.delay; ++slot) {
    delayed_.push_back(static_cast<Stream>(std::min<std::size_t>(names_.size(), 255)));
    for (int channel = 0; channel < channels; ++channel)
      for (const char* half : {"send", "receive"})
        names_.push_back(fmt::format("{} {} steps later, channel {}", half, slot, channel));
  }
  const auto add = [this](const std::string& name) {
    const auto first = static_cast<Stream>(names_.size());
    names_.push_back("send " + name);
    names_.push_back("receive " + name);
    return first;
  };
  lanes_[static_cast<std::size_t>(Lane::gradients)] = 1;
  for (int i = 0; i < kLanes; ++i)
    if (static_cast<Lane>(i) != Lane::gradients && plan.lanes[static_cast<std::size_t>(i)].used())
      lanes_[static_cast<std::size_t>(i)] = add(name_of(static_cast<Lane>(i)));
  if (plan.pipeline.stages > 1) {
    pipeline_ = add("activations");
    add("gradients of activations");
  }
  if (plan.offload.used()) {
    host_ = static_cast<Stream>(names_.size());
    for (int way = 0; way < kHostWays; ++way) names_.emplace_back(name_of(static_cast<HostWay>(way)));
  }
  if (plan.input.used()) {
    input_ = static_cast<Stream>(names_.size());
    names_.emplace_back("receive input");
    if (plan.input.asks) names_.emplace_back("ask for input");
  }
  if (plan.updates.gossip) {
    const int room = kMaxStreams - static_cast<int>(names_.size());
    gossip_ = static_cast<Stream>(names_.size());
    gossip_ways_ = std::clamp(plan.updates.gossip->most_neighbours(), 1, std::max(1, room));
    for (int way = 0; way < gossip_ways_; ++way) names_.push_back(fmt::format("send to neighbour {}", way));
  }
  if (names_.size() > kMaxStreams)
    throw UserError(
        fmt::format("the plan needs {} streams a rank, at most {}: fewer channels", names_.size(), kMaxStreams));
}

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

/// Does a neighbour in the network lie on another stage?
bool TrainingStep::elsewhere(int virtual_stage) const {
  if (virtual_stage < 0 || virtual_stage >= plan_.virtual_stages() || plan_.pipeline.stages == 1) return false;
  return plan_.schedule->place_of(virtual_stage, plan_.pipeline).stage != at_.pipeline;
}

/// Whose output a virtual stage hands on.
const Layer& TrainingStep::last_layer_of(int virtual_stage) const {
  const PipelinePlace place = plan_.schedule->place_of(virtual_stage, plan_.pipeline);
  const std::vector<int>& layers =
      plan_.stages[static_cast<std::size_t>(place.stage)].chunks[static_cast<std::size_t>(place.chunk)];
  return plan_.network->layers[static_cast<std::size_t>(layers.back())];
}

/// Do tensor ranks send a part each of what all of them have?
bool TrainingStep::sends_parts(int virtual_stage) const {
  return plan_.scatter_gather && plan_.lane(Lane::tensor).used() && !last_layer_of(virtual_stage).output_in_parts;
}

/// Activations of a virtual stage come in, or (back) the gradients by them.
Ops TrainingStep::receive(int virtual_stage, int micro_batch, bool back) {
  const bool parts = sends_parts(virtual_stage);
  const int from = plan_.schedule->place_of(virtual_stage + (back ? 1 : 0), plan_.pipeline).stage;
  const std::uint16_t buffer = activation_buffer(virtual_stage, micro_batch, back, plan_.virtual_stages());
  Op& op = out_.fresh(Kind::recv, streams_.pipeline(back, false));
  op.group = words_.pipeline;
  op.name = words_.pipeline_message[back ? 3 : 1];
  op.message.slot = peers_.stage_slot[static_cast<std::size_t>(from)];
  op.message.tag = kStageMessages | static_cast<Tag>((micro_batch * plan_.virtual_stages() + virtual_stage) * 2 + back);
  if (plan_.values) {
    op.effect.action = Action::copy;
    op.effect.write = {buffer, 0, 1};
    if (parts)
      op.effect.write = {buffer, static_cast<std::uint16_t>(at_.tensor), static_cast<std::uint16_t>(plan_.mesh.tensor)};
  }
  co_yield out_.give_fresh();
  const Dep received = out_.after(streams_.pipeline(back, false));
  if (!parts) {
    wait_for(received);
    co_return;
  }
  co_yield collective(Lane::tensor, Operation::all_gather, last_layer_of(virtual_stage).output,
                      words_.pipeline_message[back ? 3 : 1], buffer, 0, received);
  wait_for(out_.after(streams_.recv(Lane::tensor)));
}

Ops TrainingStep::send(int virtual_stage, int micro_batch, bool back) {
  co_yield settle();
  const bool parts = sends_parts(virtual_stage);
  const int to = plan_.schedule->place_of(virtual_stage + (back ? 0 : 1), plan_.pipeline).stage;
  const Stream stream = streams_.pipeline(back, true);
  Op& op = out_.fresh(Kind::send, stream);
  op.group = words_.pipeline;
  op.name = words_.pipeline_message[back ? 2 : 0];
  op.message.bytes = last_layer_of(virtual_stage).output / (parts ? plan_.mesh.tensor : 1);
  op.message.slot = peers_.stage_slot[static_cast<std::size_t>(to)];
  op.message.tag = kStageMessages | static_cast<Tag>((micro_batch * plan_.virtual_stages() + virtual_stage) * 2 + back);
  // Receives are posted ahead: nobody waits for the receiver, the sender for its message where it does not overlap.
  op.message.mode = plan_.overlap_pipeline ? Mode::eager : Mode::put;
  op.deps[0] = out_.after(TrainingStreams::compute);
  if (plan_.values) {
    const std::uint16_t buffer = activation_buffer(virtual_stage, micro_batch, back, plan_.virtual_stages());
    op.effect.read = {buffer, 0, 1};
    if (parts)
      op.effect.read = {buffer, static_cast<std::uint16_t>(at_.tensor), static_cast<std::uint16_t>(plan_.mesh.tensor)};
  }
  co_yield out_.give_fresh();
  if (!plan_.overlap_pipeline) wait_for(out_.after(stream));
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
  op.book_memory_under(static_cast<std::uint8_t>(memory_class));
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
