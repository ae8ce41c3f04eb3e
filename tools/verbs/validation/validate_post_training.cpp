#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/src/studies/measured/generation_doubt.hpp"
#include "scenarios/src/studies/measured/measured_runs.hpp"
#include "scenarios/src/studies/measured/post_training_errors.hpp"
#include "scenarios/src/studies/measured/step_doubt.hpp"
#include "sim/units.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {
namespace {

// The aims of predictions of rows that constants were not fitted to, and of transfers of weights.
constexpr ErrorLimits kStepAim{.mean = 0.12, .rank = 0.9, .aim = true}, kTransferAim{.mean = 0.2, .aim = true};

std::string loop_runs_table(const std::vector<LoopRun>& runs) {
  TextTable table{"step",  ">generation", ">training", ">log-prob", ">weights", ">reload",
                  ">loop", ">predicted",  ">measured", ">error",    ">tail",    ">preempted"};
  for (const LoopRun& run : runs) {
    const PostTrainingResult& r = run.predicted;
    std::vector<std::string>& row = table.rows.emplace_back(1, run.id);
    for (const double seconds : {r.generation.value, r.training.value, r.log_probabilities.value, r.weights.value,
                                 r.reload.value, r.loop.value, r.step_time.value, run.measured})
      row.push_back(fmt::format("{:.1f}", seconds));
    row.push_back(signed_percent(r.step_time.value / run.measured - 1));
    row.push_back(fmt::format("{:.1f}", r.tail.value));
    row.push_back(fmt::format("{:.0f}", r.preemptions));
  }
  return table.text() +
         "times in s; a row one step off takes the longer of generation and of training, log-prob and loop "
         "together\n\n";
}

std::string loop_constants_line(const char* name, const LoopConstants& c) {
  return fmt::format(
      "{}: loop {:.2f} ms a sample, reload {:.1f} s, a tensor of the weights {:.2f} ms colocated and {:.2f} ms apart\n",
      name, c.loop_sample * 1e3, c.reload, c.colocated_tensor * 1e3, c.apart_tensor * 1e3);
}

/// The measured steps, each predicted without its model.
LoopDoubt left_out_loops(const PostTrainingErrors& errors) {
  std::vector<LeftOutLoop> rows;
  for (const MeasuredPoint& point : errors.model_left_out.points)
    for (const LoopRun& run : errors.runs)
      if (run.id == point.id) rows.push_back({run.id, run.model, point.predicted, point.measured});
  return LoopDoubt(std::move(rows));
}

std::string loop_interval_line(const LoopDoubt& doubt) {
  const double factor = doubt.factor(kLikely);
  return fmt::format(
      "interval of a loop's step: {:.2f} to {:.2f} times the predicted one with a probability of {:.0f} %, by {} steps "
      "of {} models, each predicted without its model; with the factor of the other models, {} of the {} steps lie "
      "within\n",
      1 / factor, factor, kLikely * 100, doubt.rows().size(), doubt.models(), doubt.covered_steps(kLikely),
      doubt.rows().size());
}

/// The errors of other loops and engines, and what they say of each part of a step.
struct OtherLoops {
  std::vector<JudgedSet> sets;
  SequenceFit sequence;
  std::vector<MeasuredPoint> generation, training, step;  ///< points of families to which nothing is fitted
};

OtherLoops predict_other_loops() {
  std::vector<MeasuredFamily> families = measured_families({"post-training"});
  families.erase(families.begin());  // that of the fit of the loop
  OtherLoops others;
  const std::vector<FamilyPrediction> predictions = predict_families(families);
  const auto add = [](std::vector<MeasuredPoint>& all, const std::vector<MeasuredPoint>& points) {
    all.insert(all.end(), points.begin(), points.end());
  };
  for (std::size_t f = 0; f < families.size(); ++f)
    for (std::size_t i = 0; i < predictions[f].figures.size(); ++i) {
      const std::optional<ErrorSet> errors = predictions[f].figure(i);
      if (!errors) continue;
      const std::string& figure = predictions[f].figures[i].name;
      JudgedSet& set = others.sets.emplace_back(judge_set(*errors, predictions[f].figures[i].limits));
      set.judges = !words_of(set.limits).empty();
      if (predictions[f].name == "trtllm") {
        set.errors.name += ", in sample";
        others.sequence = fit_sequence_time(families[f], predictions[f]);
        others.sets.emplace_back(judge_set(others.sequence.left_out, kStepAim)).part = true;
        add(others.generation, others.sequence.left_out.points);
      } else {
        if (figure == "step") add(others.step, errors->points);
        if (figure == "update" || figure == "log-probabilities") add(others.training, errors->points);
        if (figure == "generation" || figure == "throughput") add(others.generation, errors->points);
      }
    }
  return others;
}

/// The errors of each part of a step, over all families, each predicted with constants that are fitted without it.
std::vector<JudgedSet> sets_by_part(const PostTrainingErrors& errors, const OtherLoops& others) {
  std::vector<MeasuredPoint> step = errors.model_left_out.points, transfers;
  step.insert(step.end(), others.step.begin(), others.step.end());
  for (const ErrorSet& set : errors.transfers)
    if (set.name.ends_with("left out")) transfers.insert(transfers.end(), set.points.begin(), set.points.end());
  for (const ErrorSet& set : errors.compared_transfers)
    std::ranges::copy_if(set.points, std::back_inserter(transfers),
                         [](const MeasuredPoint& point) { return !point.id.ends_with(kFittedTransfer); });
  const auto part = [](const char* name, const std::vector<MeasuredPoint>& points, double mean, double rank) {
    JudgedSet set = judge_set(error_set(name, points), {.mean = mean, .rank = rank, .aim = true});
    set.draws = false;
    return set;
  };
  std::vector<MeasuredPoint> training = errors.training_half.points;
  training.insert(training.end(), others.training.begin(), others.training.end());
  return {part("by part: training half", errors.training_half.points, 0.08, 0),
          part("  with verl, whose lengths are assumed", training, 0.08, 0),
          part("by part: generation", others.generation, 0.12, 0), part("by part: step", step, 0.12, 0.9),
          part("by part: transfer of weights", transfers, 0.2, 0)};
}

std::string other_points_table(const std::vector<JudgedSet>& sets) {
  TextTable table{"figure", "run", ">predicted", ">measured", ">error"};
  for (const JudgedSet& set : sets)
    for (const MeasuredPoint& point : set.errors.points)
      table.rows.push_back({set.errors.name, point.id, fmt::format("{:.1f}", point.predicted),
                            fmt::format("{:.1f}", point.measured), signed_percent(point.error())});
  return table.text() + "times in s, throughput in tokens a second and GPU\n\n";
}

/// The points of a set by the group of their run: the part of its id before a slash, if it has one.
std::vector<std::pair<std::string, std::vector<MeasuredPoint>>> grouped_points(const ErrorSet& all) {
  std::vector<std::pair<std::string, std::vector<MeasuredPoint>>> groups;
  for (const MeasuredPoint& point : all.points) {
    if (point.id.find('/') == std::string::npos) continue;
    const std::string group = point.id.substr(0, point.id.find('/'));
    const auto found = std::ranges::find(groups, group, [](const auto& entry) { return entry.first; });
    if (found == groups.end())
      groups.push_back({group, {point}});
    else
      found->second.push_back(point);
  }
  return groups;
}

/// The intervals of engines against the measured figures.
std::string engine_interval_table(const GenerationDoubt& doubt) {
  TextTable table{"interval", ">rows", ">systems", ">in 80 %", ">dense", ">experts"};
  for (std::size_t i = 0; i < kGenerationFigures.size(); ++i) {
    const auto figure = static_cast<GenerationFigure>(i);
    const ClassCoverage c = coverage_of(kGenerationFigures[i], 0, cover_each_engine(doubt, figure));
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {c.name, fmt::format("{}", c.steps), fmt::format("{}", c.families),
           fmt::format("{:.0f} / {:.0f}", c.by_steps[kLikelyIndex] * 100, c.by_families[kLikelyIndex] * 100)};
    for (const char* network : {"dense", "experts"}) {
      const double factor = std::exp(doubt.spread(figure, network, kLikely));
      row.push_back(signed_percent(1 / factor - 1, 0) + " to " + signed_percent(factor - 1, 0));
    }
  }
  return "80 % intervals of the figures that run prints; how many rows they hold of an engine, GPU, kind of network "
         "and\n"
         "format that they do not know (per cent of the rows / mean over these systems); the constants know all "
         "rows\n" +
         table.text();
}

}  // namespace

