#include "scenarios/src/search/layer_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "scenarios/src/planning/balanced_cut.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/search/linear_ways.hpp"
#include "scenarios/src/search/uneven_pipeline.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostUnits = 24;
constexpr int kMostLayerGpus = 256;
constexpr double kCannot = std::numeric_limits<double>::infinity();

/// A layer alone, simulated; infinite: it cannot be split so.
struct LayerFigures {
  double time = kCannot, tail = 0, parameters = 0, kept = 0, transient = 0;
};

/// How a span of layers is done on a mesh.
struct SpanChoice {
  StageMesh mesh;
  std::vector<LinearWay> ways;  // empty: the network's own
};

/// Every layer in one way of its own, and the lists of splits that have it so.
struct WayVariant {
  std::vector<LinearSplit> splits;
  std::vector<LinearWay> ways;
};

std::vector<WayVariant> variants_of(const MlpShape& shape) {
  const auto alternating = [&shape](bool odd) {
    std::vector<LinearSplit> splits;
    for (int layer = 0; layer < shape.layers(); ++layer)
      splits.push_back(layer == 0 && odd         ? LinearSplit::replicated
                       : (layer % 2 == 1) == odd ? LinearSplit::columns
                                                 : LinearSplit::rows);
    return splits;
  };
  const auto n = static_cast<std::size_t>(shape.layers());
  std::vector<WayVariant> all{{std::vector<LinearSplit>(n, LinearSplit::replicated), {}},
                              {std::vector<LinearSplit>(n, LinearSplit::columns), {}},
                              {std::vector<LinearSplit>(n, LinearSplit::rows), {}},
                              {alternating(false), {}},
                              {alternating(true), {}}};
  for (WayVariant& variant : all) {
    Sharding sharding;
    sharding.tensor = 2;
    sharding.linear_splits = variant.splits;
    for (int layer = 0; layer < shape.layers(); ++layer) variant.ways.push_back(linear_way(shape, layer, sharding));
  }
  return all;
}

class LayerPlanner {
 public:
  LayerPlanner(const PlanQuestion& question, const LayerPlanOptions& options)
      : question_(question),
        options_(options),
        own_(checked(question)),
        pieces_(own_, own_.micro_batch_size * own_.plan.mesh.data),
        shapes_(submeshes(own_.cluster.nodes, own_.cluster.node.gpus)) {
    answer_.scenario = own_.name;
    answer_.gpus = own_.cluster.gpus();
    answer_.micro_batches = own_.micro_batches();
    answer_.micro_batch = own_.micro_batch_size * own_.plan.mesh.data;
    answer_.capacity = own_.cluster.node.gpu.memory_capacity.value;
    answer_.headroom = options.plans.headroom.value_or(default_headroom(own_));
    usable_ = answer_.capacity * (1 - answer_.headroom);
    if (const MlpShape* mlp = own_.model.entry.mlp()) variants_ = variants_of(*mlp);
    plain_ = variants_.empty();
    if (plain_) variants_.push_back({});
  }

  LayerPlanAnswer make() {
    list_meshes();
    simulate_layers();
    group_layers();
    price_spans();
    const auto found = divide_stages(costs_, shapes_, answer_.gpus, answer_.micro_batches, usable_);
    if (!found)
      throw UserError(fmt::format("{}: no division of its {} layers over {} GPUs fits into {}{}", own_.name,
                                  pieces_.layers(), answer_.gpus, usable_memory(answer_.capacity, answer_.headroom),
                                  refusal_));
    answer_.division = realized(*found);
    if (const auto even = divide_evenly()) answer_.even = realized(*even);
    if (answer_.even && answer_.even->step < answer_.division.step) answer_.division = *answer_.even;
    if (options_.compare) compare();
    take_own();
    return std::move(answer_);
  }

 private:
  const PlanQuestion& question_;
  const LayerPlanOptions& options_;
  const Scenario own_;
  LayerPieces pieces_;
  const std::vector<Submesh> shapes_;
  LayerPlanAnswer answer_;
  double usable_ = 0;  // bytes of a GPU
  bool plain_ = true;  // layers have one way
  std::vector<WayVariant> variants_;
  std::vector<StageMesh> meshes_;
  std::vector<std::vector<std::vector<LayerFigures>>> figures_;  // by mesh, variant and layer
  std::vector<int> ends_;                                        // layers before the end of each unit
  StageCosts costs_;
  std::vector<std::vector<std::vector<SpanChoice>>> choices_;  // as costs_
  std::string refusal_;

