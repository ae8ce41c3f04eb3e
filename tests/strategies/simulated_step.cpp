#include "simulated_step.hpp"
#include "sim/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "scenarios/src/planning/offload.hpp"
#include "sim/executor/simulation.hpp"
#include "strategies/step/training_programs.hpp"
#include "strategies/values/reference_training.hpp"
#include "tests/child.hpp"
#include "tests/places.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace trainyard {
namespace {

/// A program in which some operations are broken.
class BrokenProgram : public Program {
 public:
  BrokenProgram(int rank, std::unique_ptr<Program> program, const Names& names, Break change)
      : rank_(rank), program_(std::move(program)), names_(names), change_(std::move(change)) {}
  Pull next(const Op*& op, const Repeat*&) override {
    const Pull pull = reader_.next(op_);
    if (pull == Pull::op && change_) change_(op_, rank_, number_++, names_[op_.name]);
    op = &op_;
    return pull;
  }
  std::span<const Actor> slots() const override { return program_->slots(); }
  std::span<const GroupFlow* const> group_flows() const override { return program_->group_flows(); }
  int streams() const override { return program_->streams(); }
  std::uint64_t driving() const override { return program_->driving(); }

 private:
  int rank_, number_ = 0;
  std::unique_ptr<Program> program_;
  OpReader reader_{*program_};
  Op op_;
  const Names& names_;
  Break change_;
};

/// True if the first and the last layer are on different stages.
bool ends_are_apart(const SplitStep& s) {
  const PipelineShape shape{s.mesh.pipeline, s.micro_batches, s.chunks};
  const bool turns_back =
      pipeline_schedules().find(s.schedule, {}).place_of(shape.stages * shape.chunks - 1, shape).stage == 0;
  return s.mesh.pipeline > 1 && !turns_back;
}

/// Returns the number of copies of the network in a pipeline.
int copies_of(const SplitStep& s) {
  return s.mesh.pipeline * s.chunks > 1 ? pipeline_schedules().find(s.schedule, {}).copies : 1;
}

Network network_of_stages(const TrainingTask&, SplitStep);
std::vector<std::vector<int>> even_parts(const Network&, const SplitStep&);

Network network_of(const TrainingTask& task, const SplitStep& s) {
  if (!s.stage_shardings.empty()) return network_of_stages(task, s);
  if (const MlpShape* shape = std::get_if<MlpShape>(&task.model))
    return mlp_network(*shape, task.micro_batch_size, Precision::fp64, s.sharding);
  TransformerConfig config = std::get<TransformerConfig>(task.model);
  if (ends_are_apart(s)) config.tie_word_embeddings = false;  // the last stage has a copy
  TransformerOptions options;
  options.sharding = s.sharding;
  const auto make = [&] {
    return transformer_network(config, task.micro_batch_size, task.seq_length, Precision::fp64, options);
  };
  Network network = make();
  if (!s.recomputes_some || s.sharding.recompute != Recompute::full) return network;
  options.sharding.recompute = Recompute::none;
  const Network plain = make();
  for (std::size_t layer = 0; layer < network.layers.size(); layer += 2) network.layers[layer] = plain.layers[layer];
  return network;
}

/// Returns the network whose layers have the sharding of their stages.
Network network_of_stages(const TrainingTask& task, SplitStep s) {
  const std::vector<Sharding> shardings = std::exchange(s.stage_shardings, {});
  s.sharding = {};
  Network network = network_of(task, s);
  const std::vector<std::vector<int>> layers = even_parts(network, s);
  for (std::size_t stage = 0; stage < shardings.size(); ++stage) {
    TrainingTask stage_task = task;
    stage_task.micro_batch_size /= s.mesh.widths[stage].data;
    s.sharding = shardings[stage];
    const Network stage_network = network_of(stage_task, s);
    for (const int layer : layers[stage]) network.layers[layer] = stage_network.layers[layer];
  }
  return network;
}

bool is_tied(const TrainingTask& task) {
  const auto* config = std::get_if<TransformerConfig>(&task.model);
  return config && config->tie_word_embeddings;
}

/// Distributes layers, including the first and the last, as evenly as possible.
std::vector<std::vector<int>> even_parts(const Network& network, const SplitStep& s) {
  std::vector<std::vector<int>> parts(static_cast<std::size_t>(s.mesh.pipeline * s.chunks / copies_of(s)));
  const std::size_t layers = network.layers.size();
  for (std::size_t layer = 0; layer < layers; ++layer)
    parts[layer * parts.size() / layers].push_back(static_cast<int>(layer));
  return parts;
}

TrainingPlan plan_of(const TrainingTask& task, const SplitStep& s) {
  const Network network = network_of(task, s);
  TrainingPlan plan;
  static_cast<StepOptions&>(plan) = s;
  plan.mesh.copies = copies_of(s);
  plan.network = std::make_shared<const Network>(network);
  plan.steps = s.steps;
  plan.micro_batches = s.micro_batches;
  plan.pipeline = {s.mesh.pipeline, s.micro_batches, s.chunks, s.pairs_passes};
  if (s.mesh.pipeline * s.chunks > 1)
    plan.schedule = &find_pipeline_schedule(s.schedule, plan.pipeline, test::nowhere());
  plan.tied = tied_over_stages(task, s);
  plan.gradient_element = plan.parameter_element = Bytes{8};
  plan.accumulation = gradient_accumulation_work(1, Precision::fp64);
  plan.values = true;
  plan.offload.optimizer = s.optimizer;
  plan.offload.parameters = s.parameters;
  plan.offload.update = Bytes{40};
  plan.offload.addition = Bytes{24};
  plan.offload.states = Bytes{24};
  if (s.activations_ahead >= 0) {
    plan.offload.activations = {std::vector<char>(network.layers.size(), 1), s.activations_ahead};
    plan.offload.activations.layers.front() = plan.offload.activations.layers.back() = 0;
  }
  divide(plan, even_parts(network, s), {Bytes{s.bucket / 2}, Bytes{s.bucket}, s.whole_tensors});
  for (StagePlan& stage : plan.stages)
    stage.optimizer = optimizer_work(1000, Precision::fp64, find_optimizer("sgd", {}));
  LaneChoice choice;
  for (const Operation o :
       {Operation::all_gather, Operation::reduce_scatter, Operation::all_to_all, Operation::send_recv})
    choice[o] = &default_collective(o);
  choice[Operation::all_reduce] = &collectives(Operation::all_reduce).find(s.all_reduce, test::nowhere());
  make_lanes(plan, std::vector<int>(static_cast<std::size_t>(plan.ranks()), 0), choice, choice, test::nowhere());
  return plan;
}

/// Returns the machine with slow host memory and two slower drives.
ClusterSpec with_host(ClusterSpec spec) {
  spec.node.cpu.memory_bandwidth = BytesPerSecond{1.5e6};
  spec.node.nvme = {2, BytesPerSecond{5e5}, BytesPerSecond{3e5}, {2000000}, 4, Bytes{}};
  return spec;
}

}  // namespace

