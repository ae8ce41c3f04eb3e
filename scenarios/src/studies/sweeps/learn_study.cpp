#include "scenarios/src/studies/sweeps/learn_study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/running/steady_state.hpp"
#include "scenarios/src/studies/measured/post_training_errors.hpp"
#include "scenarios/src/studies/measured/step_doubt.hpp"
#include "scenarios/src/studies/sweeps/sweep_journal.hpp"
#include "sim/json_text.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;
using TargetFigure = std::function<double(const LearnResult&, const LearnPoint&)>;

SeedMean mean_of(const std::vector<double>& values) {
  if (values.empty()) return {NAN, HUGE_VAL, 0};
  double sum = 0;
  for (const double value : values) sum += value;
  return {sum / static_cast<double>(values.size()), half_width(values), values.size()};
}

std::string name_of(const Overrides& point) {
  std::vector<std::string> words;
  for (const auto& [path, value] : point) words.push_back(fmt::format("{}={}", path, value));
  return fmt::format("{}", fmt::join(words, " "));
}

Overrides appended_overrides(const Overrides& a, const Overrides& b) {
  Overrides all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

constexpr std::pair<const char*, double (*)(const LearnResult&, const LearnPoint&)> kTargetFigures[] = {
    {"time_s", [](const LearnResult&, const LearnPoint& p) { return p.time; }},
    {"steps", [](const LearnResult&, const LearnPoint& p) { return p.steps; }},
    {"samples", [](const LearnResult&, const LearnPoint& p) { return p.samples; }},
    {"bytes", [](const LearnResult&, const LearnPoint& p) { return p.bytes; }},
    {"gpu_hours", [](const LearnResult& r, const LearnPoint& p) { return r.gpu_hours(p); }}};

/// A training of a study.
struct LearnJob {
  std::size_t variant = 0;
  std::uint64_t seed = 0;
};

/// A training that was done, or the reason why it is impossible.
struct LearnOutcome {
  std::optional<LearnResult> result = {};
  std::string error = {};
};

std::string to_text(const LearnOutcome& outcome) {
  return outcome.result ? to_text(*outcome.result) : json_text(Json{{"error", outcome.error}});
}

LearnOutcome outcome_from_text(const std::string& text) {
  const Json j = parse_ordered_json(text);
  if (j.contains("error")) return {{}, j.at("error").get<std::string>()};
  return {learn_result_from_text(text)};
}

/// Runs trainings in parallel, each once. No value: a training is in another shard, or was interrupted.
class LearnJobs {
 public:
  LearnJobs(const LearnQuestion& question, const std::vector<LearnVariant>& variants, const std::vector<LearnJob>& jobs)
      : question_(question), variants_(variants), jobs_(jobs), journal_(question.journal), outcomes_(jobs.size()) {}

  std::vector<std::optional<LearnOutcome>> run() {
    std::vector<std::string> keys(jobs_.size());
    std::vector<std::size_t> open;
    std::size_t done = 0;
    for (std::size_t job = 0; job < jobs_.size(); ++job) {
      if (!question_.journal.empty()) keys[job] = answer_key(scenario(job));
      const std::optional<std::string> stored = is_single() ? std::nullopt : journal_.find(keys[job]);
      if (stored) outcomes_[job] = outcome_from_text(*stored);
      if (stored) ++done;
      if (!stored && question_.shard.has(job)) open.push_back(job);
    }
    const std::size_t all = done + open.size();
    if (is_single() && !open.empty()) {  // this process trains itself, so partial results survive an interrupt
      outcomes_[open[0]] = train(open[0]);
      if (!is_interrupted()) journal_.add(keys[open[0]], to_text(*outcomes_[open[0]]));
      return std::move(outcomes_);
    }
    in_parallel(
        open.size(), processors(), [&](std::size_t k) { return train(open[k]); },
        [&](std::size_t k, const LearnOutcome& outcome) {
          outcomes_[open[k]] = outcome;
          journal_.add(keys[open[k]], to_text(outcome));
          if (question_.progress) question_.progress(++done, all);
        });
    return std::move(outcomes_);
  }

 private:
  const LearnQuestion& question_;
  const std::vector<LearnVariant>& variants_;
  const std::vector<LearnJob>& jobs_;
  Journal journal_;
  std::vector<std::optional<LearnOutcome>> outcomes_;

  bool is_single() const { return jobs_.size() == 1; }  // a single training shows its progress and may write its result
  Scenario scenario(std::size_t job) const {
    const auto& [variant, seed] = jobs_[job];
    return read_scenario(question_.scenario,
                         appended_overrides(variants_[variant].overrides, {{"learn.seed", std::to_string(seed)}}));
  }
  LearnOutcome train(std::size_t job) const {
    try {
      LearnOptions options;
      options.progress = options.saves = options.partial = is_single();
      LearnResult result = learn(scenario(job), options);
      result.seed = jobs_[job].seed;
      return {std::move(result)};
    } catch (const UserError& e) {  // an error that only the run shows
      if (is_single()) throw;
      return {{}, e.what()};
    }
  }
};

std::optional<std::array<double, 2>> likely_steps_of(const Scenario& s, const LearnResult& r) {
  if (!no_doubt_reason(s).empty() || r.step_time().value <= 0) return std::nullopt;
  if (s.post_training) {
    const double factor = LoopDoubt::shipped().factor(kLikely);
    return std::array{r.step_time().value / factor, r.step_time().value * factor};
  }
  try {
    return likely_step_times(r.step_time().value, step_doubt(s, simulate(s)));
  } catch (const UserError&) {  // the training ran, but a step alone has no simulation
    return std::nullopt;
  }
}

/// A variant beside the first one, with which it is compared.
struct VariantAnswer : LearnVariant {
  const LearnVariant* first = nullptr;
  bool is_compared = false;  ///< there are several variants
};

/// The answer to a question, in the order of its JSON.
struct LearnAnswer {
  std::string scenario, unfinished;
  int seeds = 1;
  std::vector<VariantAnswer> variants = {};
};

JsonFields<SeedMean> seed_mean_fields() {
  using S = SeedMean;
  return JsonFields<S>()
      .value("mean", "", &S::mean, "mean over the seeds")
      .value("half_width", "", &S::half_width, "half the width of its 95 % interval")
      .value("seeds", "", &S::seeds, "number of seeds that have a value");
}

JsonFields<VariantAnswer> possible_variant_fields() {
  using V = VariantAnswer;
  using R = LearnResult;
  using Point = LearnPoint;
  const char* over_seeds = "mean, half_width of its 95 % interval, seeds";
  JsonFields<V> target, state;
  const auto add = [&](JsonFields<V>& fields, const char* key, auto mean) {
    fields.object(key, mean, seed_mean_fields(), over_seeds).in_one_row();
  };
  for (const auto& [key, figure] : kTargetFigures)
    add(target, key, [figure = figure](const V& v) { return v.to_target(figure); });
  const auto speedup = [](const V& v) { return v.speedup(*v.first); };
  target.object("speedup", speedup, seed_mean_fields(), "time of the first variant divided by this time, seed by seed")
      .in_one_row()
      .when(&V::is_compared, "if there are several variants");
  add(state, "loss", [](const V& v) { return v.at_end(&Point::loss); });
  add(state, "accuracy", [](const V& v) { return v.at_end(&Point::accuracy); });
  add(state, "noise_scale_samples", [](const V& v) { return v.at_end(&Point::noise_scale); });
  add(state, "replicas_apart", [](const V& v) { return v.at_end(&Point::replica_distance); });
  const auto first_run = [](auto& v) -> auto& { return v.runs.front(); };
  const auto step_time = [](const R& r) { return r.step_time().value; };
  return JsonFields<V>()
      .inlined(first_run, JsonFields<R>()
                              .value("task", "", &R::task, "name of the learned task")
                              .value("mechanism", "", &R::mechanism, "how replicas come to common parameters")
                              .value("parameters", "", &R::parameters, "number of parameters of the learner's network")
                              .value("ranks", "", &R::ranks, "number of ranks, one on each device")
                              .value("step_time_s", "s", step_time, "mean time of a global batch"))
      .value("step_time_interval_s", "s", &V::likely_steps,
             "lower and upper end of the interval that holds this time on the real machine with a probability of 80 %; "
             "all times of the curves are as uncertain")
      .when(&V::likely_steps, "if the stack was or can be measured")
      .value("reached", "", &V::reached_runs, "seeds that reached the target")
      .value("diverged", "", &V::diverged_runs, "number of seeds whose training diverged")
      .object("to_target", std::move(target),
              "time, steps, samples, bytes and GPU-hours to reach the target, over the seeds that reached it")
      .when([](const V& v) { return v.reached_runs() > 0; }, "if any seed reached it")
      .object("final", std::move(state), "state of the training at its end")
      .list("runs", &V::runs, learn_result_fields(), "one for each seed");
}

JsonFields<LearnAnswer> learn_fields() {
  using A = LearnAnswer;
  using V = VariantAnswer;
  const auto variants = JsonFields<V>()
                            .value("name", "", &V::name, "overrides of the variant")
                            .value("error", "", &V::error, "why it is impossible, instead of all else")
                            .when(&V::error, "of impossible variants")
                            .inlined(std::identity{}, possible_variant_fields())
                            .when([](const V& v) { return v.error.empty(); }, "");
  return JsonFields<A>()
      .value("scenario", "", &A::scenario, "name of the scenario")
      .value("seeds", "", &A::seeds, "trainings of each variant")
      .value("unfinished", "", &A::unfinished, "how far the study came")
      .when(&A::unfinished, "if a signal ended it")
      .list("variants", &A::variants, variants, "one training for each combination of the values of --compare");
}

const RegisterJsonReference learn_json{"learn", "trainings on the simulated clock", learn_fields};

}  // namespace

