#include "scenarios/src/search/loop_layouts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <tuple>

#include "scenarios/src/post_training/weight_transfer.hpp"
#include "scenarios/src/search/training_halves.hpp"
#include "sim/process/job.hpp"
#include "sim/process/parallel.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

/// Number of loops that are simulated together, whatever the number of processors.
constexpr std::size_t kLoopsAtOnce = 4;
constexpr double kNoLoop = std::numeric_limits<double>::infinity();
constexpr const char *kPromptsAxis = "post_training.prompts", *kSamplesAxis = "post_training.samples_per_prompt",
                     *kStalenessAxis = "post_training.staleness", *kNodesAxis = "post_training.generation.nodes",
                     *kHybridAxis = "post_training.generation.hybrid",
                     *kTensorAxis = "post_training.generation.tensor_parallel",
                     *kExpertAxis = "post_training.generation.expert_parallel",
                     *kDataAxis = "post_training.generation.data_parallel";

/// The prompts of a step, and the answers to each.
struct LoopBatch {
  std::int64_t prompts = 0, samples = 0;
  auto operator<=>(const LoopBatch&) const = default;
};

/// A split of the nodes into some that only generate and others that train.
struct LoopSplit {
  int nodes = 0;        ///< nodes that only generate; 0: all GPUs generate, then train
  bool hybrid = false;  ///< the others generate too
  auto operator<=>(const LoopSplit&) const = default;
  bool has_schedule(const std::string& name) const {
    return name == "colocated" ? nodes == 0 : nodes > 0 && hybrid == (name == "hybrid");
  }
};

/// Engines on the nodes that generate, and the time in which they generate the answers of a step.
struct MadeAnswers {
  EngineDegrees engine;
  double seconds = 0, weights = 0;  ///< `weights`: least time of the transfer, without its network
  double least = 0;                 ///< least time if engines never wait
  std::string error;
};

/// A loop that may be the best: engines, and the training half number `half` of its split.
struct PromisingLoop {
  double bound = 0;
  std::size_t order = 0, schedule = 0, engine = 0, half = 0;
  LoopSplit split;
  bool operator<(const PromisingLoop& other) const {
    return std::tie(bound, order) > std::tie(other.bound, other.order);
  }
};

/// Returns the values that the user states for a field.
std::vector<std::string> varied_values(const LoopLayoutOptions& options, const char* path) {
  for (const PlanSpaceOptions::Axis& axis : options.vary)
    if (axis.path == path) return axis.values;
  return {};
}

class LayoutSearch {
 public:
  LayoutSearch(const Scenario& s, const LoopLayoutOptions& options, LoopAnswer& answer)
      : scenario_(s), options_(options), answer_(answer), most_(options.work > 0 ? options.work : kLoopWork) {}

  /// Searches loops of one batch with these schedules. `splits` true: the best loop of each split is simulated too.
  void run(const LoopBatch& batch, const std::vector<LoopSchedule>& schedules, bool splits) {
    batch_ = batch;
    schedules_ = schedules;
    best_ = kNoLoop;
    for (const LoopRow& row : answer_.rows)
      if (splits && row.error.empty() && LoopBatch{row.prompts, row.samples_per_prompt} == batch)
        best_ = static_cast<double>(batch.prompts * batch.samples) / row.samples_per_s;
    engines_.clear();
    promising_.clear();
    generate();
    for (const auto& [split, all] : engines_)
      for (std::size_t i = 0; i < schedules_.size(); ++i) {
        if (!split.has_schedule(schedules_[i].name)) continue;
        for (std::size_t e = 0; e < all.size(); ++e)
          if (all[e].error.empty()) push({0, 0, i, e, 0, split});
      }
    if (splits) simulate_each_split();
    while (!promising_.empty() && promising_.front().bound < best_) {
      if (has_reached_limit() || is_interrupted()) {
        if (splits) leave_open(promising_.front().bound);
        break;
      }
      advance();
    }
  }

  double work() const {
    double sum = work_;
    for (const auto& [key, halves] : halves_)
      if (halves) sum += halves->work();
    return sum;
  }
  void add_figures() const {
    answer_.work = work();
    for (const auto& [key, halves] : halves_)
      if (halves) {
        answer_.training_plans += halves->plans();
        answer_.training_halves += halves->simulated();
      }
  }

