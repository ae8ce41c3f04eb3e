#include "scenarios/src/studies/batch_study.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/running/learn_run.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

/// Returns the scale that fits best with this power, and the remaining sum of squares.
std::pair<double, double> fitted_scale(const BatchErrorCurve& curve, double power) {
  double products = 0, squares = 0, residual = 0;
  const auto for_each_larger = [&](const auto& visit) {
    for (const auto& [batch, error] : curve.points)
      if (batch > curve.flat_up_to) visit(std::pow(batch / curve.flat_up_to, power) - 1, error - curve.flat);
  };
  for_each_larger([&](double x, double y) {
    products += x * y;
    squares += x * x;
  });
  const double scale = std::max(0.0, products / squares);
  for_each_larger([&](double x, double y) { residual += (y - scale * x) * (y - scale * x); });
  return {scale, residual};
}

void fit(BatchErrorCurve& curve) {
  double count = 0;
  for (const auto& [batch, error] : curve.points)
    if (batch <= curve.flat_up_to) {
      curve.flat += error;
      ++count;
    }
  curve.flat /= count;
  // The sum of squares has a single minimum over the power, which a ternary search finds.
  double lower = 0.01, upper = 8;
  constexpr int kHalvings = 100;
  for (int i = 0; i < kHalvings; ++i) {
    const double third = (upper - lower) / 3, a = lower + third, b = upper - third;
    (fitted_scale(curve, a).second < fitted_scale(curve, b).second ? upper : lower) =
        fitted_scale(curve, a).second < fitted_scale(curve, b).second ? b : a;
  }
  curve.power = (lower + upper) / 2;
  curve.scale = fitted_scale(curve, curve.power).first;
}

using Json = nlohmann::ordered_json;
constexpr int kSmallerPowers = 4, kLargerPowers = 6;  // powers of two below and above the scenario's batch
constexpr int kMostStepFactor = 16;                   // largest factor on the learner's steps for smaller batches

/// Returns the scenario with another batch. A smaller batch has more steps.
Scenario with_batch(const Scenario& s, std::int64_t batch) {
  const std::int64_t micro = batch / (s.plan.mesh.data * s.micro_batches());
  Overrides changes{{"plan.micro_batch_size", std::to_string(micro)},
                    {"plan.global_batch_size", std::to_string(batch)}};
  const double step_factor = static_cast<double>(s.global_batch_size) / static_cast<double>(batch);
  if (step_factor > 1 && s.learn.has_target())
    changes.emplace_back("learn.steps",
                         fmt::format("{:.0f}", s.learn.steps * std::min<double>(step_factor, kMostStepFactor)));
  return read_again(s, changes);
}

std::vector<std::int64_t> batches_of(const Scenario& s) {
  std::vector<std::int64_t> all;
  const std::int64_t unit = s.plan.mesh.data * s.micro_batches();
  for (int power = -kSmallerPowers; power <= kLargerPowers; ++power) {
    const double batch = std::ldexp(static_cast<double>(s.global_batch_size), power);
    const auto samples = static_cast<std::int64_t>(batch);
    if (batch == static_cast<double>(samples) && samples % unit == 0 && samples >= unit) all.push_back(samples);
  }
  return all;
}

bool has_formula(const Scenario& s) { return s.learn.task.formula.is_given(); }

/// Measures S_min and B_noise in one training of the learner.
void measure(const Scenario& s, BatchStudy& study) {
  if (!s.learn.is_used()) throw UserError(fmt::format("{}: --batch needs a section `learn` with a target", s.name));
  if (!s.learn.has_target()) fail(s.learn.place, "learn: --batch needs a target");
  const LearnResult r = learn(s);
  if (r.diverged_at >= 0)
    fail(s.learn.place,
         fmt::format("learn: the training at batch {} diverges at step {:.0f}, with a loss of {:.3g} after {:.3g} at "
                     "the start: no curve can be computed; set a smaller learn.learning_rate",
                     s.global_batch_size, r.diverged_at, r.diverged_loss, r.points.front().loss));
  if (!r.reached)
    fail(s.learn.place,
         fmt::format("learn: the target is not reached within {} steps: no curve can be computed", s.learn.steps));
  study.model.noise = r.reached->noise_scale;
  study.model.least = r.reached->steps / (1 + study.model.noise / static_cast<double>(s.global_batch_size));
  study.measured = true;
}

}  // namespace

std::pair<double, double> BatchErrorCurve::range() const {
  const auto [least, most] = std::minmax_element(points.begin(), points.end());
  return {least->first, most->first};
}

std::optional<double> BatchErrorCurve::error_percent(double batch) const {
  if (const auto [least, most] = range(); batch < least || batch > most) return std::nullopt;
  return batch <= flat_up_to ? flat : flat + scale * (std::pow(batch / flat_up_to, power) - 1);
}

double BatchErrorCurve::worst() const {
  double most = 0;
  for (const auto& [batch, error] : points) most = std::max(most, std::abs(*error_percent(batch) - error));
  return most;
}

