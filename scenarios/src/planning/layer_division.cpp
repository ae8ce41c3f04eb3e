#include "scenarios/src/planning/layer_division.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "strategies/collectives/library_model.hpp"
#include "strategies/plan/training_plan.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

Seconds layer_time(const Layer& layer, const NodeType& node, const SoftwareStack& stack) {
  Seconds sum;
  for (const KernelCall& call : layer.forward) sum += kernel_cost(node, stack, call.work);
  for (const BackwardKernel& call : layer.backward) sum += kernel_cost(node, stack, call.work);
  return sum;
}

Seconds launch_time(const Layer& layer, const NodeType& node, const SoftwareStack& stack) {
  if (!stack.host.runs_ahead || stack.host.cuda_graphs) return {};
  int launches = 0;
  for (const KernelCall& call : layer.forward) launches += call.work.launches;
  for (const BackwardKernel& call : layer.backward) launches += call.work.launches;
  return dispatch_time(node, stack) * launches;
}

Seconds accumulation_time(const Layer& layer, const Work& element_work, const NodeType& node,
                          const SoftwareStack& stack) {
  Seconds time;
  for (const BackwardKernel& call : layer.backward) {
    double elements = 0;
    for (const int tensor : call.gradients_ready)
      if (const ParameterTensor& p = layer.parameters[static_cast<std::size_t>(tensor)]; !p.accumulated)
        elements += p.elements;
    Work sum = element_work;
    sum.bytes = sum.bytes * elements;
    if (elements > 0) time += kernel_cost(node, stack, sum);
  }
  return time;
}

namespace {

using Time = std::int64_t;
using Table = std::vector<std::vector<Time>>;
constexpr Time kNever = std::numeric_limits<Time>::max();

/// Returns the time of layers `from` to `to` − 1 in a part, as a difference of sums from the first layer on.
Time span(const Table& sums, std::size_t part, std::size_t from, std::size_t to) {
  return sums[part][to] - sums[part][from];
}

/// Returns the ends of the parts for which the largest `sign` x time of a part is smallest, with no part longer than
/// `limit`. The best division of the first `end` layers into `part` + 1 parts extends a best division of fewer layers
/// into `part` parts.
std::vector<std::size_t> best_ends(const Table& sums, Time sign, Time limit) {
  const std::size_t parts = sums.size(), layers = sums.front().size() - 1;
  Table best(parts + 1, std::vector<Time>(layers + 1, kNever));
  std::vector<std::vector<std::size_t>> begin(parts, std::vector<std::size_t>(layers + 1, 0));
  best[0][0] = -kNever;
  for (std::size_t part = 0; part < parts; ++part)
    for (std::size_t end = part + 1; end + (parts - part - 1) <= layers; ++end)
      for (std::size_t from = end; from-- > part;) {
        const Time time = span(sums, part, from, end);
        if (time > limit || (sign > 0 && time >= best[part + 1][end])) break;  // longer parts only take longer
        const Time most = std::max(best[part][from], sign * time);
        if (most >= best[part + 1][end]) continue;
        best[part + 1][end] = most;
        begin[part][end] = from;
      }
  std::vector<std::size_t> ends(parts, layers);
  for (std::size_t part = parts; part-- > 1;) ends[part - 1] = begin[part][ends[part]];
  return ends;
}

/// Returns the time of the slowest stage. `stage_of[part]`: the stage that executes the part.
Time slowest_stage(const Table& sums, const std::vector<std::size_t>& ends, const std::vector<int>& stage_of) {
  std::vector<Time> stages(ends.size());
  for (std::size_t part = 0; part < ends.size(); ++part)
    stages[static_cast<std::size_t>(stage_of[part])] += span(sums, part, part == 0 ? 0 : ends[part - 1], ends[part]);
  return *std::ranges::max_element(stages);
}

/// Moves one boundary by one layer: of all these moves the one that makes the slowest stage fastest. Returns false if
/// no move helps.
bool improve(const Table& sums, std::vector<std::size_t>& ends, const std::vector<int>& stage_of) {
  Time least = slowest_stage(sums, ends, stage_of);
  std::vector<std::size_t> best;
  for (std::size_t part = 0; part + 1 < ends.size(); ++part) {
    const std::size_t before = part == 0 ? 0 : ends[part - 1], current = ends[part];
    for (const std::size_t moved : {current - 1, current + 1}) {
      if (moved <= before || moved >= ends[part + 1]) continue;
      ends[part] = moved;
      if (const Time time = slowest_stage(sums, ends, stage_of); time < least) {
        least = time;
        best = ends;
      }
      ends[part] = current;
    }
  }
  if (!best.empty()) ends = best;
  return !best.empty();
}

/// Divides layers evenly. A remainder goes to the middle first, because the ends also have the embedding and the head.
std::vector<std::int64_t> even_counts(int layers, int parts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(parts), layers / parts);
  int rest = layers % parts;
  for (int i = 1; i + 1 < parts && rest > 0; ++i, --rest) ++counts[static_cast<std::size_t>(i)];
  if (rest > 0) ++counts.front();
  return counts;
}

