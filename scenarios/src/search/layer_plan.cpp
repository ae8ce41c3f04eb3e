#include "scenarios/src/search/layer_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "scenarios/src/planning/layer_division.hpp"
#include "scenarios/src/reading/framework_modes.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/index.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostUnits = 24;
constexpr int kMostLayerGpus = 256;
constexpr double kImpossibleTime = std::numeric_limits<double>::infinity();

/// The mesh and the splits of a span of layers.
struct SpanChoice {
  StageMesh mesh;
  std::vector<LinearSharding> shardings;  // empty: each layer has a single one
};

/// The shardings of all layers of an MLP, and the splits with which a scenario states them.
struct WayVariant {
  std::vector<LinearSplit> splits;
  std::vector<LinearSharding> shardings;
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
    for (int layer = 0; layer < shape.layers(); ++layer)
      variant.shardings.push_back(linear_sharding(shape, layer, sharding));
  }
  return all;
}

class LayerPlanner {
 public:
  LayerPlanner(const PlanQuestion& question, const LayerPlanOptions& options)
      : question_(question),
        options_(options),
        own_scenario_(read_own(question)),
        pieces_(own_scenario_),
        shapes_(submeshes(own_scenario_.cluster.nodes, own_scenario_.cluster.node.gpus)) {
    answer_.scenario = own_scenario_.name;
    answer_.gpus = own_scenario_.cluster.gpus();
    answer_.micro_batches = own_scenario_.micro_batches();
    answer_.micro_batch = own_scenario_.micro_batch_size * own_scenario_.plan.mesh.data;
    answer_.capacity = own_scenario_.cluster.node.gpu.memory_capacity.value;
    answer_.headroom = options.plans.headroom.value_or(default_headroom(own_scenario_));
    usable_ = answer_.capacity * (1 - answer_.headroom);
    if (const MlpShape* mlp = own_scenario_.model.entry.mlp()) variants_ = variants_of(*mlp);
    has_single_sharding_ = variants_.empty();
    if (has_single_sharding_) variants_.push_back({});
  }

  LayerPlanAnswer make() {
    list_meshes();
    simulate_layers();
    group_layers();
    price_spans();
    const std::optional<LayerDivision> found = best_of(costs_);
    if (!found)
      throw UserError(fmt::format("{}: no division of its {} layers over {} GPUs fits into {}{}", own_scenario_.name,
                                  pieces_.layers(), answer_.gpus, usable_memory(answer_.capacity, answer_.headroom),
                                  refusal_));
    answer_.division = *found;
    try {
      divide_evenly();
      if (options_.compare) compare();
      end_if_interrupted();
      take_own();
    } catch (const Interruption&) {
      answer_.unfinished = "interrupted before all other plans were compared";
    }
    return std::move(answer_);
  }

 private:
  const PlanQuestion& question_;
  const LayerPlanOptions& options_;
  const Scenario own_scenario_;
  LayerPieces pieces_;
  const std::vector<Submesh> shapes_;
  LayerPlanAnswer answer_;
  double usable_ = 0;  // usable memory of a GPU, bytes
  bool has_single_sharding_ = true;
  std::vector<WayVariant> variants_;
  std::vector<StageMesh> meshes_;
  std::vector<PieceTimes> simulated_;                               // results of layers simulated alone
  std::vector<std::vector<std::vector<std::size_t>>> piece_index_;  // index into simulated_, by mesh, variant and layer
  std::vector<int> ends_;  // number of layers up to the end of each unit, which is a group of layers
  StageCosts costs_;
  std::vector<std::vector<std::vector<SpanChoice>>> choices_;  // indexed as costs_
  std::string refusal_;

