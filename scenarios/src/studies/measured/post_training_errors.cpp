#include "scenarios/src/studies/measured/post_training_errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "models/fitted/measured_table.hpp"
#include "models/generation/decode_costs.hpp"
#include "models/generation/rl_stack.hpp"
#include "models/networks/network_entry.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/csv_cell.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/measured/measured_runs.hpp"
#include "scenarios/src/studies/measured/step_doubt.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

LoopRun predict_loop(const MeasuredFamily& family, std::size_t row) {
  const Scenario s = read_scenario(family.scenario(row), family.ids[row]);
  LoopRun run;
  run.id = family.ids[row];
  run.release = run.id.substr(0, run.id.find('-'));
  run.model = s.network.name;
  run.samples = static_cast<double>(s.post_training->samples());
  run.tensors = published_tensors(s.model.entry).count;
  run.predicted = *simulate_here(s, {.critical_path = false}).post_training;
  run.has_own_nodes = s.post_training->has_own_nodes();
  run.one_step_off = s.post_training->one_step_off;
  run.measured = family.measured(row, family.figures.front()).value();
  return run;
}

double mean_loop_error(const std::vector<LoopRun>& runs, const LoopConstants& constants) {
  double sum = 0;
  for (const LoopRun& run : runs) sum += std::abs(constants.step_time(run) / run.measured - 1);
  return sum / static_cast<double>(runs.size());
}

/// Predicts each run with constants that are fitted to the runs with another trait. Adds the training halves that decide
/// their step to `halves`.
ErrorSet left_out_by(const std::string& name, const std::vector<LoopRun>& runs, const LoopConstants& start,
                     std::string LoopRun::*trait, std::vector<MeasuredPoint>* halves = nullptr) {
  std::vector<MeasuredPoint> points;
  std::set<std::string> traits;
  for (const LoopRun& run : runs) traits.insert(run.*trait);
  for (const std::string& left_out : traits) {
    std::vector<LoopRun> others;
    for (const LoopRun& run : runs)
      if (run.*trait != left_out) others.push_back(run);
    const LoopConstants constants = fit_loop(others, start);
    for (const LoopRun& run : runs) {
      if (run.*trait != left_out) continue;
      const double step = constants.step_time(run);
      points.push_back({run.id, step, run.measured});
      const PostTrainingResult& r = run.predicted;
      const double half = r.training.value + r.log_probabilities.value;
      if (halves && run.one_step_off && half + constants.loop_sample * run.samples > r.generation.value)
        halves->push_back({run.id, half, run.measured - (step - half)});
    }
  }
  return error_set(name, std::move(points));
}

/// The measured updates of the weights by one transfer of the catalog: those of its own library, or those that are only
/// compared.
struct TransferRows {
  std::vector<std::string> models, methods;
  std::vector<double> policies, gpus, seconds;
  std::vector<PublishedTensors> tensors;  ///< those of the network, if the catalog has it

  Seconds predicted(const WeightTransfer& transfer, std::size_t row) const {
    return transfer.time(Bytes{policies[row]}, tensors[row], static_cast<int>(gpus[row]));
  }
};

TransferRows transfer_rows(const std::string& transfer, bool fitted) {
  TransferRows rows;
  const Catalog catalog;
  MeasuredTable table(shipped_file("scenarios/measured/tables/rl_weight_sync.csv"),
                      {"model", "network", "gpus", "method", "transfer", "fitted", "policy_GB", "update_s"});
  while (table.next()) {
    if (table.text("transfer") != transfer || (table.text("fitted") == "yes") != fitted) continue;
    rows.models.push_back(table.text("model"));
    rows.methods.push_back(table.text("method") + (table.text("fitted") == "one" ? kFittedTransfer : ""));
    rows.policies.push_back(table.positive("policy_GB") * 1e9);
    rows.gpus.push_back(table.positive("gpus"));
    rows.seconds.push_back(table.positive("update_s"));
    const std::string network = table.text("network");
    rows.tensors.push_back(network.empty() ? PublishedTensors{}
                                           : published_tensors(read_network_entry(
                                                 catalog.resolve("network", Node::scalar_node(network)))));
  }
  return rows;
}

