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

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json mean_json(const SeedMean& m) {
  return {{"mean", finite(m.mean)}, {"half_width", finite(m.half_width)}, {"seeds", m.seeds}};
}

const std::pair<const char*, TargetFigure> kTargetFigures[] = {
    {"time_s", [](const LearnResult&, const LearnPoint& p) { return p.time; }},
    {"steps", [](const LearnResult&, const LearnPoint& p) { return p.steps; }},
    {"samples", [](const LearnResult&, const LearnPoint& p) { return p.samples; }},
    {"bytes", [](const LearnResult&, const LearnPoint& p) { return p.bytes; }},
    {"gpu_hours", [](const LearnResult& r, const LearnPoint& p) { return r.gpu_hours(p); }}};

Json run_json(const LearnResult& r, std::uint64_t seed) {
  Json points = Json::array();
  for (const LearnPoint& p : r.points) points.push_back(learn_point_json(p));
  Json j{{"seed", seed}, {"ended", r.ended}};
  if (r.diverged_at >= 0) j["diverged_at_step"] = r.diverged_at;
  if (r.diverged_at >= 0) j["diverged_loss"] = finite(r.diverged_loss);
  j["worse_than_start"] = r.worse_than_start();
  if (r.reached) j["reached"] = learn_point_json(*r.reached);
  j["updates"] = r.updates;
  j["mean_staleness"] = r.mean_staleness;
  j["worst_staleness"] = r.worst_staleness;
  j["mean_lambda"] = r.mean_lambda;
  if (r.merges > 0) j["merges"] = r.merges;
  if (r.farthest().positions.size() > 1) {
    const std::vector<double>& all = r.farthest().positions;
    const auto below = std::count_if(all.begin(), all.end(), [](double w) { return w < 0; });
    j["farthest"] = learn_point_json(r.farthest());
    j["farthest"]["below_zero"] = below;
    j["farthest"]["above_zero"] = std::ssize(all) - below;
  }
  j["points"] = points;
  return j;
}

/// A training of a study.
struct LearnJob {
  std::size_t variant = 0;
  std::uint64_t seed = 0;
};

/// Runs trainings in parallel, each once. A result text that begins with '!' is the reason why the training is
/// impossible.
class LearnJobs {
 public:
  LearnJobs(const LearnQuestion& question, const std::vector<LearnVariant>& variants, const std::vector<LearnJob>& jobs)
      : question_(question), variants_(variants), jobs_(jobs), journal_(question.journal), texts_(jobs.size()) {}

  std::vector<std::string> run() {
    std::vector<std::string> keys(jobs_.size());
    std::vector<std::size_t> open;
    std::size_t done = 0;
    for (std::size_t job = 0; job < jobs_.size(); ++job) {
      if (!question_.journal.empty()) keys[job] = answer_key(scenario(job));
      const std::optional<std::string> stored = is_single() ? std::nullopt : journal_.find(keys[job]);
      if (stored) texts_[job] = *stored;
      if (stored) ++done;
      if (!stored && question_.shard.has(job)) open.push_back(job);
    }
    const std::size_t all = done + open.size();
    if (is_single() && !open.empty()) {  // this process trains itself, so partial results survive an interrupt
      texts_[open[0]] = train(open[0]);
      if (!is_interrupted()) journal_.add(keys[open[0]], texts_[open[0]]);
      return std::move(texts_);
    }
    in_parallel(
        open.size(), processors(), [&](std::size_t k) { return train(open[k]); },
        [&](std::size_t k, const std::string& text) {
          texts_[open[k]] = text;
          journal_.add(keys[open[k]], text);
          if (question_.progress) question_.progress(++done, all);
        });
    return std::move(texts_);
  }

 private:
  const LearnQuestion& question_;
  const std::vector<LearnVariant>& variants_;
  const std::vector<LearnJob>& jobs_;
  Journal journal_;
  std::vector<std::string> texts_;

