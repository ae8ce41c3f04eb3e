#include "strategies/plan/training_plan.hpp"

#include <algorithm>
#include <functional>
#include <queue>

#include "sim/index.hpp"

namespace trainyard {
namespace {

/// Marks buckets whose weight also lies on another stage: they wait for that stage's gradient.
void mark_tied(const TrainingPlan& plan, int stage, std::vector<GradientBucket>& buckets) {
  if (!plan.tied) return;
  const int last = static_cast<int>(plan.network->layers.size()) - 1;
  for (GradientBucket& bucket : buckets)
    for (const GradientBucket::Part& part : bucket.parts) {
      const std::string& name = plan.network->layers[part.layer].parameters[part.tensor].name;
      if ((stage == 0 && part.layer == 0 && part.tensor == 0) || (part.layer == last && name == "output.weight"))
        bucket.late = true;
    }
}

std::vector<GradientBucket> buckets_of(const TrainingPlan& plan, const StagePlan& stage, const BucketChoice& choice) {
  std::vector<int> layers;
  for (const std::vector<int>& chunk : stage.chunks) layers.insert(layers.end(), chunk.begin(), chunk.end());
  std::ranges::sort(layers);
  if (plan.zero == ZeroStage::parameters) return layer_buckets(*plan.network, layers);
  return gradient_buckets(*plan.network, layers, plan.gradient_element, choice.first, choice.rest,
                          choice.whole_tensors);
}

}  // namespace

ZeroShares zero_shares(ZeroStage zero, double replicas) {
  const auto divisor = [&](ZeroStage stage) { return zero >= stage ? replicas : 1; };
  return {divisor(ZeroStage::parameters), divisor(ZeroStage::gradients), divisor(ZeroStage::optimizer)};
}

double shares_of_owners(const std::vector<const Layer*>& layers, bool experts, std::size_t ranks) {
  std::vector<double> tensors;
  for (const Layer* layer : layers)
    for (const ParameterTensor& tensor : layer->parameters)
      if (!tensor.frozen && tensor.expert == experts) tensors.push_back(tensor.elements);
  if (tensors.empty()) return static_cast<double>(ranks);
  std::ranges::sort(tensors, std::greater<>());
  std::priority_queue<double, std::vector<double>, std::greater<>> owners;
  for (std::size_t rank = 0; rank < ranks; ++rank) owners.push(0);
  double fullest = 0, all = 0;
  for (const double elements : tensors) {
    const double owned = owners.top() + elements;
    owners.pop();
    owners.push(owned);
    fullest = std::max(fullest, owned);
    all += elements;
  }
  return all / fullest;
}

void divide(TrainingPlan& plan, const std::vector<std::vector<int>>& layers_of_parts, const BucketChoice& buckets) {
  plan.stages = std::vector<StagePlan>(static_cast<std::size_t>(plan.mesh.pipeline));
  for (StagePlan& stage : plan.stages) stage.chunks.resize(static_cast<std::size_t>(plan.pipeline.chunks));
  for (int v = 0; v < plan.virtual_stages(); ++v) {
    const PipelinePlace place = plan.place_of(v);
    plan.stages[place.stage].chunks[place.chunk] = layers_of_parts[v % layers_of_parts.size()];
  }
  StageOrders orders =
      plan.schedule ? plan.schedule->orders(plan.pipeline)
                    : StageOrders(plan.stages.size(), one_stage_tasks(plan.micro_batches, plan.pipeline.pairs_passes));
  for (int number = 0; number < plan.mesh.pipeline; ++number) {
    StagePlan& stage = plan.stages[number];
    stage.tasks = std::move(orders[number]);
    stage.buckets = buckets_of(plan, stage, buckets);
    mark_tied(plan, number, stage.buckets);
  }
}

TrainingPlan replica_plan(std::shared_ptr<const Network> network, int ranks, int micro_batches) {
  TrainingPlan plan;
  plan.mesh.data = ranks;
  plan.micro_batches = plan.pipeline.micro_batches = micro_batches;
  plan.gradient_element = Bytes{4};
  plan.parameter_element = element_size(network->precision);
  plan.accumulation = gradient_accumulation_work(1, network->precision);
  StagePlan& stage = plan.stages.emplace_back();
  stage.chunks.push_back(consecutive_numbers(0, network->layers.size()));
  stage.tasks = one_stage_tasks(micro_batches);
  plan.network = std::move(network);
  return plan;
}

int passes_ahead(const TrainingPlan& plan, int stage) { return plan.pipeline.stages - stage - 1; }

int weight_versions(const TrainingPlan& plan, int stage) {
  if (plan.flushes) return 1;
  return 1 + (passes_ahead(plan, stage) + plan.micro_batches - 1) / plan.micro_batches;
}

std::vector<int> zero_group(const TrainingPlan& plan, int rank, bool experts) {
  const std::vector<int> all = experts ? plan.mesh.expert_replicas(rank) : plan.mesh.replicas(rank);
  const auto size = static_cast<std::ptrdiff_t>(all.size());
  const std::ptrdiff_t share = plan.zero_group > 0 ? std::min<std::ptrdiff_t>(plan.zero_group, size) : size;
  const std::ptrdiff_t first = (std::ranges::find(all, rank) - all.begin()) / share * share;
  return {all.begin() + first, all.begin() + std::min(first + share, size)};
}

TrainingPlan::TrainingPlan(const TrainingPlan&) = default;
TrainingPlan::TrainingPlan(TrainingPlan&&) noexcept = default;
TrainingPlan& TrainingPlan::operator=(const TrainingPlan&) = default;
TrainingPlan& TrainingPlan::operator=(TrainingPlan&&) noexcept = default;
TrainingPlan::~TrainingPlan() = default;

}  // namespace trainyard