 private:
  const Scenario& scenario_;
  const LoopLayoutOptions& options_;
  LoopAnswer& answer_;
  double most_ = 0, work_ = 0, best_ = kNoLoop;
  LoopBatch batch_;
  std::vector<LoopSchedule> schedules_;
  std::map<LoopSplit, std::vector<MadeAnswers>> engines_;
  std::map<std::tuple<LoopSplit, LoopBatch>, std::unique_ptr<TrainingHalves>> halves_;
  std::vector<PromisingLoop> promising_;  // a heap
  std::size_t order_ = 0;

  /// Returns true if the search has to end. Without any loop that fits, it goes on for ten times the limit of work.
  bool has_reached_limit() const {
    constexpr double more_work = 10;
    return work() >= (best_ < kNoLoop ? most_ : more_work * most_);
  }
  /// Notes that loops with this bound were not simulated.
  void leave_open(double loop_bound) {
    answer_.proved = false;
    answer_.open_bound = answer_.open_bound > 0 ? std::min(answer_.open_bound, loop_bound) : loop_bound;
  }

  template <typename Value>
  bool allows(const char* path, Value value) const {
    const std::vector<std::string> values = varied_values(options_, path);
    return values.empty() || std::ranges::find(values, fmt::format("{}", value)) != values.end();
  }
  LoopQuestion question() const { return {.headroom = options_.headroom}; }
  void show(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  LoopPlacement placement(const LoopSplit& split, const EngineDegrees& engine, const LoopSchedule& schedule) const {
    const bool synchronous = schedule.name == "colocated" || schedule.name == "hybrid";
    LoopPlacement p{"", scenario_.post_training->machine_nodes, split.nodes, engine,
                    synchronous ? "synchronous" : schedule.name};
    p.hybrid = split.hybrid;
    if (schedule.name == "asynchronous") p.staleness = schedule.staleness;
    p.prompts = batch_.prompts;
    p.samples_per_prompt = batch_.samples;
    return p;
  }

  /// Returns the document of a placement, with a batch of the optimizer that divides the samples of a step.
  Node document_of(const LoopPlacement& p) const {
    Node document = scenario_.document;
    for (const auto& [path, value] : changes_of(scenario_, p)) set_field(document, path, value);
    const std::int64_t batch = optimizer_batch(*scenario_.post_training, batch_.prompts * batch_.samples);
    if (batch > 0) set_field(document, "plan.global_batch_size", fmt::format("{}", batch));
    return document;
  }

  /// Returns the samples of an optimizer step if the scenario's do not divide `samples`: those of as many optimizer
  /// steps. 0: the scenario's divide them.
  static std::int64_t optimizer_batch(const PostTrainingChoice& loop, std::int64_t samples) {
    if (samples % loop.training_samples == 0) return 0;
    const std::int64_t steps = loop.samples() / loop.training_samples;
    return samples % steps == 0 ? samples / steps : samples;
  }

  /// Simulates the generation of all splits and engines.
  void generate() {
    std::vector<LoopSplit> splits{{}};
    for (const int nodes : split_nodes(*scenario_.post_training, scenario_.post_training->machine_nodes))
      splits.insert(splits.end(), {{nodes}, {nodes, true}});
    std::erase_if(splits, [&](const LoopSplit& split) {
      const auto suits = [&split](const LoopSchedule& schedule) { return split.has_schedule(schedule.name); };
      return !allows(kNodesAxis, split.nodes) || !allows(kHybridAxis, split.hybrid) ||
             std::ranges::none_of(schedules_, suits);
    });
    std::vector<std::pair<LoopSplit, EngineDegrees>> all;
    for (const LoopSplit& split : splits)
      for (const EngineDegrees& engine : engines_on(scenario_, split.nodes, split.hybrid))
        if (allows(kTensorAxis, engine.tensor) && allows(kExpertAxis, engine.expert) && allows(kDataAxis, engine.data))
          all.emplace_back(split, engine);
    show(fmt::format("generation of {} layouts of engines", all.size()));
    GeneratedSteps steps;
    const std::vector<MadeAnswers> made = all_in_parallel(all.size(), processors(), [&](std::size_t i) {
      MadeAnswers answers;
      answers.engine = all[i].second;
      try {
        const Node document = document_of(placement(all[i].first, all[i].second, {"synchronous"}));
        const Scenario s = read_plan_question(document, scenario_.name).base;
        const PostTrainingChoice& choice = *s.post_training;
        const GeneratedStep step = steps.find(s);
        answers.seconds = step.seconds;
        answers.least = step.least;
        if (!choice.weight_store) answers.weights = library_transfer(choice, s.model.entry, step.sent).value;
      } catch (const UserError& e) {
        answers.error = e.what();
      }
      return answers;
    });
    for (std::size_t i = 0; i < all.size(); ++i) {
      work_ += kOperationsOfAnswer * static_cast<double>(batch_.prompts * batch_.samples);
      if (!made[i].error.empty()) {
        LoopRow row;
        row.node = scenario_.cluster.node.name;
        row.nodes = scenario_.post_training->machine_nodes;
        row.generation_nodes = all[i].first.nodes;
        row.hybrid = all[i].first.hybrid;
        std::tie(row.engine, row.engine_gpus) = std::pair(all[i].second.words(), all[i].second.gpus());
        row.error = made[i].error;
        answer_.rows.push_back(row);
      }
      engines_[all[i].first].push_back(made[i]);
    }
  }

  /// Returns the training halves on the nodes that the split leaves. Null: no plan of the half can be read.
  TrainingHalves* halves(const PromisingLoop& p) {
    const auto [found, is_new] = halves_.try_emplace({p.split, batch_});
    if (!is_new) return found->second.get();
    show(fmt::format("layouts of the training half, {} nodes only generate", p.split.nodes));
    PlanSpaceOptions space;
    for (const PlanSpaceOptions::Axis& axis : options_.vary)
      if (axis.path.starts_with("plan.")) space.vary.push_back(axis);
    const EngineDegrees& engine = engines_.at(p.split)[p.engine].engine;
    // A hybrid trains on the same nodes as the split of as many nodes.
    const auto sibling =
        p.split.nodes > 0 ? halves_.find({LoopSplit{p.split.nodes, !p.split.hybrid}, batch_}) : halves_.end();
    try {
      found->second = std::make_unique<TrainingHalves>(
          document_of(placement(p.split, engine, {"synchronous"})), scenario_, space,
          sibling == halves_.end() ? nullptr : sibling->second.get(), options_.headroom);
    } catch (const UserError&) {  // the split has no training half
    }
    return found->second.get();
  }

  /// Returns a lower bound of the step of a loop, s.
  double bound(const PromisingLoop& p, double half, double copies) const {
    const MadeAnswers& made = engines_.at(p.split)[p.engine];
    const std::string& schedule = schedules_[p.schedule].name;
    if (schedule == "asynchronous") return std::max(half, made.least) + made.weights;
    if (schedule == "one-step-off") return std::max(made.seconds, half) + made.weights;
    const double reload = schedule != "synchronous" ? scenario_.post_training->stack.reload.value + copies : 0;
    return made.seconds + half + made.weights + reload;
  }

  void push(PromisingLoop p) {
    // Bounds of training halves take long, and many splits are no match by their generation alone.
    const auto found = halves_.find({p.split, batch_});
    if (found != halves_.end() && !found->second) return;
    const double half = found == halves_.end() ? 0 : found->second->bound(p.half);
    if (half == kNoLoop) return;
    p.bound = bound(p, half, 0) * (1 - 1e-12);  // sums in another order differ by rounding
    p.order = order_++;
    restore(p);
  }

  PromisingLoop pop() {
    std::pop_heap(promising_.begin(), promising_.end());
    const PromisingLoop p = promising_.back();
    promising_.pop_back();
    return p;
  }

  void simulate(const std::vector<LoopPlacement>& placements) {
    const std::vector<LoopRow> rows = all_in_parallel(placements.size(), processors(), [&](std::size_t i) {
      return simulated_row(scenario_, placements[i], question());
    });
    for (const LoopRow& row : rows) {
      ++answer_.loops;
      work_ += kStepsOfLoop * kOperationsOfAnswer * static_cast<double>(batch_.prompts * batch_.samples);
      if (row.error.empty())
        best_ = std::min(best_, static_cast<double>(batch_.prompts * batch_.samples) / row.samples_per_s);
      answer_.rows.push_back(row);
    }
    if (best_ < kNoLoop)
      show(fmt::format("{} loops simulated, the best takes {}", answer_.loops, trainyard::show(Seconds{best_})));
  }

  LoopPlacement placement_of(const PromisingLoop& p, const TrainingHalf& half) const {
    LoopPlacement placed = placement(p.split, engines_.at(p.split)[p.engine].engine, schedules_[p.schedule]);
    placed.plan = half.section;
    return placed;
  }

  /// Refines or simulates the loops with the lowest bounds.
  void advance() {
    std::vector<LoopPlacement> placements;
    while (!promising_.empty() && placements.size() < kLoopsAtOnce && promising_.front().bound < best_) {
      PromisingLoop p = pop();
      TrainingHalves* all = halves(p);
      if (!all) continue;
      const TrainingHalf* half = all->find(p.half);
      if (!half) {
        if (!placements.empty()) {  // bounds of loops that are not ready wait for those that are
          restore(p);
          break;
        }
        if (has_reached_limit()) return restore(p);
        all->refine();
        push(p);
        continue;
      }
      const double exact = bound(p, half->seconds, half->copies) * (1 - 1e-12);
      if (exact > p.bound) {
        p.bound = exact;
        restore(p);
        continue;
      }
      placements.push_back(placement_of(p, *half));
      // A slower half may make a faster asynchronous loop: only its bound ends the search.
      ++p.half;
      push(p);
    }
    if (!placements.empty()) simulate(placements);
  }

  void restore(const PromisingLoop& p) {
    promising_.push_back(p);
    std::push_heap(promising_.begin(), promising_.end());
  }

  /// Simulates the loop with the fastest generation and the fastest training half of each split and schedule.
  void simulate_each_split() {
    std::vector<LoopPlacement> placements;
    std::vector<PromisingLoop> first;
    for (const PromisingLoop& p : promising_) {
      auto same = std::ranges::find_if(
          first, [&](const PromisingLoop& f) { return f.split == p.split && f.schedule == p.schedule; });
      const auto seconds = [&](const PromisingLoop& l) { return engines_.at(l.split)[l.engine].seconds; };
      if (same == first.end())
        first.push_back(p);
      else if (std::pair(seconds(p), p.order) < std::pair(seconds(*same), same->order))
        *same = p;
    }
    sort_stably(first, [](const PromisingLoop& a, const PromisingLoop& b) {
      return std::tie(a.bound, a.order) < std::tie(b.bound, b.order);
    });
    const double most = 2 * best_;  // much slower splits are of no interest
    for (const PromisingLoop& p : first) {
      if (p.bound >= most) continue;
      TrainingHalves* all = halves(p);
      while (all && !all->find(0) && work() < most_ && !is_interrupted() && all->refine()) continue;
      if (const TrainingHalf* half = all ? all->find(0) : nullptr) placements.push_back(placement_of(p, *half));
    }
    simulate(placements);
  }
};

std::vector<std::int64_t> varied_numbers(const LoopLayoutOptions& options, const char* path, std::int64_t fallback) {
  std::vector<std::int64_t> values;
  for (const std::string& text : varied_values(options, path))
    values.push_back(whole_number(parse_override(text, fmt::format("--vary {}", path)), path, 1, kMostLoopSamples));
  return values.empty() ? std::vector{fallback} : values;
}

std::vector<double> varied_staleness(const LoopLayoutOptions& options) {
  std::vector<double> values;
  for (const std::string& text : varied_values(options, kStalenessAxis))
    if (values.push_back(find_number(text).value_or(-1)); !(values.back() >= 0))
      throw UserError(fmt::format("--vary {}: {}: a number of steps expected, such as 0.5", kStalenessAxis, text));
  return values;
}

void require_axes(const LoopLayoutOptions& options) {
  for (const PlanSpaceOptions::Axis& axis : options.vary)
    if (!axis.path.starts_with("plan.") && std::ranges::find(loop_axes(), axis.path) == loop_axes().end())
      throw UserError(
          fmt::format("--vary {}: expected a field of plan, or {}", axis.path, fmt::join(loop_axes(), ", ")));
}

/// Appends the best of the rows from number `first` on to the alternatives, and removes these rows.
void take_alternative(LoopAnswer& answer, std::size_t first) {
  const LoopRow* best = nullptr;
  for (std::size_t i = first; i < answer.rows.size(); ++i)
    if (const LoopRow& row = answer.rows[i]; row.error.empty() && (!best || row.samples_per_s > best->samples_per_s))
      best = &row;
  if (best) answer.alternatives.push_back(*best);
  answer.rows.resize(first);
}

}  // namespace