bool tied_over_stages(const TrainingTask& task, const SplitStep& s) { return is_tied(task) && ends_are_apart(s); }

std::string in_words(const SplitStep& s) {
  return fmt::format(
      "{}, {} micro-batches, {} steps, {}{}, {} x {} chunks, ZeRO {} in groups of {}, prefetch {}, reshard {}{}, "
      "overlap "
      "{}{}{}{}, scatter-gather {}, {}recompute {}{}, buckets of {} ({}), {}, optimizer on {}, parameters on {}, {} "
      "blocks' activations ahead",
      s.mesh.in_words(), s.micro_batches, s.steps, s.sharding.sequence ? "sequence, " : "",
      s.sharding.context_exchange == ContextExchange::ring ? "ring" : "all-to-all", s.schedule, s.chunks,
      static_cast<int>(s.zero), s.zero_group, s.prefetch, s.reshard, s.sync_last ? ", gradients once" : "",
      s.overlap_gradients ? "gradients " : "", s.overlap_parameters ? "parameters " : "",
      s.overlap_copies ? "copies " : "", s.sharding.overlap ? "tensor" : "", s.scatter_gather,
      s.pairs_passes ? "pairs of passes, " : "", static_cast<int>(s.sharding.recompute),
      s.recomputes_some ? " of some blocks" : "", s.bucket, s.whole_tensors ? "whole" : "cut", s.all_reduce,
      name_of(s.optimizer), name_of(s.parameters), s.activations_ahead);
}