  static Scenario read_own(const PlanQuestion& question) {
    if (!question.own)
      throw UserError("plan --layers: takes the micro-batches of the scenario's plan, which must use all GPUs: " +
                      question.own_error);
    // A framework (plan.strategy) demands equally many devices per stage. So the plan keeps the framework's settings,
    // but not its name.
    Node document = question.own->document;
    apply_framework_mode(document);
    std::erase_if(document.find("plan")->fields, [](const auto& field) { return field.first == "strategy"; });
    Scenario s = read_scenario(document, question.own->name);
    if (s.cluster.types().size() > 1) throw UserError("plan --layers: a cluster with one type of node expected");
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

  /// Returns the number of variants on a mesh: one if it has a single tensor rank.
  std::size_t variants(const StageMesh& mesh) const { return mesh.tensor == 1 ? 1 : variants_.size(); }

  void simulate_layers() {
    struct Job {
      std::size_t mesh, variant;
      int layer;
    };
    std::vector<Job> jobs;
    piece_index_.resize(meshes_.size());
    for (std::size_t mesh = 0; mesh < meshes_.size(); ++mesh)
      for (std::size_t variant = 0; variant < variants(meshes_[mesh]); ++variant) {
        std::map<std::string, std::size_t> number_of_piece;
        std::vector<std::size_t>& piece_numbers = piece_index_[mesh].emplace_back();
        for (int layer = 0; layer < pieces_.layers(); ++layer) {
          const auto [stored, is_new] = number_of_piece.try_emplace(
              pieces_.equivalence_key(layer, meshes_[mesh], variants_[variant].splits), jobs.size());
          if (is_new) jobs.push_back({mesh, variant, layer});
          piece_numbers.push_back(stored->second);
        }
      }
    std::size_t ended_jobs = 0;
    simulated_ = all_in_parallel(
        jobs.size(), processors(),
        [&](std::size_t i) {
          const Job& job = jobs[i];
          return pieces_.times(job.layer, job.layer + 1, meshes_[job.mesh], variants_[job.variant].splits);
        },
        [&](std::size_t, const PieceTimes&) {
          if (options_.progress) options_.progress(fmt::format("{} of {} layers simulated", ++ended_jobs, jobs.size()));
        });
    answer_.simulated = jobs.size();
    const auto refused = std::ranges::find_if_not(simulated_, &std::string::empty, &PieceTimes::error);
    if (refused != simulated_.end()) refusal_ = "; " + refused->error;
  }
  const PieceTimes& piece(std::size_t mesh, std::size_t variant, int layer) const {
    return simulated_[piece_index_[mesh][variant][static_cast<std::size_t>(layer)]];
  }

  /// Groups neighbouring layers, so that there are at most kMostUnits groups.
  void group_layers() {
    std::vector<int> sizes(static_cast<std::size_t>(pieces_.layers()), 1);
    if (sizes.size() > kMostUnits) {
      std::vector<std::int64_t> times;
      for (int layer = 0; layer < pieces_.layers(); ++layer) {
        const double time = piece(0, 0, layer).time;
        times.push_back(time == kImpossibleTime ? 1 : static_cast<std::int64_t>(time * 1e12));
      }
      sizes =
          balanced_cut(std::vector<std::vector<std::int64_t>>(kMostUnits, times), consecutive_numbers(0, kMostUnits));
    }
    for (const int size : sizes) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + size);
  }
  int begin_of(int unit) const { return unit == 0 ? 0 : ends_[static_cast<std::size_t>(unit) - 1]; }

  /// Returns the time of a layer per micro-batch, with a share of the work that comes once per step.
  double cost_of(const PieceTimes& layer) const { return layer.time + layer.tail / answer_.micro_batches; }

  std::vector<LinearShardingCosts> sharding_costs(std::size_t mesh, int from, int to) const {
    std::vector<LinearShardingCosts> costs;
    for (int layer = from; layer < to; ++layer) {
      costs.emplace_back().fill(kImpossibleTime);
      for (std::size_t variant = 0; variant < piece_index_[mesh].size(); ++variant) {
        const auto sharding = meshes_[mesh].tensor == 1 ? LinearSharding::replicated
                                                        : variants_[variant].shardings[static_cast<std::size_t>(layer)];
        double& cost = costs.back()[static_cast<std::size_t>(sharding)];
        cost = std::min(cost, cost_of(piece(mesh, variant, layer)));
      }
    }
    return costs;
  }