const std::vector<std::string>& loop_axes() {
  static const std::vector<std::string> axes{kPromptsAxis, kSamplesAxis, kStalenessAxis, kNodesAxis,
                                             kHybridAxis,  kTensorAxis,  kExpertAxis,    kDataAxis};
  return axes;
}

LoopAnswer search_loop_layouts(const Scenario& s, const LoopLayoutOptions& options) {
  LoopAnswer answer = empty_loop_answer(s, {});
  require_axes(options);
  const PostTrainingChoice& choice = *s.post_training;
  LayoutSearch search(s, options, answer);
  const std::vector<double> staleness = varied_staleness(options);
  const std::vector<LoopSchedule> schedules =
      staleness.empty() ? own_schedules(choice) : schedules_with(staleness, true);
  const std::vector<std::int64_t> prompts = varied_numbers(options, kPromptsAxis, choice.prompts),
                                  samples = varied_numbers(options, kSamplesAxis, choice.samples_per_prompt);
  answer.proved = true;
  answer.scenario_loop = simulated_row(s, own_placement(s), {.headroom = options.headroom});
  answer.has_asynchronous = std::ranges::find(schedules, "asynchronous", &LoopSchedule::name) != schedules.end();
  // The scenario's loop competes even if it is outside of the space, unless the user asks for other values.
  const auto allows_own = [&s](const PlanSpaceOptions::Axis& axis) { return has_value(s, axis.path, axis.values); };
  if (answer.scenario_loop->tight.empty() && std::ranges::all_of(options.vary, allows_own))
    answer.rows.push_back(*answer.scenario_loop);
  for (const std::int64_t p : prompts)
    for (const std::int64_t n : samples) search.run({p, n}, schedules, true);
  const std::size_t found = answer.rows.size();
  if (prompts.size() * samples.size() == 1 && answer.proved)
    for (const std::int64_t p : {prompts.front() / 2, prompts.front() * 2}) {
      if (p < 1 || p * samples.front() > kMostLoopSamples) continue;
      search.run({p, samples.front()}, schedules, false);
      take_alternative(answer, found);
    }
  if (staleness.empty() && answer.proved) {
    const double bound = choice.asynchrony ? choice.asynchrony->staleness : choice.one_step_off ? 1 : 0;
    std::vector<LoopSchedule> staler = schedules_with({bound == 0 ? 1 : 2 * bound}, bound > 0);
    std::erase_if(staler, [&](const LoopSchedule& x) { return std::ranges::find(schedules, x) != schedules.end(); });
    search.run({prompts.front(), samples.front()}, staler, false);
    take_alternative(answer, found);
  }
  search.add_figures();
  sort_stably(answer.rows, [](const LoopRow& a, const LoopRow& b) {
    return std::tuple(!a.error.empty(), -a.samples_per_s) < std::tuple(!b.error.empty(), -b.samples_per_s);
  });
  // The scenario's loop may be one that the search has found too.
  const auto same = std::ranges::unique(answer.rows, [](const LoopRow& a, const LoopRow& b) {
    return a.error.empty() && a.samples_per_s == b.samples_per_s && a.engine == b.engine && a.training == b.training &&
           a.generation_nodes == b.generation_nodes && a.hybrid == b.hybrid && a.schedule == b.schedule;
  });
  answer.rows.erase(same.begin(), same.end());
  finish_loop_answer(answer);
  return answer;
}

}  // namespace trainyard