std::optional<BatchErrorCurve> batch_error_curve(const Catalog& catalog, const std::string& network) {
  for (const std::string& name : catalog.names("batch-error")) {
    const Node entry = catalog.resolve("batch-error", Node::scalar_node(name));
    Fields fields(entry, "batch-error " + name);
    BatchErrorCurve curve;
    curve.network = fields.text("network");
    if (curve.network != network) continue;
    curve.flat_up_to = fields.number("flat_up_to", 1, 1e12);
    for (const Node& point : *fields.list("points")) {
      Fields point_fields(point, "batch-error point");
      const double batch = point_fields.number("batch", 1, 1e12);
      curve.points.emplace_back(batch, point_fields.number("error", 0, 100));
    }
    for (const FigureSource& figure : figure_sources(entry, name)) curve.source = figure.source;
    fit(curve);
    return curve;
  }
  return std::nullopt;
}

const BatchPoint* BatchStudy::fastest() const {
  const BatchPoint* best = nullptr;
  for (const BatchPoint& p : points)
    if (p.error.empty() && (!best || p.time() < best->time())) best = &p;
  return best;
}

const BatchPoint* BatchStudy::fastest_learned() const {
  const BatchPoint* best = nullptr;
  for (const BatchPoint& p : points)
    if (p.learned && (!best || p.learned_time() < best->learned_time())) best = &p;
  return best;
}

BatchStudy batch_study(const Scenario& s, const std::function<void(std::size_t, std::size_t)>& progress) {
  BatchStudy study;
  if (has_formula(s)) {
    study.model = s.learn.task.formula;
  } else {
    measure(s, study);
  }
  const std::vector<std::int64_t> batches = batches_of(s);
  std::size_t done = 0;
  const auto answer_batch = [&](std::size_t i) {
    BatchPoint p;
    p.batch = static_cast<double>(batches[i]);
    try {
      const Scenario changed = with_batch(s, batches[i]);
      p.step_time = simulate(changed, plan(changed), {.critical_path = false}).step_time.value;
      if (study.measured) {
        const LearnResult r = learn(changed);
        if (r.reached) p.learned = r.reached->steps;
        p.diverged_at = r.diverged_at;
      }
      p.steps = study.model.steps(p.batch);
    } catch (const UserError& e) {
      p.error = e.what();
    }
    return p;
  };
  study.points = all_in_parallel(batches.size(), processors(), answer_batch, [&](std::size_t, const BatchPoint&) {
    if (progress) progress(++done, batches.size());
  });
  study.published = batch_error_curve(Catalog(), s.network.name);
  return study;
}

Json batch_study_json(const Scenario& s, const BatchStudy& study) {
  Json points = Json::array();
  for (const BatchPoint& p : study.points) {
    Json j{{"batch", p.batch}};
    if (!p.error.empty()) {
      j["error"] = p.error;
    } else {
      j["step_time_s"] = p.step_time;
      j["steps"] = p.steps;
      j["time_s"] = p.time();
      j["samples"] = p.steps * p.batch;
      if (p.learned) {
        j["learned_steps"] = *p.learned;
        j["learned_time_s"] = p.learned_time();
      }
      if (p.diverged_at >= 0) j["diverged_at_step"] = p.diverged_at;
      if (study.published)
        if (const std::optional<double> error = study.published->error_percent(p.batch))
          j["published_error_percent"] = *error;
    }
    points.push_back(j);
  }
  return {{"scenario", s.name},
          {"optimizer", s.optimizer.name},
          {"noise_scale_samples", study.model.noise},
          {"least_steps", study.model.least},
          {"measured", study.measured},
          {"points", points}};
}

namespace {

std::vector<FieldRow> batch_json_rows() {
  return {{"scenario", "text", "name of the scenario", ""},
          {"optimizer", "text", "name of the optimizer", ""},
          {"noise_scale_samples", "number", "batch beyond which more samples save few steps (the critical batch)", ""},
          {"least_steps", "number", "steps that the largest batch needs", ""},
          {"measured", "true|false", "both come from trainings of `learn`", ""},
          {"points", "list", "batches that were tried", ""},
          {"points[].batch", "number", "samples of a step", ""},
          {"points[].error", "text", "why the batch has no answer", "if it has none"},
          {"points[].step_time_s", "s", "time of a step", "if the batch has an answer"},
          {"points[].steps", "number", "steps to the target", "if the batch has an answer"},
          {"points[].time_s", "s", "time to the target", "if the batch has an answer"},
          {"points[].samples", "number", "samples to the target", "if the batch has an answer"},
          {"points[].learned_steps", "number", "steps in which `learn` came to the target", "if it came to it"},
          {"points[].learned_time_s", "s", "time in which `learn` came to the target", "if it came to it"},
          {"points[].diverged_at_step", "number", "step at which `learn` diverged", "if it diverged"},
          {"points[].published_error_percent", "number", "published validation error of the network, %",
           "if one is published for this batch"}};
}
const RegisterJsonReference batch_study_json_reference{"explain --batch", "time to the target against the batch",
                                                       batch_json_rows};

}  // namespace

}  // namespace trainyard