SeedMean LearnVariant::to_target(const TargetFigure& figure) const {
  std::vector<double> values;
  for (const LearnResult& r : runs)
    if (r.reached) values.push_back(figure(r, *r.reached));
  return mean_of(values);
}

SeedMean LearnVariant::at_end(double LearnPoint::*figure) const {
  std::vector<double> values;
  for (const LearnResult& r : runs)
    if (r.diverged_at < 0 && std::isfinite(r.last().*figure)) values.push_back(r.last().*figure);
  return mean_of(values);
}

SeedMean LearnVariant::speedup(const LearnVariant& base) const {
  std::vector<double> values;
  for (std::size_t seed = 0; seed < std::min(runs.size(), base.runs.size()); ++seed)
    if (runs[seed].reached && base.runs[seed].reached)
      values.push_back(base.runs[seed].reached->time / runs[seed].reached->time);
  return mean_of(values);
}

std::size_t LearnVariant::reached_runs() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(runs, [](const LearnResult& r) { return r.reached.has_value(); }));
}

std::size_t LearnVariant::diverged_runs() const {
  return static_cast<std::size_t>(std::ranges::count_if(runs, [](const LearnResult& r) { return r.diverged_at >= 0; }));
}

std::string LearnStudy::progress_text() const {
  return trainings == 1 ? "interrupted in the training"
                        : fmt::format("interrupted: {} of {} trainings are done", trainings - open, trainings);
}