/// Fits start and rate to the rows of the other models, by least squares of relative errors. The catalog's term of the
/// number of GPUs does not change.
WeightTransfer refitted_transfer(const TransferRows& rows, WeightTransfer transfer, const std::string& left_out) {
  double a = 0, b = 0, c = 0, d = 0, e = 0;  // sums of the normal equations of start + policy · x
  for (std::size_t i = 0; i < rows.models.size(); ++i) {
    if (rows.models[i] == left_out) continue;
    const double doublings = transfer.time(Bytes{}, {}, static_cast<int>(rows.gpus[i])).value - transfer.start.value;
    const double weight = 1 / (rows.seconds[i] * rows.seconds[i]), size = rows.policies[i],
                 rest = rows.seconds[i] - doublings;
    a += weight, b += weight * size, c += weight * size * size, d += weight * rest, e += weight * rest * size;
  }
  const double slope = (a * e - b * d) / (a * c - b * b);
  transfer.start = Seconds{(d - b * slope) / a};
  transfer.rate = BytesPerSecond{1 / slope};
  return transfer;
}

void add_transfer(const std::string& name, std::vector<ErrorSet>& sets) {
  const TransferRows rows = transfer_rows(name, true);
  const Catalog catalog;
  const WeightTransfer transfer = read_weight_transfer(catalog.resolve("weight-transfer", Node::scalar_node(name)));
  std::vector<MeasuredPoint> in_sample, left_out;
  for (std::size_t i = 0; i < rows.models.size(); ++i) {
    const auto time = [&](const WeightTransfer& model) { return rows.predicted(model, i).value; };
    const std::string id = rows.models[i] + " on " + std::to_string(static_cast<int>(rows.gpus[i]));
    in_sample.push_back({id, time(transfer), rows.seconds[i]});
    left_out.push_back({id, time(refitted_transfer(rows, transfer, rows.models[i])), rows.seconds[i]});
  }
  sets.push_back(error_set("weights by " + name + ", in sample", std::move(in_sample)));
  sets.push_back(error_set("weights by " + name + ", its model left out", std::move(left_out)));
}

/// Compares a transfer with updates by verl.
ErrorSet compared_transfer(const std::string& name) {
  const TransferRows rows = transfer_rows(name, false);
  const Catalog catalog;
  const WeightTransfer transfer = read_weight_transfer(catalog.resolve("weight-transfer", Node::scalar_node(name)));
  std::vector<MeasuredPoint> points;
  for (std::size_t i = 0; i < rows.models.size(); ++i)
    points.push_back({rows.models[i] + " by " + rows.methods[i], rows.predicted(transfer, i).value, rows.seconds[i]});
  return error_set("weights by " + name + " in verl", std::move(points));
}

}  // namespace

int LoopDoubt::models() const {
  std::set<std::string> models;
  for (const LeftOutLoop& row : rows_) models.insert(row.model);
  return static_cast<int>(models.size());
}

double LoopDoubt::factor(double probability) const {
  std::vector<double> distances;
  for (const LeftOutLoop& row : rows_) distances.push_back(std::abs(std::log(row.measured / row.predicted)));
  std::ranges::sort(distances);
  const auto steps = static_cast<double>(distances.size());
  const double position = std::clamp(std::ceil(probability * (steps + 1) - 1e-9), 1.0, steps);
  return std::exp(distances[static_cast<std::size_t>(position) - 1]);
}

int LoopDoubt::covered_steps(double probability) const {
  int covered = 0;
  for (const LeftOutLoop& row : rows_) {
    std::vector<LeftOutLoop> others;
    for (const LeftOutLoop& other : rows_)
      if (other.model != row.model) others.push_back(other);
    covered +=
        std::abs(std::log(row.measured / row.predicted)) <= std::log(LoopDoubt(others).factor(probability)) + 1e-9;
  }
  return covered;
}

std::string LoopDoubt::csv() const {
  std::string text =
      "# Measured steps of post-training loops, and their predictions with constants that were fitted without their\n"
      "# model, s. Repeat: trainyard validate post-training --csv FILE\nid,model,predicted_s,measured_s\n";
  for (const LeftOutLoop& row : rows_)
    text += fmt::format("{},{},{:.2f},{}\n", csv_cell(row.id), csv_cell(row.model), row.predicted, row.measured);
  return text;
}