  /// Returns the times of a layer on a mesh, with the one that it has in `shardings`. These begin with the layer `from`.
  const PieceTimes& piece_of_sharding(std::size_t mesh, int layer, const std::vector<LinearSharding>& shardings,
                                      int from) const {
    std::size_t variant = 0;
    const auto index = static_cast<std::size_t>(layer);
    if (!shardings.empty() && meshes_[mesh].tensor > 1)
      while (variants_[variant].shardings[index] != shardings[static_cast<std::size_t>(layer - from)]) ++variant;
    return piece(mesh, variant, layer);
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
    if (!has_single_sharding_) {
      LinearChain chain = cheapest_shardings(sharding_costs(mesh, from, to));
      if (chain.cost == kImpossibleTime) return;
      choice.shardings = std::move(chain.shardings);
    }
    StageCost cost;
    double transient = 0;
    for (int layer = from; layer < to; ++layer) {
      const PieceTimes& piece = piece_of_sharding(mesh, layer, choice.shardings, from);
      if (piece.time == kImpossibleTime) return;
      cost.time += cost_of(piece);
      cost.fixed_bytes += piece.parameters;
      cost.micro_batch_bytes += piece.micro_batch_bytes;
      transient = std::max(transient, piece.transient);
    }
    cost.fixed_bytes += transient;
    std::optional<StageCost>& best = costs[static_cast<std::size_t>(choice.mesh.submesh)];
    const bool fits = cost.fixed_bytes + cost.micro_batch_bytes <= usable_,
               best_fits = best && best->fixed_bytes + best->micro_batch_bytes <= usable_;
    if (best && (best_fits != fits ? best_fits : best->time <= cost.time)) return;
    best = cost;
    choices[static_cast<std::size_t>(choice.mesh.submesh)] = std::move(choice);
  }

  /// Returns the fastest division whose plan leaves the headroom. No value: there is none.
  std::optional<LayerDivision> best_of(const StageCosts& costs) const {
    constexpr double kMemoryFactor = 0.95;
    for (double memory = usable_;;) {
      const auto found = divide_stages(costs, shapes_, answer_.gpus, answer_.micro_batches, memory);
      if (!found) return std::nullopt;
      LayerDivision division = simulated_division(*found);
      if (division.leaves_headroom) return division;
      memory *= kMemoryFactor;
    }
  }

  /// Finds the best division with the same submesh shape for all stages.
  void divide_evenly() {
    std::optional<StageDivision> best;
    StageCosts best_costs;
    for (std::size_t shape = 0; shape < shapes_.size(); ++shape) {
      StageCosts costs_of_shape = costs_;
      for (auto& spans : costs_of_shape)
        for (auto& span_costs : spans)
          for (std::size_t other = 0; other < shapes_.size(); ++other)
            if (other != shape) span_costs[other].reset();
      const auto found = divide_stages(costs_of_shape, shapes_, answer_.gpus, answer_.micro_batches, usable_);
      if (!found || (best && found->time >= best->time)) continue;
      best = found;
      best_costs = std::move(costs_of_shape);
    }
    if (best) answer_.even = best_of(best_costs);
    if (answer_.even && answer_.even->step < answer_.division.step) answer_.division = *answer_.even;
  }

  LayerStage stage_of(const StageChoice& choice) const {
    const SpanChoice& span =
        choices_[static_cast<std::size_t>(choice.from)][static_cast<std::size_t>(choice.to - choice.from - 1)]
                [static_cast<std::size_t>(choice.submesh)];
    LayerStage stage;
    stage.from = begin_of(choice.from);
    stage.to = begin_of(choice.to);
    stage.first = own_scenario_.network.layers[static_cast<std::size_t>(stage.from)].name;
    stage.last = own_scenario_.network.layers[static_cast<std::size_t>(stage.to) - 1].name;
    stage.tensor = span.mesh.tensor;
    stage.data = span.mesh.data;
    if (!has_single_sharding_ && stage.tensor > 1) stage.splits = splits_of(span.shardings);
    const auto mesh = static_cast<std::size_t>(std::ranges::find(meshes_, span.mesh) - meshes_.begin());
    for (int layer = stage.from; layer < stage.to; ++layer) {
      const PieceTimes& piece = piece_of_sharding(mesh, layer, span.shardings, stage.from);
      stage.micro_batch += piece.time;
      stage.tail += piece.tail;
    }
    return stage;
  }