  static Scenario checked(const PlanQuestion& question) {
    if (!question.own)
      throw UserError("plan --layers: a plan on all GPUs of the cluster expected, whose micro-batches count: " +
                      question.own_error);
    const Scenario& s = *question.own;
    if (s.cluster.types().size() > 1) throw UserError("plan --layers: of nodes of one type");
    if (s.cluster.gpus() > kMostLayerGpus)
      throw UserError(fmt::format("plan --layers: {} GPUs; at most {}", s.cluster.gpus(), kMostLayerGpus));
    return s;
  }

  void list_meshes() {
    for (int shape = 0; shape < static_cast<int>(shapes_.size()); ++shape) {
      const int count = shapes_[static_cast<std::size_t>(shape)].count();
      for (int tensor = 1; tensor <= count; ++tensor)
        if (count % tensor == 0 && answer_.micro_batch % (count / tensor) == 0)
          meshes_.push_back({shape, tensor, count / tensor});
    }
  }

  /// One rank alone has one way.
  std::size_t variants(const StageMesh& mesh) const { return mesh.tensor == 1 ? 1 : variants_.size(); }

  void simulate_layers() {
    struct Job {
      std::size_t mesh, variant;
      int layer;
    };
    std::vector<Job> jobs;
    std::vector<std::vector<std::vector<std::size_t>>> job_of(meshes_.size());
    for (std::size_t mesh = 0; mesh < meshes_.size(); ++mesh)
      for (std::size_t variant = 0; variant < variants(meshes_[mesh]); ++variant) {
        std::map<std::string, std::size_t> known;
        std::vector<std::size_t>& of = job_of[mesh].emplace_back();
        for (int layer = 0; layer < pieces_.layers(); ++layer) {
          const auto [at, fresh] =
              known.try_emplace(pieces_.likeness(layer, meshes_[mesh], variants_[variant].splits), jobs.size());
          if (fresh) jobs.push_back({mesh, variant, layer});
          of.push_back(at->second);
        }
      }
    std::size_t ended = 0;
    const std::vector<PieceTimes> pieces = all_in_parallel(
        jobs.size(), processors(),
        [&](std::size_t i) {
          const Job& job = jobs[i];
          return pieces_.times(job.layer, job.layer + 1, meshes_[job.mesh], variants_[job.variant].splits);
        },
        [&](std::size_t, const PieceTimes&) {
          if (options_.progress) options_.progress(fmt::format("{} of {} layers simulated", ++ended, jobs.size()));
        });
    answer_.simulated = jobs.size();
    std::vector<LayerFigures> by_job;
    for (const PieceTimes& p : pieces) {
      LayerFigures& of = by_job.emplace_back();
      if (p.error.empty())
        of = {p.time, p.tail, p.parameters, p.kept, p.transient};
      else if (refusal_.empty())
        refusal_ = "; " + p.error;
    }
    for (const auto& of_mesh : job_of) {
      auto& mesh = figures_.emplace_back();
      for (const auto& of_variant : of_mesh) {
        auto& variant = mesh.emplace_back();
        for (const std::size_t job : of_variant) variant.push_back(by_job[job]);
      }
    }
  }

