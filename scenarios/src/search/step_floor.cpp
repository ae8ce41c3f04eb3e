#include "scenarios/src/search/step_floor.hpp"

#include <algorithm>
#include <map>

#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

// Relative tolerance: sums have another order than in the simulation, which rounds latencies to picoseconds.
constexpr double kRounding = 1e-9;

/// Times of the collectives among rank 0's replicas on an idle machine, s.
class ReplicaFloor {
 public:
  ReplicaFloor(const Scenario& s, const TrainingPlan& plan, bool experts, Fidelity fidelity) {
    const std::vector<int> members = zero_group(plan, 0, experts);
    // The collectives of several copies count as 0, because pairs of stages lie in different ways.
    if (members.size() < 2 || fidelity != Fidelity::modelled || !s.plan.library || s.plan.compression ||
        s.plan.offload.is_used() || !groups_lie_alike(s) || plan.mesh.copies > 1)
      return;
    CollectiveSettings settings;
    settings.model = s.plan.library;
    std::vector<int> nodes;
    for (const int member : members) nodes.push_back(s.cluster.node_of_gpu(member));
    settings.place(nodes);
    model_ = settings.model;
    spread_ = settings.spread(static_cast<int>(members.size()));
  }

  double operator()(Operation operation, double bytes) {
    if (!model_ || bytes <= 0) return 0;
    const auto [entry, is_new] = times_.try_emplace({operation, bytes}, 0.0);
    if (is_new) {
      const ModelledCost cost = model_->cost(operation, Bytes{bytes}, spread_);
      entry->second = cost.latency.value + (cost.rate.value > 0 ? (cost.wire / cost.rate).value : 0);
    }
    return entry->second;
  }

 private:
  std::shared_ptr<const CollectiveModel> model_;
  NodeSpread spread_;
  std::map<std::pair<Operation, double>, double> times_;
};

/// Computes the earliest end of the tasks of all stages.
class ScheduleFloor {
 public:
  ScheduleFloor(const Scenario& s, const TrainingPlan& plan, const PassFloors& floors)
      : s_(s),
        plan_(plan),
        floors_(floors),
        gradients_{ReplicaFloor(s, plan, false, s.plan.all_reduce.settings.fidelity),
                   ReplicaFloor(s, plan, true, s.plan.all_reduce.settings.fidelity)},
        parameters_{ReplicaFloor(s, plan, false, s.plan.fidelity), ReplicaFloor(s, plan, true, s.plan.fidelity)},
        exchanges_each_micro_batch_(plan.zero >= ZeroStage::gradients && !plan.sync_last) {
    if (!s.software.host.runs_ahead || plan.micro_batch_kernel == 0 || plan.mesh.copies > 1) return;
    double fastest_host = 0;
    for (const NodeType* type : s.cluster.types()) fastest_host = std::max(fastest_host, type->cpu.thread_speed);
    host_of_pass_ = s.software.host.micro_batch.value / fastest_host;
  }

  double seconds() {
    prepare();
    run_tasks();
    double end = 0;
    for (int stage = 0; stage < plan_.mesh.pipeline; ++stage) end = std::max(end, end_of(stage));
    return end * (1 - kRounding);
  }

 private:
  /// The state of a stage that runs its tasks.
  struct StageState {
    std::size_t next = 0;  ///< index of the next task
    double clock = 0;
    double host = 0;  ///< time at which the host has launched all kernels so far
    /// Times at which the layers are gathered, indexed by layer. Empty: nothing is gathered ahead.
    std::vector<double> ready;
    std::vector<int> first, last;  ///< indexed by chunk: micro-batch of the first and of the last backward pass
    /// End of the last backward pass if the host is not late, indexed by chunk.
    std::vector<double> end_of_last_backward;
    std::vector<int> virtual_stage;                           ///< number of the virtual stage, indexed by chunk
    std::vector<std::array<double, 4 * kPasses>> task_times;  ///< each chunk's time of a task; negative: not computed
  };
  const Scenario& s_;
  const TrainingPlan& plan_;
  const PassFloors& floors_;
  std::array<ReplicaFloor, 2> gradients_, parameters_;  // [0]: all layers but experts, [1]: experts
  bool exchanges_each_micro_batch_;                     // gradients are exchanged after each micro-batch
  double host_of_pass_ = 0;                             // s of the host's own work before a pass without a message
  std::vector<StageState> stages_;
  // Ends of passes, indexed by virtual stage and micro-batch; negative: not ended yet.
  std::vector<double> forward_, backward_;

