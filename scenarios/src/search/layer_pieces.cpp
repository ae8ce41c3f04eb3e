#include "scenarios/src/search/layer_pieces.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/search/plan_question.hpp"
#include "scenarios/src/search/undisturbed.hpp"
#include "strategies/step/forward_only.hpp"

namespace trainyard {
namespace {

std::string list_of(const std::vector<LinearSplit>& splits) {
  std::string text;
  for (const LinearSplit split : splits)
    text += fmt::format("{}{}", text.empty() ? "[" : ", ",
                        split == LinearSplit::columns ? "columns"
                        : split == LinearSplit::rows  ? "rows"
                                                      : "replicated");
  return text + "]";
}

/// Of forward and backward passes of a further micro-batch, undisturbed.
double forward_share(const Scenario& s, TrainingPlan one, const TrainingPlan& two) {
  const double both = undisturbed_passes(s, two) - undisturbed_passes(s, one);
  make_forward_only(one);
  return both > 0 ? undisturbed_passes(s, std::move(one)) / both : 0;
}

void add_works(std::string& text, const KernelCall& call) {
  text += fmt::format(" {}:{}:{}", call.work.kernel, call.work.flops.value, call.work.bytes.value);
}

}  // namespace

LayerPieces::LayerPieces(const Scenario& of, std::int64_t micro_batch) : of_(of), micro_batch_(micro_batch) {}

Scenario LayerPieces::scenario(const StageMesh& mesh, const std::vector<LinearSplit>& splits, int micro_batches) const {
  Node plan = without_choices(*of_.document.find("plan"));
  std::erase_if(plan.fields, [](const auto& field) {
    return field.first == "pipeline" || field.first == "linear_split" || field.first == "training";
  });
  const auto set = [&plan](const char* path, const std::string& value) {
    set_field(plan, path, parse_override(value, std::make_shared<const std::string>("--layers")));
  };
  if (micro_batch_ % mesh.data != 0)
    throw UserError(fmt::format("{} data-parallel ranks do not divide {} samples", mesh.data, micro_batch_));
  set("micro_batch_size", fmt::format("{}", micro_batch_ / mesh.data));
  set("global_batch_size", fmt::format("{}", micro_batch_ * micro_batches));
  set("data_parallel.size", fmt::format("{}", mesh.data));
  set("idle_devices", "allowed");  // other stages are there
  if (mesh.tensor > 1) set("tensor_parallel", fmt::format("{}", mesh.tensor));
  if (mesh.tensor > 1 && !splits.empty()) set("linear_split", list_of(splits));
  if (of_.plan.sharding.recompute != Recompute::none) set("recompute", name_of(of_.plan.sharding.recompute));
  return read_with_plan(of_, plan);
}

const LayerPieces::Share& LayerPieces::share(const StageMesh& mesh, const std::vector<LinearSplit>& splits) {
  const auto [at, fresh] =
      shares_.try_emplace(fmt::format("{} {} {}", mesh.tensor, mesh.data, mesh.tensor > 1 ? list_of(splits) : ""));
  Share& share = at->second;
  if (!fresh) return share;
  try {
    share.scenario = scenario(mesh, splits, 1);
    share.twice = scenario(mesh, splits, 2);
    const Scenario& s = share.scenario;
    share.network =
        std::make_shared<const Network>(network_of(s.model, s.micro_batch_size, s.precision, s.plan.sharding, true));
    share.scenario.network = share.twice.network = *share.network;
  } catch (const UserError& e) {
    share.error = e.what();
  }
  return share;
}

std::string LayerPieces::likeness(int layer, const StageMesh& mesh, const std::vector<LinearSplit>& splits) {
  const Share& of = share(mesh, splits);
  if (!of.error.empty()) return of.error;
  const Layer& l = of.network->layers[static_cast<std::size_t>(layer)];
  std::string text =
      fmt::format("{} {} {}", l.activations().value, l.forward_transient.value, l.backward_transient.value);
  for (const KernelCall& call : l.forward) add_works(text, call);
  for (const BackwardKernel& call : l.backward) add_works(text, call);
  for (const auto* exchanges : {&l.forward_exchanges, &l.backward_exchanges})
    for (const Exchange& exchange : *exchanges) text += fmt::format(" {} {}", exchange.name, exchange.bytes.value);
  for (const ParameterTensor& tensor : l.parameters) text += fmt::format(" {}", tensor.elements);
  return text;
}

PieceTimes LayerPieces::times(int from, int to, const StageMesh& mesh, const std::vector<LinearSplit>& splits) {
  PieceTimes piece;
  const Share& of = share(mesh, splits);
  if (!of.error.empty()) {
    piece.error = of.error;
    return piece;
  }
  Network part = *of.network;
  part.layers.assign(of.network->layers.begin() + from, of.network->layers.begin() + to);
  const auto network = std::make_shared<const Network>(std::move(part));
  SimulateOptions options;
  options.critical_path = false;
  try {
    const Plan once = plan(of.scenario, network), twice = plan(of.twice, network);
    const Result one = simulate(of.scenario, once, options), two = simulate(of.twice, twice, options);
    piece.time = two.step_time - one.step_time;
    piece.tail = std::max(0.0, one.step_time - piece.time);
    piece.forward = piece.time * forward_share(of.scenario, once.training, twice.training);
    piece.parameters = one.memory.parameters + one.memory.gradients + one.memory.optimizer + one.memory.buffers;
  } catch (const UserError& e) {
    piece.error = e.what();
  }
  for (const Layer& layer : network->layers) {
    piece.kept += layer.activations().value;
    piece.transient = std::max({piece.transient, layer.forward_transient.value, layer.backward_transient.value});
  }
  piece.output = network->layers.back().output.value * mesh.data;
  return piece;
}

}  // namespace trainyard