int validate_serving(const ValidationRequest& request) {
  const std::vector<MeasuredFamily> measured = measured_families({"serving"});
  const std::vector<FamilyPrediction> families = predict_families(measured);
  std::vector<JudgedSet> sets;
  std::string text =
      fmt::format("times of tokens of inference engines ({}) against the simulator\n", families[0].source);
  TextTable points{"figure", "run", ">predicted", ">measured", ">error"};
  for (const FamilyPrediction& family : families)
    for (std::size_t i = 0; i < family.figures.size(); ++i) {
      const std::optional<ErrorSet> all = family.figure(i);
      if (!all) continue;
      sets.push_back(judge_set(*all, family.figures[i].limits));
      for (auto& [group, of_group] : grouped_points(*all)) {
        JudgedSet& set = sets.emplace_back(judge_set(error_set(family.figures[i].name + ": " + group, of_group), {}));
        set.part = true;
        set.judges = false;
      }
      const double scale = family.figures[i].name.starts_with("time") ? 1e3 : 1;
      for (const MeasuredPoint& p : all->points)
        points.rows.push_back({family.figures[i].name, p.id, fmt::format("{:.2f}", p.predicted * scale),
                               fmt::format("{:.2f}", p.measured * scale), signed_percent(p.error())});
    }
  if (request.points) text += points.text() + "times in ms, throughput in tokens a second and GPU\n\n";
  text += error_table(sets, {"mean", "median", "worst", "signed mean", "rank"}, "none");
  for (const FamilyPrediction& family : families) {
    text += family.filled_note();
    if (family.refused_runs() > 0)
      text += fmt::format("{}: {} runs are not predicted\n", family.name, family.refused_runs());
  }
  const GenerationDoubt doubt(generation_errors(measured, families));
  text += engine_interval_table(doubt);
  if (!request.csv.empty()) write_atomically(request.csv, doubt.csv());
  return report(request, "Times of tokens of inference engines", text, sets);
}