StepOutcome simulated_step(const TrainingTask& task, const SplitStep& s, const Break& change,
                           const std::function<void(TrainingValues&)>& prepare) {
  std::string text;
  try {
    text = test::in_child([&] {
      std::signal(SIGABRT, SIG_DFL);  // the default instead of the test runner's handler: a broken step may abort
      StepOutcome out;
      try {
        TrainingPlan plan = plan_of(task, s);
        ClusterMachine machine(with_host(star_cluster(plan.ranks(), BytesPerSecond{1e6}, {1000000})), SoftwareStack{});
        attach_host_ways(plan.offload, plan.ranks(), machine, {});
        Names names;
        const PassTables tables(plan, names);
        const TrainingStreams streams(plan);
        Values values;
        TrainingValues numbers(task, plan, values);
        if (prepare) prepare(numbers);
        Simulation simulation(machine);
        for (int rank = 0; rank < plan.ranks(); ++rank)
          simulation.add(rank, std::make_unique<BrokenProgram>(rank, training_program(rank, plan, tables, streams),
                                                               names, change));
        simulation.observe(values);
        out.seconds = simulation.run().end.value;
        ReferenceTraining reference(task, s.mesh.data * s.micro_batches * task.micro_batch_size, s.steps);
        reference.run();
        const TrainingDifference step_difference = difference(numbers, reference.values());
        out.difference = step_difference.largest();
        out.worst = step_difference.worst;
        out.hazards = static_cast<int>(values.hazards().size());
        if (out.hazards > 0) out.worst += "; " + values.hazards().front();
      } catch (const std::exception& e) {
        out.error = e.what();
      }
      const bool is_finite = out.difference <= 1e300;  // neither infinite nor NaN, which JSON cannot represent
      return nlohmann::json{is_finite ? out.difference : 1e300, out.worst, out.error, out.hazards, out.seconds}.dump();
    });
  } catch (const std::exception& e) {  // checks of Eigen
    return {0, "", e.what(), 0, 0};
  }
  const nlohmann::json j = parse_json(text);
  return {j[0].get<double>(), j[1].get<std::string>(), j[2].get<std::string>(), j[3].get<int>(), j[4].get<double>()};
}

namespace {

std::vector<Op> operations_where(const TrainingTask& task, const SplitStep& s, int rank,
                                 const std::function<bool(const Op&, const std::string& name)>& is_wanted) {
  const TrainingPlan plan = plan_of(task, s);
  Names names;
  const PassTables tables(plan, names);
  const TrainingStreams streams(plan);
  const auto program = training_program(rank, plan, tables, streams);
  std::vector<Op> all;
  OpReader reader(*program);
  for (Op op; reader.next(op) == Pull::op;)
    if (is_wanted(op, names[op.name])) all.push_back(op);
  return all;
}

}  // namespace

std::vector<Op> operations_of(const TrainingTask& task, const SplitStep& s, int rank) {
  return operations_where(task, s, rank, [](const Op&, const std::string&) { return true; });
}

std::vector<Op> receives_of(const TrainingTask& task, const SplitStep& s, int rank, const std::string& name) {
  return operations_where(task, s, rank, [&name](const Op& op, const std::string& op_name) {
    return op.kind == Kind::recv && op_name.ends_with(name);
  });
}

}  // namespace trainyard