LearnStudy run_learn_study(const LearnQuestion& q) {
  LearnStudy study;
  study.seeds = q.seeds;
  const Sweep sweep{q.scenario, q.axes};
  const std::size_t count = q.axes.empty() ? 1 : sweep.points();
  std::vector<LearnJob> jobs;
  for (std::size_t i = 0; i < count; ++i) {
    LearnVariant& v = study.variants.emplace_back();
    const Overrides point = q.axes.empty() ? Overrides{} : sweep.point(i);
    v.name = name_of(point);
    v.overrides = appended_overrides(q.overrides, point);
    try {
      const Scenario s = read_scenario(q.scenario, v.overrides);
      if (!s.learn.is_used()) fail(s.document.place, "no section `learn`; see scenarios/learn-async-vs-sync.yaml");
      study.has_target |= s.learn.has_target();
      for (int seed = 0; seed < q.seeds; ++seed) jobs.push_back({i, s.learn.seed + static_cast<std::uint64_t>(seed)});
    } catch (const UserError& e) {
      if (count == 1) throw;
      v.error = e.what();
    }
  }
  const std::vector<std::optional<LearnOutcome>> outcomes = LearnJobs(q, study.variants, jobs).run();
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    LearnVariant& v = study.variants[jobs[job].variant];
    if (!outcomes[job]) {
      if (is_interrupted()) ++study.open;
    } else if (outcomes[job]->result) {
      v.runs.push_back(*outcomes[job]->result);
    } else {
      v.error = outcomes[job]->error;
    }
  }
  study.trainings = jobs.size();
  if (is_interrupted()) {
    study.interrupted = true;
    std::erase_if(study.variants, [](const LearnVariant& v) { return v.error.empty() && v.runs.empty(); });
    return study;
  }
  for (LearnVariant& v : study.variants)
    if (v.error.empty() && !v.runs.empty())
      v.likely_steps = likely_steps_of(read_scenario(q.scenario, v.overrides), v.runs.front());
  const auto impossible = [](const LearnVariant& v) { return !v.error.empty(); };
  if (q.shard.is_whole() && std::ranges::all_of(study.variants, impossible))
    throw UserError(fmt::format("all {} variants are impossible; the first: {}", count, study.variants.front().error));
  return study;
}

Json learn_study_json(const LearnQuestion& q, const LearnStudy& study) {
  LearnAnswer all{q.scenario.stem().string(), study.interrupted ? study.progress_text() : "", study.seeds};
  for (const LearnVariant& v : study.variants)
    all.variants.push_back({v, &study.variants.front(), study.variants.size() > 1});
  return learn_fields().json(all);
}

}  // namespace trainyard