/// Times of the exchanges between the ranks of a stage, by the library's model. They are 0 if exchanges are not modelled,
/// or if forward and backward passes alternate, because the other pass may overlap with them.
class ExchangeTimes {
 public:
  /// `rank`: a rank of the stage.
  ExchangeTimes(const TrainingPlan& plan, const Scenario& s, int rank) : plan_(plan), s_(s), rank_(rank) {}

  Seconds operator()(const Exchange& exchange) {
    if (!s_.library || s_.plan.fidelity != Fidelity::modelled || plan_.pipeline.pairs_passes) return {};
    const auto [found, is_new] = times_.try_emplace({exchange.axis, exchange.kind, exchange.bytes.value});
    if (is_new) found->second = whole_time(exchange);
    return found->second * (1 - exchange.hidden_share);
  }

 private:
  /// Returns the time of the whole exchange, hidden or not; 0 if the group has one rank.
  Seconds whole_time(const Exchange& exchange) const {
    const std::vector<int> members = plan_.mesh.group(rank_, exchange.axis);
    if (members.size() < 2) return {};
    CollectiveSettings settings;
    settings.model = s_.library->model;
    std::vector<int> nodes;
    for (const int member : members) nodes.push_back(s_.cluster.node_of_gpu(member));
    settings.place(nodes);
    const ModelledCost cost = settings.model->cost(operation_of(exchange.kind), exchange.bytes,
                                                   settings.spread(static_cast<int>(members.size())));
    Seconds time = s_.software.collective_launch + cost.latency * s_.software.slowdowns.exchanges;
    if (cost.rate.value > 0) time += cost.wire / cost.rate * s_.software.slowdowns.exchanges;
    return time;
  }

  const TrainingPlan& plan_;
  const Scenario& s_;
  int rank_;
  std::map<std::tuple<Axis, ExchangeKind, double>, Seconds> times_;
};

/// Returns the time of a pass: kernels one after the other, and exchanges in the order of their axis. An exchange begins
/// after the kernels before it, and later kernels wait for it.
template <class Kernels>
Seconds pass_time(const Kernels& kernels, const std::vector<Exchange>& exchanges, const NodeType& node,
                  const SoftwareStack& stack, ExchangeTimes& exchange_time) {
  Seconds clock;
  std::map<Axis, Seconds> axes;  // end of the last exchange
  std::vector<Seconds> ends(exchanges.size());
  for (std::size_t kernel = 0; kernel <= kernels.size(); ++kernel) {
    for (std::size_t i = 0; i < exchanges.size(); ++i)
      if (static_cast<std::size_t>(exchanges[i].kernels_before) == kernel)
        ends[i] = axes[exchanges[i].axis] = std::max(axes[exchanges[i].axis], clock) + exchange_time(exchanges[i]);
    for (std::size_t i = 0; i < exchanges.size(); ++i)
      if (static_cast<std::size_t>(exchanges[i].needed_by) == kernel) clock = std::max(clock, ends[i]);
    if (kernel < kernels.size()) clock += kernel_cost(node, stack, kernels[kernel].work);
  }
  return clock;
}

/// Returns, for each stage and layer, the time of one micro-batch on the slowest type of node that has ranks with the
/// stage's layers; ps.
std::vector<std::vector<std::int64_t>> times_by_stage(const TrainingPlan& plan, const Scenario& s) {
  std::vector<std::set<const NodeType*>> types(static_cast<std::size_t>(plan.mesh.pipeline));
  if (s.cluster.others.empty())
    for (auto& stage_types : types) stage_types.insert(&s.cluster.node);
  for (int rank = 0; rank < plan.ranks() && !s.cluster.others.empty(); ++rank) {
    const int stage = plan.mesh.coordinates(rank).pipeline;
    for (const int holder : {stage, plan.mesh.opposite_stage(stage)})
      types[static_cast<std::size_t>(holder)].insert(&s.cluster.type_of_gpu(rank));
  }
  const double sums = 1 - 1.0 / plan.micro_batches;  // share of micro-batches that accumulate: all but the first
  std::map<const NodeType*, std::vector<std::int64_t>> times_by_type;
  std::vector<std::vector<std::int64_t>> times;
  for (const auto& stage_types : types) {
    ExchangeTimes exchanges(plan, s, plan.mesh.rank({.pipeline = static_cast<int>(times.size())}));
    std::vector<std::int64_t>& longest = times.emplace_back(plan.network->layers.size(), 0);
    for (const NodeType* type : stage_types) {
      std::vector<std::int64_t>& type_times = times_by_type[type];
      if (type_times.empty())
        for (const Layer& layer : plan.network->layers)
          type_times.push_back(std::llround(
              std::max(launch_time(layer, *type, s.software),
                       pass_time(layer.forward, layer.forward_exchanges, *type, s.software, exchanges) +
                           pass_time(layer.backward, layer.backward_exchanges, *type, s.software, exchanges) +
                           accumulation_time(layer, plan.accumulation, *type, s.software) * sums)
                  .value *
              1e12));
      std::ranges::transform(longest, type_times, longest.begin(), std::ranges::max);
    }
  }
  return times;
}