  bool is_single() const { return jobs_.size() == 1; }  // a single training shows its progress and may write its result
  Scenario scenario(std::size_t job) const {
    const auto& [variant, seed] = jobs_[job];
    return read_scenario(question_.scenario,
                         appended_overrides(variants_[variant].overrides, {{"learn.seed", std::to_string(seed)}}));
  }
  std::string train(std::size_t job) const {
    try {
      LearnOptions options;
      options.progress = options.saves = options.partial = is_single();
      return to_text(learn(scenario(job), options));
    } catch (const UserError& e) {  // an error that only the run shows
      if (is_single()) throw;
      return std::string("!") + e.what();
    }
  }
};

std::vector<FieldRow> learn_rows() {
  const std::string over_seeds = "mean, half_width of its 95 % interval, seeds";
  std::vector<FieldRow> rows{
      {"scenario", "text", "name of the scenario", ""},
      {"seeds", "number", "trainings of each variant", ""},
      {"unfinished", "text", "how far the study came", "if a signal ended it"},
      {"variants", "list", "one training for each combination of the values of --compare", ""},
      {"variants[].name", "text", "overrides of the variant", ""},
      {"variants[].error", "text", "why it is impossible, instead of all else", "of impossible variants"},
      {"variants[].task", "text", "name of the learned task", ""},
      {"variants[].mechanism", "text", "how replicas come to common parameters", ""},
      {"variants[].parameters", "number", "number of parameters of the learner's network", ""},
      {"variants[].ranks", "number", "number of ranks, one on each device", ""},
      {"variants[].step_time_s", "s", "mean time of a global batch", ""},
      {"variants[].step_time_interval_s", "s",
       "lower and upper end of the interval that holds this time on the real machine with a probability of 80 %; all "
       "times of the curves are as uncertain",
       "if the stack was or can be measured"},
      {"variants[].reached", "number", "seeds that reached the target", ""},
      {"variants[].diverged", "number", "number of seeds whose training diverged", ""},
      {"variants[].to_target", "object",
       "time, steps, samples, bytes and GPU-hours to reach the target, over the seeds that reached it",
       "if any seed reached it"}};
  for (const auto& [key, figure] : kTargetFigures)
    rows.push_back({std::string("variants[].to_target.") + key, "object", over_seeds, "if any seed reached it"});
  rows.push_back({"variants[].to_target.speedup", "object",
                  "time of the first variant divided by this time, seed by seed: " + over_seeds,
                  "if any seed reached it, and there are several variants"});
  rows.push_back({"variants[].final", "object", "state of the training at its end", ""});
  for (const char* key : {"loss", "accuracy", "noise_scale_samples", "replicas_apart"})
    rows.push_back({std::string("variants[].final.") + key, "object", over_seeds, ""});
  rows.push_back({"variants[].runs", "list", "one for each seed", ""});
  const std::pair<const char*, const char*> run_figures[] = {
      {"seed", "seed of the initial values and of the order of samples"},
      {"updates", "number of updates of the weights"},
      {"mean_staleness", "mean number of updates that a gradient missed"},
      {"worst_staleness", "largest number of updates that a gradient missed"},
      {"mean_lambda", "mean factor on a gradient, or share of a worker's weights in the new weights of the servers"}};
  for (const auto& [key, words] : run_figures)
    rows.push_back({std::string("variants[].runs[].") + key, "number", words, ""});
  rows.push_back({"variants[].runs[].ended", "text", "target, steps, early stopping, diverged or interrupted", ""});
  rows.push_back(
      {"variants[].runs[].diverged_at_step", "number", "step at which the training diverged", "if it diverged"});
  rows.push_back(
      {"variants[].runs[].diverged_loss", "number", "loss at that step; null: it is no number", "if it diverged"});
  rows.push_back({"variants[].runs[].worse_than_start", "true or false", "the loss at the end is above the first", ""});
  rows.push_back(
      {"variants[].runs[].merges", "number", "how often all replicas averaged their weights", "if they average"});
  rows.push_back(
      {"variants[].runs[].reached", "object", "evaluation at which the target was reached", "if it was reached"});
  rows.push_back(
      {"variants[].runs[].farthest", "object",
       "evaluation at which replicas were farthest apart; below_zero, above_zero: replicas on each side of 0",
       "in a task of a few parameters"});
  rows.push_back({"variants[].runs[].points", "list",
                  "evaluations: time_s, steps, samples, bytes, "
                  "training_loss, loss, accuracy, noise_scale_samples, replicas_apart; replicas_loss and positions of "
                  "the replicas in a task of a few parameters",
                  ""});
  return rows;
}