const LoopDoubt& LoopDoubt::shipped() {
  static const LoopDoubt doubt = [] {
    std::vector<LeftOutLoop> rows;
    MeasuredTable table(shipped_file("scenarios/measured/tables/left_out_post_training.csv"),
                        {"id", "model", "predicted_s", "measured_s"});
    while (table.next())
      rows.push_back(
          {table.text("id"), table.text("model"), table.positive("predicted_s"), table.positive("measured_s")});
    return LoopDoubt(std::move(rows));
  }();
  return doubt;
}

double most_loop_confidence() {
  const auto steps = static_cast<double>(LoopDoubt::shipped().rows().size());
  return (1 + steps / (steps + 1)) / 2;
}

std::string unmeasured_loop_parts(const Scenario& s) {
  const PostTrainingChoice& choice = *s.post_training;
  std::vector<std::string> parts;
  const auto add = [&](bool has, const std::string& words) {
    if (has) parts.push_back(words);
  };
  add(choice.has_own_nodes() && !choice.one_step_off, choice.asynchrony ? "an asynchronous schedule"
                                                      : choice.shares_gpus()
                                                          ? "a hybrid placement"
                                                          : "a synchronous schedule on two sets of nodes");
  add(choice.started_prompts > choice.prompts && !choice.sampling.is_given(), "a cut tail");
  add(choice.sampling.is_given(), "rounds of prompts");
  add(choice.weight_store.has_value(), "weights through a storage");
  add(!choice.calls.empty(), "tools");
  add(choice.critic.has_value(), "a critic");
  add(choice.reward.has_value(), "a model of rewards");
  add(choice.speculation.tokens > 0, "speculation");
  add(choice.layout.expert > 1, "engines that spread experts");
  const EngineFormat weights = choice.layout.weights;
  add(weights != EngineFormat::bf16 && weights != EngineFormat::fp8,
      "engines in " + engine_formats()[static_cast<std::size_t>(weights)]);
  add(choice.layout.cache != EngineFormat::bf16, "a narrow cache");
  const std::string& gpu = choice.generators.node.gpu.name;
  add(!gpu.starts_with("h100"), gpu);
  add(choice.stack.name != "nemo-rl", "the loop " + choice.stack.name);
  add(choice.engine.name != "vllm", "the engine " + choice.engine.name);
  return fmt::format("{}", fmt::join(parts, ", "));
}

double fitted_share(const PostTrainingResult& r) { return (r.loop + r.reload - r.reload_copies) / r.step_time; }

void add_loop_interval(const Scenario& s, PostTrainingResult& r) {
  const double factor = LoopDoubt::shipped().factor(kLikely);
  r.likely_step_times = {r.step_time.value / factor, r.step_time.value * factor};
  r.likely_samples = {r.samples_per_s / factor, r.samples_per_s * factor};
  r.unmeasured = unmeasured_loop_parts(s);
  if (fitted_share(r) > kMostFittedShare)
    r.unmeasured += (r.unmeasured.empty() ? "" : ", ") + std::string("so large a part of the step in loop and reload");
}

double LoopConstants::step_time(const LoopRun& run) const {
  const PostTrainingResult& r = run.predicted;
  const double training_half = r.training.value + r.log_probabilities.value + loop_sample * run.samples,
               tensors = run.tensors * (run.has_own_nodes ? apart_tensor : colocated_tensor),
               weights = std::max(tensors, r.weights_network.value);
  return (run.one_step_off ? std::max(r.generation.value, training_half) : r.generation.value + training_half) +
         weights + (run.has_own_nodes ? 0 : reload + r.reload_copies.value);
}

LoopConstants fit_loop(const std::vector<LoopRun>& runs, LoopConstants best) {
  const std::vector<double LoopConstants::*> constants{&LoopConstants::loop_sample, &LoopConstants::reload,
                                                       &LoopConstants::colocated_tensor, &LoopConstants::apart_tensor};
  double least = mean_loop_error(runs, best);
  const auto improves = [&](const LoopConstants& trial) {
    const double error = mean_loop_error(runs, trial);
    if (error >= least - 1e-12) return false;
    least = error;
    best = trial;
    return true;
  };
  for (double step = 0.5; step > 1e-4; step /= 2)
    for (bool has_improved = true; has_improved;) {
      has_improved = false;
      for (const auto first : constants)
        for (const auto second : constants)
          for (const double factor : {1 + step, 1 / (1 + step)})
            for (const double second_factor : {1 + step, 1 / (1 + step)}) {
              LoopConstants trial = best;
              trial.*first *= factor;
              if (second != first) trial.*second *= second_factor;
              if (improves(trial)) has_improved = true;
            }
    }
  return best;
}