  /// Returns the scenario with these stages.
  Node document_of(const std::vector<LayerStage>& stages) const {
    PlanPoint point;
    point.micro_batch = answer_.micro_batch;
    point.recompute = name_of(own_scenario_.plan.sharding.recompute);
    Node document = own_scenario_.document;
    Node& plan = *document.find("plan");
    const Node own_section = plan;
    plan = plan_section(without_choices(own_section), point, 1, own_scenario_.global_batch_size);
    const auto set = [&plan](const char* path, const std::string& value) {
      set_field(plan, path, parse_override(value, "--layers"));
    };
    std::vector<std::string> items;
    for (const LayerStage& stage : stages)
      items.push_back(
          fmt::format("{{layers: {}, tensor: {}, data: {}{}}}", stage.to - stage.from, stage.tensor, stage.data,
                      stage.splits.empty() ? "" : fmt::format(", linear_split: [{}]", in_words(stage.splits))));
    set("pipeline.stages", fmt::format("[{}]", fmt::join(items, ", ")));
    set("pipeline.ends_count_as_layers", "true");
    set("pipeline.overlap", own_scenario_.plan.overlap_pipeline ? "true" : "false");
    return document;
  }

  LayerDivision simulated_division(const StageDivision& found) const {
    LayerDivision division;
    division.estimate = found.time;
    for (const StageChoice& stage : found.stages) division.stages.push_back(stage_of(stage));
    division.document = document_of(division.stages);
    const Scenario s = read_scenario(division.document, own_scenario_.name);
    const Result result = simulate(s, {.critical_path = false});
    const PlanOutcome outcome = outcome_of(s, result);
    division.step = outcome.step_time;
    division.leaves_headroom = outcome.leaves(answer_.headroom);
    for (std::size_t i = 0; i < division.stages.size(); ++i) {
      LayerStage& stage = division.stages[i];
      const bool has_one_stage = result.stages.empty();
      stage.ranks = s.plan.mesh.stage(s.plan.mesh.widths[i].first);
      stage.busy = division.step - (has_one_stage ? result.breakdown : result.stages[i].breakdown).bubble.value;
      stage.peak = has_one_stage ? result.memory.peak.value : result.stages[i].memory.peak.value;
    }
    return division;
  }

  /// Searches plans with equally many devices per stage and any micro-batch.
  void compare() {
    PlanAnswerOptions options = options_.plans;
    options.upgrades = options.without_headroom = false;
    options.headroom = answer_.headroom;
    options.search.progress = options_.progress;
    const PlanAnswer all = answer_plan(question_, options);
    if (!all.best.empty()) answer_.plan = all.best.front();
    answer_.plan_proved = all.search.proved;
    options.neighbours = options.rule = false;
    for (const SearchedDegree& degree : searched_degrees())
      if (degree.unsplit_value == 1) options.space.vary.push_back({degree.path(), {"1"}});
    options.space.vary.push_back({"plan.data_parallel.zero_stage", {"0"}});
    PlanQuestion question = question_;
    question.own.reset();
    try {
      const PlanAnswer data = answer_plan(question, options);
      if (!data.best.empty()) answer_.data = data.best.front();
    } catch (const UserError&) {
      // There is no such plan if a framework shards states, or if there are fewer samples than GPUs.
    }
  }

  void take_own() {
    const PlanOutcome own_outcome = outcome_of(own_scenario_, simulate(own_scenario_, {.critical_path = false}));
    if (own_outcome.fits) answer_.own_step = own_outcome.step_time;
    answer_.own_leaves_headroom = own_outcome.leaves(answer_.headroom);
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