  /// Neighbours that go together, so that there are no more than kMostUnits.
  void group_layers() {
    const std::vector<LayerFigures>& alone = figures_.front().front();
    std::vector<int> sizes(alone.size(), 1);
    if (alone.size() > kMostUnits) {
      std::vector<std::int64_t> times;
      for (const LayerFigures& layer : alone)
        times.push_back(layer.time == kCannot ? 1 : static_cast<std::int64_t>(layer.time * 1e12));
      std::vector<int> stage_of(kMostUnits);
      std::iota(stage_of.begin(), stage_of.end(), 0);
      sizes = balanced_cut(std::vector<std::vector<std::int64_t>>(kMostUnits, times), stage_of);
    }
    for (const int size : sizes) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + size);
  }
  int begin_of(int unit) const { return unit == 0 ? 0 : ends_[static_cast<std::size_t>(unit) - 1]; }

  /// A micro-batch's share of all that a layer takes in a step.
  double cost_of(const LayerFigures& layer) const { return layer.time + layer.tail / answer_.micro_batches; }

  std::vector<LinearWayCosts> way_costs(std::size_t mesh, int from, int to) const {
    std::vector<LinearWayCosts> costs;
    for (int layer = from; layer < to; ++layer) {
      costs.emplace_back().fill(kCannot);
      for (std::size_t variant = 0; variant < figures_[mesh].size(); ++variant) {
        const auto way =
            meshes_[mesh].tensor == 1 ? LinearWay::whole : variants_[variant].ways[static_cast<std::size_t>(layer)];
        double& cost = costs.back()[static_cast<std::size_t>(way)];
        cost = std::min(cost, cost_of(figures_[mesh][variant][static_cast<std::size_t>(layer)]));
      }
    }
    return costs;
  }

  /// Figures of a layer that goes one way on a mesh.
  const LayerFigures& figures(std::size_t mesh, int layer, const std::vector<LinearWay>& ways, int from) const {
    const auto at = static_cast<std::size_t>(layer);
    if (ways.empty() || meshes_[mesh].tensor == 1) return figures_[mesh][0][at];
    std::size_t variant = 0;
    while (variants_[variant].ways[at] != ways[static_cast<std::size_t>(layer - from)]) ++variant;
    return figures_[mesh][variant][at];
  }

  void price_spans() {
    const int units = static_cast<int>(ends_.size());
    for (int unit = 0; unit < units; ++unit) {
      auto& costs = costs_.emplace_back();
      auto& choices = choices_.emplace_back();
      for (int end = unit + 1; end <= units; ++end) {
        costs.emplace_back(shapes_.size());
        choices.emplace_back(shapes_.size());
        for (std::size_t mesh = 0; mesh < meshes_.size(); ++mesh)
          price(mesh, begin_of(unit), begin_of(end), costs.back(), choices.back());
      }
    }
  }

  void price(std::size_t mesh, int from, int to, std::vector<std::optional<StageCost>>& costs,
             std::vector<SpanChoice>& choices) const {
    SpanChoice choice{meshes_[mesh], {}};
    if (!plain_) {
      LinearChain chain = cheapest_ways(way_costs(mesh, from, to));
      if (chain.cost == kCannot) return;
      choice.ways = std::move(chain.ways);
    }
    StageCost cost;
    double transient = 0;
    for (int layer = from; layer < to; ++layer) {
      const LayerFigures& of = figures(mesh, layer, choice.ways, from);
      if (of.time == kCannot) return;
      cost.time += cost_of(of);
      cost.held += of.parameters;
      cost.kept += of.kept;
      transient = std::max(transient, of.transient);
    }
    cost.held += transient;
    std::optional<StageCost>& best = costs[static_cast<std::size_t>(choice.mesh.submesh)];
    const bool fits = cost.held + cost.kept <= usable_, best_fits = best && best->held + best->kept <= usable_;
    if (best && (best_fits != fits ? best_fits : best->time <= cost.time)) return;
    best = cost;
    choices[static_cast<std::size_t>(choice.mesh.submesh)] = std::move(choice);
  }

  /// Of all stages on one shape.
  std::optional<StageDivision> divide_evenly() const {
    std::optional<StageDivision> best;
    for (std::size_t shape = 0; shape < shapes_.size(); ++shape) {
      StageCosts alone = costs_;
      for (auto& from : alone)
        for (auto& to : from)
          for (std::size_t other = 0; other < shapes_.size(); ++other)
            if (other != shape) to[other].reset();
      const auto found = divide_stages(alone, shapes_, answer_.gpus, answer_.micro_batches, usable_);
      if (found && (!best || found->time < best->time)) best = found;
    }
    return best;
  }

  /// Splits of all layers of the network, of which those of a stage count.
  std::vector<LinearSplit> whole_splits(const SpanChoice& choice, int from) const {
    if (plain_ || choice.mesh.tensor == 1) return {};
    std::vector<LinearSplit> all(static_cast<std::size_t>(pieces_.layers()), LinearSplit::replicated);
    const std::vector<LinearSplit> own = splits_of(choice.ways);
    std::copy(own.begin(), own.end(), all.begin() + from);
    return all;
  }

  LayerDivision realized(const StageDivision& division) {
    LayerDivision real;
    real.estimate = division.time;
    int later = static_cast<int>(division.stages.size());
    for (const StageChoice& stage : division.stages) {
      const SpanChoice& choice =
          choices_[static_cast<std::size_t>(stage.from)][static_cast<std::size_t>(stage.to - stage.from - 1)]
                  [static_cast<std::size_t>(stage.submesh)];
      LayerStage& row = real.stages.emplace_back();
      row.from = begin_of(stage.from);
      row.to = begin_of(stage.to);
      row.first = own_.network.layers[static_cast<std::size_t>(row.from)].name;
      row.last = own_.network.layers[static_cast<std::size_t>(row.to) - 1].name;
      row.submesh = shapes_[static_cast<std::size_t>(stage.submesh)];
      row.tensor = choice.mesh.tensor;
      row.data = choice.mesh.data;
      const std::vector<LinearSplit> splits = whole_splits(choice, row.from);
      if (!splits.empty()) row.splits.assign(splits.begin() + row.from, splits.begin() + row.to);
      row.times = pieces_.times(row.from, row.to, choice.mesh, splits);
      if (!row.times.error.empty()) throw UserError(row.times.error);
      row.peak = row.times.parameters + row.times.transient + row.times.kept * std::min(later--, answer_.micro_batches);
    }
    place(real.stages);
    std::vector<PlacedStage> placed;
    for (const LayerStage& row : real.stages)
      placed.push_back({row.ranks, row.tensor, row.data, row.times.forward, row.times.time - row.times.forward,
                        row.times.tail, row.times.output});
    real.step = uneven_step(own_.cluster, own_.software, placed, answer_.micro_batches);
    return real;
  }

  /// What plans take whose stages have equally many devices, of any micro-batch.
  void compare() {
    PlanAnswerOptions options = options_.plans;
    options.upgrades = options.without_headroom = false;
    options.headroom = answer_.headroom;
    options.search.progress = options_.progress;
    const PlanAnswer all = answer_plan(question_, options);
    if (!all.best.empty()) answer_.plan = all.best.front();
    answer_.plan_proved = all.search.proved;
    options.neighbours = options.rule = false;
    for (const char* axis : {"tensor_parallel", "context_parallel", "expert_parallel", "pipeline_parallel"})
      options.space.vary.push_back({fmt::format("plan.{}", axis), {"1"}});
    options.space.vary.push_back({"plan.data_parallel.zero_stage", {"0"}});
    PlanQuestion question = question_;
    question.own.reset();
    try {
      const PlanAnswer data = answer_plan(question, options);
      if (!data.best.empty()) answer_.data = data.best.front();
    } catch (const UserError&) {  // a framework that shares out, or a batch of fewer samples than GPUs
    }
  }

  void take_own() {
    SimulateOptions options;
    options.critical_path = false;
    const PlanOutcome own = outcome_of(simulate(own_, options));
    if (own.fits) answer_.own_step = own.step_time;
    answer_.own_leaves_headroom = own.leaves(answer_.headroom);
  }

  /// The largest first: each smaller shape divides the larger ones, so that none lies across two nodes.
  static void place(std::vector<LayerStage>& stages) {
    std::vector<std::size_t> order(stages.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&stages](std::size_t a, std::size_t b) {
      return stages[a].submesh.count() > stages[b].submesh.count();
    });
    int next = 0;
    for (const std::size_t stage : order)
      for (int i = 0; i < stages[stage].submesh.count(); ++i) stages[stage].ranks.push_back(next++);
  }
};

}  // namespace

double LayerPlanAnswer::best_step() const {
  double least = division.step;
  if (own_step > 0 && own_leaves_headroom) least = std::min(least, own_step);
  for (const std::optional<PlanRow>& row : {plan, data})
    if (row) least = std::min(least, row->outcome.step_time);
  return least;
}

LayerPlanAnswer plan_layers(const PlanQuestion& question, const LayerPlanOptions& options) {
  return LayerPlanner(question, options).make();
}

}  // namespace trainyard