SequenceFit fit_sequence_time(const MeasuredFamily& family, const FamilyPrediction& prediction) {
  struct Row {
    std::string model;
    std::size_t kind;  // 1: with experts
    double gpus;       // GPUs that a token of a copy keeps waiting
  };
  const std::vector<MeasuredPoint> points = prediction.figure(0)->points;
  std::vector<Row> rows;
  SequenceFit fit;
  for (const MeasuredPoint& point : points) {
    const Scenario s = read_scenario(family.scenario(family.row(point.id)), point.id);
    const TransformerConfig& config = *s.model.entry.transformer();
    const Row& row = rows.emplace_back(s.network.name, config.experts.count > 0 ? 1 : 0, s.generation->layout.tensor);
    fit.catalog[row.kind] = sequence_time(s.generation->engine, config);
  }
  const auto throughput = [&](std::size_t i, double time) {
    return 1 / (1 / points[i].predicted + (time - fit.catalog[rows[i].kind].value) * rows[i].gpus);
  };
  const auto best_without = [&](std::size_t kind, const std::string& left_out) {
    double best = 0, least = INFINITY;
    for (int tenths = 0; tenths <= 400; ++tenths) {
      const double time = tenths * 1e-7;
      double error = 0;
      for (std::size_t i = 0; i < points.size(); ++i)
        if (rows[i].kind == kind && rows[i].model != left_out)
          error += std::abs(throughput(i, time) / points[i].measured - 1);
      if (error < least) least = error, best = time;
    }
    return best;
  };
  for (const std::size_t kind : {0, 1}) fit.fitted[kind] = Seconds{best_without(kind, "")};
  std::map<std::string, double> times;  // indexed by the model that is left out
  std::vector<MeasuredPoint> left_out = points;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto [found, is_new] = times.try_emplace(rows[i].model);
    if (is_new) found->second = best_without(rows[i].kind, rows[i].model);
    left_out[i].predicted = throughput(i, found->second);
  }
  fit.left_out = error_set("its model left out", std::move(left_out));
  return fit;
}

PostTrainingErrors post_training_errors() {
  PostTrainingErrors errors;
  const std::vector<MeasuredFamily> families = measured_families({"post-training"});
  const MeasuredFamily& family = families.front();
  errors.source = family.source;
  errors.limits = family.figures.front().limits;
  errors.runs = all_in_parallel(
      family.ids.size(), processors(), [&](std::size_t row) { return predict_loop(family, row); },
      [](std::size_t, const LoopRun&) {});
  const Catalog catalog;
  const RlStack stack = read_rl_stack(catalog.resolve("rl-stack", Node::scalar_node("nemo-rl")));
  const auto tensor = [&](const std::string& transfer) {
    return read_weight_transfer(catalog.resolve("weight-transfer", Node::scalar_node(transfer))).tensor.value;
  };
  errors.catalog = {stack.loop_sample.value, stack.reload.value, tensor(stack.colocated_transfer),
                    tensor(stack.apart_transfer)};
  errors.fitted = fit_loop(errors.runs, errors.catalog);
  std::vector<MeasuredPoint> points;
  for (const LoopRun& run : errors.runs) points.push_back({run.id, run.predicted.step_time.value, run.measured});
  errors.in_sample = error_set("step of the loop, in sample", std::move(points));
  std::vector<MeasuredPoint> halves;
  errors.model_left_out = left_out_by("its model left out", errors.runs, errors.catalog, &LoopRun::model, &halves);
  errors.training_half = error_set("training half of steps one step off", std::move(halves));
  errors.release_left_out = left_out_by("its release left out", errors.runs, errors.catalog, &LoopRun::release);
  for (const char* transfer : {"checkpoint-engine-broadcast", "checkpoint-engine-p2p"})
    add_transfer(transfer, errors.transfers);
  for (const char* transfer : {"verl-nccl", "verl-checkpoint-engine", "verl-buckets"})
    errors.compared_transfers.push_back(compared_transfer(transfer));
  return errors;
}

}  // namespace trainyard
