#include "strategies/step/data_parallel.hpp"

#include <numeric>

#include "strategies/plan/update_policy.hpp"
#include "strategies/step/compute_phase.hpp"
#include "strategies/step/training_program.hpp"

namespace trainyard {
namespace {

/// The program with what it refers to.
class DataParallelProgram : public Program {
 public:
  DataParallelProgram(int rank, const Network& network, const DataParallelPlan& plan, Names& names)
      : plan_(training_plan(network, plan)),
        tables_(plan_, names),
        streams_(plan_),
        program_(training_program(rank, plan_, tables_, streams_)) {}

  Pull next(Op& op) override { return program_->next(op); }
  Pull next_in_place(const Op*& op, Op& scratch) override { return program_->next_in_place(op, scratch); }
  std::span<const Actor> slots() const override { return program_->slots(); }
  std::span<const GroupFlow* const> group_flows() const override { return program_->group_flows(); }
  int streams() const override { return program_->streams(); }
  std::uint64_t driving() const override { return program_->driving(); }

 private:
  TrainingPlan plan_;
  PassTables tables_;
  TrainingStreams streams_;
  std::unique_ptr<Program> program_;
};

}  // namespace

TrainingGroups training_groups(Names& names, const Collective* all_reduce) {
  TrainingGroups g{};
  g.compute = names.group(kComputeGroup, Role::work);
  g.optimizer = names.group("optimizer", Role::work);
  g.framework = names.group("framework", Role::work);
  g.all_reduce = names.group("all-reduce", Role::collective, all_reduce ? all_reduce->name : "");
  return g;
}

Work bucket_copy_work(const GradientBucket& bucket, const DataParallelPlan& plan) {
  Work copy;
  copy.kernel = static_cast<std::uint16_t>(Kernel::elementwise);
  copy.precision = plan.optimizer.precision;
  copy.bytes = 2 * bucket.elements * plan.gradient_element;
  return copy;
}

TrainingPlan training_plan(const Network& network, const DataParallelPlan& plan) {
  TrainingPlan all;
  all.mesh.data = plan.ranks;
  all.network = &network;
  all.steps = plan.steps;
  all.micro_batches = plan.micro_batches;
  all.pipeline.micro_batches = plan.micro_batches;
  all.overlap_gradients = plan.overlap;
  all.gradient_element = plan.gradient_element;
  all.accumulation = plan.accumulation;
  if (all.accumulation.bytes.value == 0) all.accumulation = gradient_accumulation_work(1, network.precision);
  all.collective_launch = plan.collective_launch;
  all.bucket_copy = plan.bucket_copy;
  all.host_buckets = plan.host_buckets;
  all.copy_kernel = plan.copy_kernel;
  all.overhead_kernel = plan.overhead_kernel;
  all.wait_kernel = plan.wait_kernel;
  all.updates = make_update_policy(plan.updates);
  all.parameter_element = element_size(network.precision);
  all.values = plan.values;
  StagePlan& stage = all.stages.emplace_back();
  std::vector<int>& layers = stage.chunks.emplace_back(network.layers.size());
  std::iota(layers.begin(), layers.end(), 0);
  stage.tasks = one_stage_tasks(plan.micro_batches);
  stage.buckets = plan.buckets;
  stage.optimizer = plan.optimizer;
  stage.memory = plan.memory;
  if (plan.ranks == 1) return all;
  LaneGroups& lane = all.lane(Lane::gradients);
  lane.of_rank.assign(static_cast<std::size_t>(plan.ranks), 0);
  LaneGroup& group = lane.groups.emplace_back();
  group.members.resize(static_cast<std::size_t>(plan.ranks));
  std::iota(group.members.begin(), group.members.end(), 0);
  group.settings = plan.collective;
  lane.algorithm[static_cast<std::size_t>(Operation::all_reduce)] = plan.all_reduce;
  return all;
}

std::unique_ptr<Program> data_parallel_program(int rank, const Network& network, const DataParallelPlan& plan,
                                               Names& names) {
  return std::make_unique<DataParallelProgram>(rank, network, plan, names);
}

}  // namespace trainyard
