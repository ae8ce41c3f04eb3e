#include "strategies/step/training_programs.hpp"

#include <algorithm>
#include <bit>

#include "sim/hashing.hpp"
#include "strategies/plan/input_plan.hpp"
#include "strategies/plan/update_policy.hpp"
#include "strategies/step/host_offload.hpp"
#include "strategies/step/lane_collectives.hpp"
#include "strategies/step/layer_passes.hpp"
#include "strategies/step/pipeline_messages.hpp"
#include "strategies/step/rank_peers.hpp"
#include "strategies/step/rank_updates.hpp"

namespace trainyard {
namespace {

/// Incoming samples: the first stage waits for each micro-batch before its forward pass, and holds some ahead.
class InputBatches {
 public:
  explicit InputBatches(StepContext& step) : step_(step) {}

  bool is_used() const { return step_.plan.input.is_used() && step_.plan.input.loader_of_rank[step_.rank] >= 0; }
  /// Posts receives ahead, as far as there are buffers on the GPU: a receive waits until the batch that last used its
  /// buffer is consumed. The next kernel waits for the current batch.
  Ops take() {
    if (step_.plan.input.asks && step_.place.tensor == 0) {
      while (step_.waits.has_any()) co_yield step_.take_waits();
      co_yield ask();
    }
    const int all = step_.plan.steps * step_.plan.micro_batches;
    for (; posted_ < std::min(all, taken_ + 1 + step_.plan.input.ahead); ++posted_) co_yield receive();
    ++taken_;
    step_.waits.add({static_cast<std::uint32_t>(taken_), step_.streams.input()});
  }
  /// Frees the buffer of a batch after its forward pass through this stage.
  const Op& release() {
    const Op& op =
        step_.change_memory(-step_.plan.input.batch_bytes.value, MemoryClass::buffers, step_.words.receive_input);
    released_ = step_.out.last_operation(TrainingStreams::compute);
    return op;
  }

 private:
  StepContext& step_;
  int posted_ = 0, taken_ = 0;  // numbers of micro-batches
  Dep released_;                // end of the last batch that was consumed

  const Op& ask() {
    Op& op = step_.out.begin(Kind::send, step_.streams.input_request(), step_.words.ask_input, step_.words.input,
                             step_.out.last_operation(TrainingStreams::compute));
    op.address(step_.peers.input_slot, kInputMessages, Mode::eager);
    return step_.out.emit();
  }
  const Op& receive() {
    Op& op = step_.out.begin(Kind::recv, step_.streams.input(), step_.words.receive_input, step_.words.input);
    op.address(step_.peers.input_slot, kInputMessages);
    op.book_memory(step_.plan.input.batch_bytes.value, MemoryClass::buffers);
    op.deps[0] = released_;
    return step_.out.emit();
  }
};

/// One rank's training steps. They depend on the rank's place in the mesh; its number serves only to find its peers.
class TrainingStep : public CoroutineProgram {
 public:
  TrainingStep(int rank, const TrainingPlan& plan, const PassTables& tables, const TrainingStreams& streams,
               RankPeers peers, const PassSeries* series)
      : CoroutineProgram(peers.slots, streams.count()),
        plan_(plan),
        policy_(update_policy_of(plan)),
        peers_(std::move(peers)),
        step_(rank, plan, tables, streams, peers_),
        collectives_(step_),
        offload_(step_),
        gradients_(step_, collectives_, offload_),
        parameters_(step_, collectives_, offload_),
        series_(series),
        passes_(step_, collectives_, gradients_, parameters_, offload_, series),
        messages_(step_, collectives_),
        input_(step_),
        updates_(policy_.of_rank({step_, collectives_, gradients_, parameters_})) {}

  std::span<const GroupFlow* const> group_flows() const override { return peers_.flows; }
  const Series& series(Tag number) const override { return series_->series(number); }
  /// Operations that run beside a kernel are yielded before it.
  std::uint64_t driving() const override { return 1; }

 protected:
  Ops run() override {
    for (const MemoryPart& part : step_.stage.memory.parts)
      co_yield step_.change_memory(part.bytes.value, part.memory_class, step_.words.setup);
    if (plan_.values && plan_.offload.parameters == OffloadDevice::cpu) co_yield offload_.fill_host();
    if (!plan_.flushes)
      for (int i = 0; i < passes_ahead(plan_, step_.place.pipeline); ++i) co_yield next_forward();
    for (int number = 0; number < plan_.steps; ++number) {
      step_.out.begin_sample(static_cast<std::uint32_t>(number));
      co_yield step(number);
      // The next step would begin with this gather.
      if (plan_.values && parameters_.gathers_ahead()) co_yield parameters_.gather_all();
    }
    co_yield updates_->after_training();
    while (step_.waits.has_any()) co_yield step_.take_waits();
  }