  const StagePlan& stage(int number) const { return plan_.stages[static_cast<std::size_t>(number)]; }
  double& end_at(std::vector<double>& ends, int v, int micro_batch) {
    return ends[static_cast<std::size_t>(v) * static_cast<std::size_t>(plan_.micro_batches) +
                static_cast<std::size_t>(micro_batch)];
  }
  bool shards_parameters() const { return plan_.zero == ZeroStage::parameters; }
  static bool makes_gradients(Pass pass) { return pass == Pass::backward || pass == Pass::backward_weights; }

  double reduce_time(const GradientBucket& bucket) {
    if (bucket.elements == 0) return 0;
    return gradients_[bucket.experts ? 1 : 0](plan_.gradient_operation(),
                                              bucket.elements * plan_.gradient_element.value);
  }
  double gather_time(const GradientBucket& bucket) {
    return parameters_[bucket.experts ? 1 : 0](Operation::all_gather,
                                               bucket.gathered() * plan_.parameter_element.value);
  }

  void prepare() {
    const auto ends = static_cast<std::size_t>(plan_.virtual_stages()) * static_cast<std::size_t>(plan_.micro_batches);
    forward_.assign(ends, -1);
    backward_.assign(ends, -1);
    for (int number = 0; number < plan_.mesh.pipeline; ++number) {
      StageState& state = stages_.emplace_back();
      const std::size_t chunks = stage(number).chunks.size();
      state.clock = state.host = s_.software.step_overhead.value;
      state.first.assign(chunks, -1);
      state.last.assign(chunks, -1);
      state.end_of_last_backward.assign(chunks, 0);
      state.task_times.assign(chunks, {});
      for (auto& times : state.task_times) times.fill(-1);
      for (std::size_t chunk = 0; chunk < chunks; ++chunk)
        state.virtual_stage.push_back(
            plan_.schedule ? plan_.schedule->virtual_stage(number, static_cast<int>(chunk), plan_.pipeline) : 0);
      for (const PipelineTask& task : stage(number).tasks) {
        if (!makes_gradients(task.pass)) continue;
        int& first = state.first[static_cast<std::size_t>(task.chunk)];
        if (first < 0) first = task.micro_batch;
        state.last[static_cast<std::size_t>(task.chunk)] = task.micro_batch;
      }
      gather_ahead(number, state);
    }
  }

  /// Gathers parameters before the first task. ZeRO stages 1 and 2 gather bucket by bucket, those of the first layers
  /// first. Stage 3 gathers the parameters of the first layer.
  void gather_ahead(int number, StageState& state) {
    const StagePlan& plan_of_stage = stage(number);
    if (shards_parameters()) {
      const std::vector<int>& first = plan_of_stage.chunks[static_cast<std::size_t>(plan_of_stage.tasks.front().chunk)];
      state.clock += layer_gather(plan_of_stage, first.front());
      return;
    }
    if (plan_.zero == ZeroStage::none || !plan_.overlap_parameters) return;
    state.ready.assign(plan_.network->layers.size(), 0);
    std::array<double, 2> lanes{state.clock, state.clock};
    for (std::size_t b = plan_of_stage.buckets.size(); b-- > 0;) {
      const GradientBucket& bucket = plan_of_stage.buckets[b];
      double& lane = lanes[bucket.experts ? 1 : 0];
      lane += gather_time(bucket);
      for (const GradientBucket::Part& part : bucket.parts)
        state.ready[static_cast<std::size_t>(part.layer)] =
            std::max(state.ready[static_cast<std::size_t>(part.layer)], lane);
    }
  }