const RegisterJsonReference learn_json{"learn", "trainings on the simulated clock", learn_rows};

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
      std::count_if(runs.begin(), runs.end(), [](const LearnResult& r) { return r.reached.has_value(); }));
}

std::size_t LearnVariant::diverged_runs() const {
  return static_cast<std::size_t>(
      std::count_if(runs.begin(), runs.end(), [](const LearnResult& r) { return r.diverged_at >= 0; }));
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
  const std::vector<std::string> texts = LearnJobs(q, study.variants, jobs).run();
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    LearnVariant& v = study.variants[jobs[job].variant];
    if (texts[job].empty()) {  // the training is in another shard, or was interrupted
      if (is_interrupted()) ++study.open;
      continue;
    }
    if (texts[job].starts_with('!'))
      v.error = texts[job].substr(1);
    else
      v.runs.push_back(learn_result_from_text(texts[job]));
  }
  study.trainings = jobs.size();
  if (is_interrupted()) {
    study.interrupted = true;
    std::erase_if(study.variants, [](const LearnVariant& v) { return v.error.empty() && v.runs.empty(); });
    return study;
  }
  const auto impossible = [](const LearnVariant& v) { return !v.error.empty(); };
  if (q.shard.is_whole() && std::all_of(study.variants.begin(), study.variants.end(), impossible))
    throw UserError(fmt::format("all {} variants are impossible; the first: {}", count, study.variants.front().error));
  return study;
}

std::optional<std::array<double, 2>> likely_learn_steps(const Scenario& s, const LearnResult& r) {
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

Json learn_study_json(const LearnQuestion& q, const LearnStudy& study) {
  Json variants = Json::array();
  for (const LearnVariant& v : study.variants) {
    Json j{{"name", v.name}};
    if (!v.error.empty()) {
      j["error"] = v.error;
      variants.push_back(j);
      continue;
    }
    const LearnResult& first = v.runs.front();
    j["task"] = first.task;
    j["mechanism"] = first.mechanism;
    j["parameters"] = first.parameters;
    j["ranks"] = first.ranks;
    j["step_time_s"] = first.step_time().value;
    const Scenario scenario = read_scenario(q.scenario, v.overrides);
    if (const auto interval = likely_learn_steps(scenario, first)) j["step_time_interval_s"] = *interval;
    j["reached"] = v.reached_runs();
    j["diverged"] = v.diverged_runs();
    Json target;
    for (const auto& [key, figure] : kTargetFigures) target[key] = mean_json(v.to_target(figure));
    if (study.variants.size() > 1) target["speedup"] = mean_json(v.speedup(study.variants.front()));
    if (v.reached_runs() > 0) j["to_target"] = target;
    j["final"] = {{"loss", mean_json(v.at_end(&LearnPoint::loss))},
                  {"accuracy", mean_json(v.at_end(&LearnPoint::accuracy))},
                  {"noise_scale_samples", mean_json(v.at_end(&LearnPoint::noise_scale))},
                  {"replicas_apart", mean_json(v.at_end(&LearnPoint::replica_distance))}};
    Json runs = Json::array();
    std::uint64_t seed = scenario.learn.seed;
    for (const LearnResult& r : v.runs) runs.push_back(run_json(r, seed++));
    j["runs"] = runs;
    variants.push_back(j);
  }
  Json all{{"scenario", q.scenario.stem().string()}, {"seeds", study.seeds}};
  if (study.interrupted) all["unfinished"] = study.progress_text();
  all["variants"] = variants;
  return all;
}

}  // namespace trainyard