 private:
  const TrainingPlan& plan_;
  const UpdatePolicy& policy_;
  const RankPeers peers_;
  StepContext step_;
  LaneCollectives collectives_;
  HostOffload offload_;
  GradientExchange gradients_;
  ParameterGathers parameters_;
  const PassSeries* const series_;
  LayerPasses passes_;
  PipelineMessages messages_;
  InputBatches input_;
  std::unique_ptr<RankUpdates> updates_;
  int forwards_ = 0;  // number of forward passes so far, without a flush

  Ops step(int number) {
    co_yield updates_->before_step(number);
    if (!step_.stage.freed_gradients.empty()) co_yield free_gradients();
    gradients_.begin_step(number, policy_.sums_gradients(number), updates_->gradient_set(number));
    parameters_.begin_step();
    if (plan_.overhead_kernel != 0) {
      Work host;
      host.kernel = plan_.overhead_kernel;
      co_yield step_.work(host, Kind::delay, step_.words.framework, step_.words.overhead);
    }
    if (parameters_.gathers_ahead()) co_yield parameters_.gather_all();
    const std::vector<PipelineTask>& tasks = step_.stage.tasks;
    for (int i = 0; i < plan_.micro_batches && !plan_.flushes; ++i) {
      co_yield next_forward();
      const PipelineTask task{Pass::backward, i, 0};
      co_yield backward(task);
    }
    for (auto task = tasks.begin(); task != tasks.end() && plan_.flushes; ++task) {
      if (task->beside_next) {
        Ops ahead = forward(*task), back = backward(*++task);
        co_yield passes_.in_turn(std::move(back), std::move(ahead));
      } else if (task->pass == Pass::forward) {
        co_yield forward(*task);
      } else {
        co_yield backward(*task);
      }
    }
    co_yield messages_.sum_tied();
    co_yield updates_->after_backward(number);
    if (!plan_.marks_steps) co_return;
    // A step ends when its gathers have ended too. The next step's first operation would wait for them.
    while (step_.waits.exceed_one_op()) co_yield step_.take_waits();
    step_.waits.take_into(step_.out.begin(Kind::mark, TrainingStreams::compute, step_.words.step_over));
    co_yield step_.out.emit();
  }

  const Op& free_gradients() {
    Bytes sum;
    for (const Bytes layer : step_.stage.freed_gradients) sum += layer;
    return step_.change_memory(-sum.value, MemoryClass::gradients, step_.words.gradients);
  }

  /// The forward pass of the next micro-batch of any step, without a flush.
  Ops next_forward() {
    if (forwards_ >= plan_.steps * plan_.micro_batches) co_return;
    const PipelineTask task{Pass::forward, forwards_++ % plan_.micro_batches, 0};
    co_yield forward(task);
  }

  /// The forward pass of a micro-batch through the layers of a model chunk.
  Ops forward(const PipelineTask& task) {
    const int stage = virtual_stage(task);
    const bool input = stage == 0 && input_.is_used();
    if (input) co_yield input_.take();
    const bool receives = messages_.is_on_other_rank(stage - 1), sends = messages_.is_on_other_rank(stage + 1);
    if (receives) co_yield messages_.receive(stage - 1, task.micro_batch, false);
    co_yield host_work(receives);
    co_yield passes_.chunk(task, sends);
    if (input) co_yield input_.release();
    if (sends) co_yield messages_.send(stage, task.micro_batch, false);
  }

  /// A backward pass. Input gradients go to the stage before; a pass of weight gradients alone sends nothing.
  Ops backward(const PipelineTask& task) {
    const int stage = virtual_stage(task);
    const bool by_input = task.pass != Pass::backward_weights;
    const bool receives = by_input && messages_.is_on_other_rank(stage + 1);
    if (receives) co_yield messages_.receive(stage, task.micro_batch, true);
    co_yield host_work(receives);
    const bool sends = by_input && messages_.is_on_other_rank(stage - 1);
    co_yield passes_.chunk(task, sends);
    if (sends) co_yield messages_.send(stage - 1, task.micro_batch, true);
  }

  /// Runs the host's work before a pass: the work after a message if the pass has received one, otherwise the work of a
  /// micro-batch.
  Ops host_work(bool received) {
    Work host;
    host.kernel = received ? plan_.kernel_after_message : plan_.micro_batch_kernel;
    if (host.kernel == 0) co_return;
    while (step_.waits.exceed_one_op()) co_yield step_.take_waits();
    co_yield step_.work(host, Kind::delay, step_.words.framework, step_.words.overhead);
  }