std::vector<std::int64_t> balanced_counts(const TrainingPlan& plan, const Scenario& s) {
  const std::vector<std::vector<std::int64_t>> by_stage = times_by_stage(plan, s);
  std::vector<std::vector<std::int64_t>> times;
  std::vector<int> stage_of;
  for (int part = 0; part < plan.mesh.parts(plan.pipeline.chunks); ++part) {
    const int stage = plan.schedule->place_of(part, plan.pipeline).stage;
    stage_of.push_back(std::min(stage, plan.mesh.opposite_stage(stage)));
    times.push_back(by_stage[static_cast<std::size_t>(stage_of.back())]);
  }
  const std::vector<int> cut = balanced_cut(times, stage_of);
  return {cut.begin(), cut.end()};
}

/// Returns the layers of each part of the network. `counts`: number of layers of each; empty: evenly many.
std::vector<std::vector<int>> divide_by_counts(const Network& network, const PlanChoice& choice,
                                               std::vector<std::int64_t> counts) {
  const int parts = choice.mesh.parts(choice.chunks), body = layers_to_divide(network, choice);
  const bool apart = body != static_cast<int>(network.layers.size());
  if (parts > body)
    fail(choice.place, fmt::format("plan.pipeline_parallel: {}, but {} has {} layers{}", choice.parts_in_words(),
                                   network.name, body, apart ? " between embedding and head" : ""));
  const char* key = choice.mesh.widths.empty() ? "plan.pipeline.layers" : "plan.pipeline.stages";
  if (counts.empty()) counts = even_counts(body, parts);
  if (std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) != body)
    fail(choice.layers_place, fmt::format("{}: {} in all, but {} has {}{}", key,
                                          std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), network.name,
                                          body, apart ? " between embedding and head" : ""));
  std::vector<std::vector<int>> stages(static_cast<std::size_t>(parts));
  int next = 0;
  for (int part = 0; part < parts; ++part) {
    std::vector<int>& stage = stages[part];
    const auto end =
        static_cast<int>(next + counts[part] + (apart && part == 0 ? 1 : 0) + (apart && part + 1 == parts ? 1 : 0));
    for (; next < end; ++next) stage.push_back(next);
    if (stage.empty()) fail(choice.layers_place, fmt::format("{}: stage {} has no layer", key, part));
  }
  return stages;
}

}  // namespace

std::vector<int> balanced_cut(const Table& times, const std::vector<int>& stage_of) {
  Table sums;
  for (const std::vector<Time>& part_times : times) {
    std::vector<Time>& sum = sums.emplace_back(1, 0);
    for (const Time time : part_times) sum.push_back(sum.back() + time);
  }
  std::vector<int> own_stage(sums.size());  // each part as if it were a stage of its own
  std::iota(own_stage.begin(), own_stage.end(), 0);
  const Time limit = slowest_stage(sums, best_ends(sums, 1, kNever), own_stage);
  std::vector<std::size_t> ends = best_ends(sums, -1, limit);
  while (improve(sums, ends, stage_of)) {
  }
  std::vector<int> sizes;
  std::size_t before = 0;
  for (const std::size_t end : ends) {
    sizes.push_back(static_cast<int>(end - before));
    before = end;
  }
  return sizes;
}

int layers_to_divide(const Network& network, const PlanChoice& choice) {
  const int count = static_cast<int>(network.layers.size());
  const bool ends = count > 2 && network.layers.front().name == "embedding" && network.layers.back().name == "head";
  return ends && !choice.ends_count_as_layers ? count - 2 : count;
}

std::vector<std::vector<int>> divide_layers(const TrainingPlan& plan, const Scenario& s) {
  // With too few layers, `divide_by_counts` throws the error.
  const bool balances = s.plan.layers.empty() && s.plan.balanced &&
                        layers_to_divide(*plan.network, s.plan) >= plan.mesh.parts(plan.pipeline.chunks);
  return divide_by_counts(*plan.network, s.plan, balances ? balanced_counts(plan, s) : s.plan.layers);
}

std::vector<std::vector<int>> divide_layers(const Network& network, const PlanChoice& choice) {
  return divide_by_counts(network, choice, choice.layers);
}

StageFigures mean_stage(const Scenario& s, const Network& network) {
  StageFigures mean{{0, 0, 0}};
  const NodeType& node = s.cluster.node;
  const double stages = s.plan.mesh.pipeline;
  Bytes all, for_weights;
  for (const Layer& layer : network.layers) {
    for (const KernelCall& call : layer.forward)
      mean.times.forward += kernel_cost(node, s.software, call.work).value / stages;
    for (const BackwardKernel& call : layer.backward)
      (call.for_weights ? mean.times.backward_weights : mean.times.backward_input) +=
          kernel_cost(node, s.software, call.work).value / stages;
    all += layer.activations();
    for_weights += layer.kept_for_weights;
  }
  if (all.value > 0) mean.kept_share = std::min(1.0, for_weights / all);  // gradients of outputs are needed too
  mean.activation_limit = s.plan.activation_limit;
  return mean;
}

}  // namespace trainyard