  void run_tasks() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (int number = 0; number < plan_.mesh.pipeline; ++number)
        while (run_next(number)) has_moved = true;
    }
  }

  /// Runs the next task of a stage. Returns false if there is none, or if its dependency has not ended.
  bool run_next(int number) {
    StageState& state = stages_[static_cast<std::size_t>(number)];
    const StagePlan& plan_of_stage = stage(number);
    if (state.next == plan_of_stage.tasks.size()) return false;
    const PipelineTask& task = plan_of_stage.tasks[state.next];
    const int v = state.virtual_stage[static_cast<std::size_t>(task.chunk)];
    double begin = state.clock;
    if (task.pass == Pass::forward && !plan_.begins_network(v)) {
      const double previous_end = end_at(forward_, v - 1, task.micro_batch);
      if (previous_end < 0) return false;
      begin = std::max(begin, previous_end);
    }
    if ((task.pass == Pass::backward || task.pass == Pass::backward_input) && !plan_.ends_network(v)) {
      const double next_end = end_at(backward_, v + 1, task.micro_batch);
      if (next_end < 0) return false;
      begin = std::max(begin, next_end);
    }
    const double end_of_kernels = end_of_task(state, plan_of_stage, task, begin);
    state.clock = end_of_kernels;
    launch(number, v, task, begin);
    if (task.pass == Pass::forward) end_at(forward_, v, task.micro_batch) = state.clock;
    if (task.pass == Pass::backward || task.pass == Pass::backward_input)
      end_at(backward_, v, task.micro_batch) = state.clock;
    if (makes_gradients(task.pass)) state.end_of_last_backward[static_cast<std::size_t>(task.chunk)] = end_of_kernels;
    ++state.next;
    return true;
  }

  /// Lets the host launch the kernels of a task, the last of which ends no earlier. If passes alternate, the host may
  /// launch kernels of the next task before. If passes wait for exchanges of gradients, which `end_of_exchanges` adds up,
  /// the host launches meanwhile.
  void launch(int number, int v, const PipelineTask& task, double begin) {
    StageState& state = stages_[static_cast<std::size_t>(number)];
    const bool alternates = plan_.pipeline.pairs_passes || plan_.mesh.copies > 1;
    if (!receives(number, v, task.pass))
      state.host += host_of_pass_;
    else if (plan_.kernel_after_message != 0 && s_.software.host.runs_ahead && !alternates)
      state.host = std::max(state.host, begin);
    for (const int layer : stage(number).chunks[static_cast<std::size_t>(task.chunk)])
      state.host += floors_.host(task.pass, layer);
    const bool waits_for_exchanges = plan_.zero == ZeroStage::gradients && !plan_.overlap_gradients;
    if (!alternates && !waits_for_exchanges) state.clock = std::max(state.clock, state.host);
  }

  /// Returns true if a pass waits for a message of another rank.
  bool receives(int number, int v, Pass pass) const {
    const int from = pass == Pass::forward ? v - 1 : v + 1;
    return pass != Pass::backward_weights && plan_.pipeline.stages > 1 && from >= 0 && from < plan_.virtual_stages() &&
           plan_.place_of(from).stage != number;
  }

  double end_of_task(StageState& state, const StagePlan& plan_of_stage, const PipelineTask& task, double begin) {
    const auto chunk = static_cast<std::size_t>(task.chunk);
    if (!state.ready.empty() && task.pass == Pass::forward && task.micro_batch == 0) {
      for (const int layer : plan_of_stage.chunks[chunk])
        begin = std::max(begin, state.ready[static_cast<std::size_t>(layer)]) + floors_.seconds(task.pass, layer, true);
      return begin;
    }
    const bool first = exchanges_each_micro_batch_ || task.micro_batch == state.first[chunk],
               last = shards_parameters() && task.micro_batch == state.last[chunk];
    double& time = state.task_times[chunk][4 * static_cast<std::size_t>(task.pass) + (first ? 2 : 0) + (last ? 1 : 0)];
    if (time < 0) time = task_time(plan_of_stage, task, first, last);
    return begin + time;
  }

  double task_time(const StagePlan& plan_of_stage, const PipelineTask& task, bool first, bool last) {
    std::vector<int> layers = plan_of_stage.chunks[static_cast<std::size_t>(task.chunk)];
    if (task.pass != Pass::forward) std::ranges::reverse(layers);
    if (shards_parameters()) return sharded_task_time(plan_of_stage, layers, task.pass, first, last);
    double sum = 0;
    for (const int layer : layers) sum += floors_.seconds(task.pass, layer, first);
    return sum;
  }

  double layer_gather(const StagePlan& plan_of_stage, int layer) {
    if (layer == 0 && plan_.network->layers.back().tied_elements > 0)
      return 0;  // the head may have gathered it already
    double longest = 0;
    for (const GradientBucket& bucket : plan_of_stage.buckets)
      if (bucket.layer == layer) longest = std::max(longest, gather_time(bucket));
    return longest;
  }
  double layer_exchange(const StagePlan& plan_of_stage, int layer) {
    double longest = 0;
    for (const GradientBucket& bucket : plan_of_stage.buckets)
      if (bucket.layer == layer) longest = std::max(longest, reduce_time(bucket));
    return longest;
  }

  /// Returns the time of a task at ZeRO stage 3: passes with gathers before them and gradient exchanges after them.
  double sharded_task_time(const StagePlan& plan_of_stage, const std::vector<int>& layers, Pass pass, bool first,
                           bool last) {
    const bool gathers = plan_.reshard && pass != Pass::backward_weights;
    const bool exchanges = makes_gradients(pass) && (!plan_.sync_last || last);
    const auto ahead = static_cast<std::size_t>(std::max(plan_.prefetch, 0));
    std::vector<double> ready(layers.size(), 0);
    double clock = 0, lane = 0, exchange_end = 0, begin = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (gathers && i > 0 && i + ahead < layers.size()) {
        // The gather begins after the kernels of the previous pass, but need not wait for that pass's exchanges, so the
        // bound lets it begin together with that pass. Gathers that the first pass posts take no time here, because
        // they may overlap with the message that the task waits for.
        lane = std::max(lane, begin) + layer_gather(plan_of_stage, layers[i + ahead]);
        ready[i + ahead] = lane;
      }
      begin = std::max(clock, ready[i]);
      clock = begin + floors_.seconds(pass, layers[i], first);
      if (!exchanges) continue;
      clock = std::max(clock, exchange_end);  // the previous exchange has ended
      exchange_end = clock + layer_exchange(plan_of_stage, layers[i]);
    }
    return clock;
  }

  /// Returns the end of a stage. After all tasks come the remaining gradient exchanges, the optimizer, and the gathers
  /// before the next step.
  double end_of(int number) {
    const StagePlan& plan_of_stage = stage(number);
    StageState& state = stages_[static_cast<std::size_t>(number)];
    double end = std::max(state.clock, state.host);
    if (shards_parameters()) {
      const std::vector<int>& chunk = plan_of_stage.chunks[static_cast<std::size_t>(plan_of_stage.tasks.back().chunk)];
      if (makes_gradients(plan_of_stage.tasks.back().pass)) end += layer_exchange(plan_of_stage, chunk.front());
    } else {
      for (const bool experts : {false, true}) end = std::max(end, end_of_exchanges(plan_of_stage, state, experts));
    }
    if (s_.plan.offload.is_used()) return end;
    double update = 0;
    for (const NodeType* type : s_.cluster.types()) {
      const double time = rank_time(*type, s_.software, plan_of_stage.optimizer).value;
      update = update > 0 ? std::min(update, time) : time;
    }
    end += update;
    if (plan_.zero == ZeroStage::none || shards_parameters() || plan_.overlap_parameters) return end;
    std::array<double, 2> lanes{};
    for (const GradientBucket& bucket : plan_of_stage.buckets) lanes[bucket.experts ? 1 : 0] += gather_time(bucket);
    return end + std::max(lanes[0], lanes[1]);
  }

  /// Returns the end of the gradient exchanges. Buckets are sent in order.
  double end_of_exchanges(const StagePlan& plan_of_stage, const StageState& state, bool experts) {
    double lane = 0;
    if (plan_.zero == ZeroStage::gradients && !plan_.overlap_gradients) {  // the backward pass waits for each bucket
      for (const GradientBucket& bucket : plan_of_stage.buckets)
        if (bucket.experts == experts) lane += reduce_time(bucket) * plan_.micro_batches;
      return state.clock + lane;
    }
    // Buckets that follow the last backward pass are sent only once.
    if (exchanges_each_micro_batch_ && plan_.overlap_gradients)
      for (const GradientBucket& bucket : plan_of_stage.buckets)
        if (bucket.experts == experts && !bucket.late) lane += reduce_time(bucket) * (plan_.micro_batches - 1);
    for (const GradientBucket& bucket : plan_of_stage.buckets)
      if (bucket.experts == experts && !bucket.late && plan_.overlap_gradients)
        lane = std::max(lane, earliest_exchange(plan_of_stage, state, bucket)) + reduce_time(bucket);
    for (const GradientBucket& bucket : plan_of_stage.buckets)
      if (bucket.experts == experts && (bucket.late || !plan_.overlap_gradients))
        lane = std::max(lane, state.clock) + reduce_time(bucket);
    return lane;
  }

  /// Returns the earliest begin of the last backward pass of the layer that completes the bucket.
  double earliest_exchange(const StagePlan& plan_of_stage, const StageState& state,
                           const GradientBucket& bucket) const {
    for (std::size_t chunk = 0; chunk < plan_of_stage.chunks.size(); ++chunk) {
      const std::vector<int>& layers = plan_of_stage.chunks[chunk];
      if (std::ranges::find(layers, bucket.layer) == layers.end()) continue;
      // Time of the backward pass from that layer to the end of the chunk. A pass for weights alone takes less.
      double rest = 0;
      for (const int layer : layers)
        if (layer <= bucket.layer)
          rest += floors_.seconds(Pass::backward, layer, exchanges_each_micro_batch_ || plan_.micro_batches == 1);
      return std::max(0.0, state.end_of_last_backward[chunk] - rest);
    }
    return 0;
  }
};

bool one_divides(int a, int b) { return a % b == 0 || b % a == 0; }

}  // namespace

bool groups_lie_alike(const Scenario& s) {
  const Mesh& mesh = s.plan.mesh;
  const int gpus = s.cluster.node.gpus;
  if (!s.cluster.others.empty() || mesh.order != Mesh{}.order || !one_divides(gpus, mesh.tensor)) return false;
  const int block = mesh.tensor * mesh.context * mesh.data;
  const int shared = mesh.tensor * std::max(1, s.plan.zero_group);
  return one_divides(gpus, mesh.tensor * mesh.context) && one_divides(gpus, block) && one_divides(gpus, shared) &&
         one_divides(gpus, std::max(mesh.expert_tensor, 1)) &&
         one_divides(gpus, (mesh.expert_tensor > 0 ? mesh.expert_tensor : mesh.tensor) * mesh.expert);
}

double step_floor(const Scenario& s, const TrainingPlan& plan, const PassFloors& floors) {
  return ScheduleFloor(s, plan, floors).seconds();
}

}  // namespace trainyard