  int virtual_stage(const PipelineTask& task) const {
    return plan_.schedule ? plan_.schedule->virtual_stage(step_.place.pipeline, task.chunk, plan_.pipeline) : 0;
  }
};

}  // namespace

std::unique_ptr<Program> training_program(int rank, const TrainingPlan& plan, const PassTables& tables,
                                          const TrainingStreams& streams, const PassSeries* series) {
  return std::make_unique<TrainingStep>(rank, plan, tables, streams, RankPeers(rank, plan), series);
}

TrainingPrograms::TrainingPrograms(const TrainingPlan& plan, Names& names)
    : plan_(plan), tables_(plan, names), streams_(plan), series_(plan, tables_, streams_) {}

std::unique_ptr<Program> TrainingPrograms::program(Actor rank) const {
  return training_program(rank, plan_, tables_, streams_, &series_);
}

/// Returns the fingerprint of a rank's stage, policy and load.
std::uint64_t TrainingPrograms::own_work(Actor rank) const {
  const std::uint64_t text = hash_numbers(
      {static_cast<std::uint64_t>(plan_.mesh.coordinates(rank).pipeline), update_policy_of(plan_).text(rank)});
  const int load = plan_.load_number(rank);
  return load > 0 ? hash_numbers({text, static_cast<std::uint64_t>(load)}) : text;
}

std::uint64_t TrainingPrograms::content(Actor rank) const {
  std::uint64_t text = own_work(rank);
  for (const LaneGroups& groups : plan_.lanes)
    if (groups.is_used() && groups.of_rank[rank] >= 0)
      text = hash_numbers(
          {text, groups.group(rank).members.size(), static_cast<std::uint64_t>(groups.kinds[groups.of_rank[rank]])});
    else
      text = hash_numbers({text, 0});
  return text;
}

/// A rank's program is determined by its stage, its load, and its roles in the collectives of its groups.
ActorOutline TrainingPrograms::outline(Actor rank) const {
  const RankPeers peers(rank, plan_);
  ActorOutline outline;
  outline.text = own_work(rank);
  outline.slots = peers.slots;
  for (std::size_t i = 0; i < kLanes; ++i) {
    const RankPeers::LanePeers& lane = peers.lanes[i];
    outline.text = hash_numbers({outline.text, lane.group ? 1U : 0U});
    if (!lane.group) continue;
    const LaneGroups& groups = plan_.lanes[i];
    const LaneGroup& group = *lane.group;
    outline.text = hash_numbers(
        {outline.text, group.members.size(), static_cast<std::uint64_t>(groups.kinds[groups.of_rank[rank]])});
    const Fidelity fidelity = group.settings.fidelity;
    if (fidelity != Fidelity::messages)
      outline.joins.push_back(
          {group_of_join(static_cast<Lane>(i), group.members.front()), peers.flows[i], static_cast<std::uint16_t>(i)});
    if (fidelity == Fidelity::modelled) continue;
    const GroupPlace place{lane.index, static_cast<int>(group.members.size()), &group.settings};
    for (const Collective* algorithm : groups.algorithm)
      if (algorithm) outline.text = hash_numbers({outline.text, role_of(*algorithm, place)});
    if (group.settings.loads.empty()) continue;
    for (const int peer : lane.collectives[static_cast<std::size_t>(Operation::all_to_all)].peers)
      for (const double load :
           {group.settings.load_between(lane.index, peer), group.settings.load_between(peer, lane.index)})
        outline.text = hash_numbers({outline.text, std::bit_cast<std::uint64_t>(load)});
  }
  const auto add_messages = [&outline](const RankPeers::StagePeers& stage) {
    for (const std::vector<StageMessage>* messages : {&stage.sends, &stage.takes})
      for (const StageMessage& m : *messages)
        outline.text = hash_numbers({outline.text, m.slot, m.part.chunk, m.part.chunks, m.part.count});
  };
  if (!plan_.mesh.widths.empty()) {
    for (const RankPeers::StagePeers& stage : peers.stages) add_messages(stage);
    add_messages(peers.tied);
  }
  for (std::size_t way = 0; way < kHostWays && !plan_.offload.ways.empty(); ++way)
    outline.joins.push_back({group_of_transfer(static_cast<HostTransfer>(way), rank), peers.flows[kLanes + way],
                             static_cast<std::uint16_t>(kLanes + way)});
  return outline;
}

Programs TrainingPrograms::programs() const {
  Programs programs;
  for (int rank = 0; rank < plan_.ranks(); ++rank) programs.push_back(program(rank));
  return programs;
}

}  // namespace trainyard