int validate_post_training(const ValidationRequest& request) {
  const PostTrainingErrors errors = post_training_errors();
  std::vector<JudgedSet> sets{judge_set(errors.in_sample, errors.limits)};
  for (const ErrorSet* left_out : {&errors.model_left_out, &errors.release_left_out}) {
    JudgedSet& set = sets.emplace_back(judge_set(*left_out, kStepAim));
    set.part = true;
  }
  const OtherLoops others = predict_other_loops();
  sets.insert(sets.end(), others.sets.begin(), others.sets.end());
  for (const ErrorSet& transfer : errors.transfers) sets.push_back(judge_set(transfer, kTransferAim));
  for (const ErrorSet& transfer : errors.compared_transfers) sets.push_back(judge_set(transfer, kTransferAim));
  const std::vector<JudgedSet> parts = sets_by_part(errors, others);
  sets.insert(sets.end(), parts.begin(), parts.end());
  std::string text = fmt::format("steps of post-training loops ({}) against the simulator\n", errors.source);
  if (request.points) {
    std::vector<JudgedSet> listed{judge_set(errors.training_half, {})};
    listed.insert(listed.end(), others.sets.begin(), others.sets.end());
    text += loop_runs_table(errors.runs) + other_points_table(listed);
  }
  text += error_table(sets, {"mean", "median", "worst", "signed mean", "rank"}, "none");
  text += loop_constants_line("constants of the catalog", errors.catalog);
  text += loop_constants_line("a new fit to all steps  ", errors.fitted);
  text +=
      "left out: these four are fitted without the steps of that model or release; the host time of a running sequence "
      "(engine vllm) is not fitted again\n";
  const SequenceFit& sequence = others.sequence;
  text += fmt::format(
      "time of a sequence in a step (engine trtllm): {} and with experts {} in the catalog, {} and {} by a new fit\n"
      "by part: points of all families; steps, throughputs and transfers of checkpoint-engine with constants that are "
      "fitted without their model, and others only if nothing is fitted to them\n"
      "by part, training half: steps one step off that wait for training, less the loop and the transfer of weights "
      "with "
      "constants that are fitted without their model; sources of NeMo-RL state mean lengths, and those of verl none\n",
      show(sequence.catalog[0]), show(sequence.catalog[1]), show(sequence.fitted[0]), show(sequence.fitted[1]));
  const LoopDoubt doubt = left_out_loops(errors);
  text += loop_interval_line(doubt);
  if (!request.csv.empty()) write_atomically(request.csv, doubt.csv());
  return report(request, "Steps of post-training loops", text, sets);
}

}  // namespace trainyard
