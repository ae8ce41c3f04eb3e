#include "scenarios/src/search/layer_pieces.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <limits>

#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/search/plan_question.hpp"

namespace trainyard {
namespace {

constexpr double kInfiniteCost = std::numeric_limits<double>::infinity();

/// Returns true if a layer of `next` can take the activations of a layer of `sharding`. Only columns hand on shards, and
/// only rows take them. Gathered columns before spread rows are excluded, because a scenario would state them alike.
bool may_follow(LinearSharding sharding, LinearSharding next) {
  if (sharding == LinearSharding::columns) return next == LinearSharding::rows;
  if (next == LinearSharding::rows) return false;
  return sharding != LinearSharding::gathered_columns || next != LinearSharding::spread_rows;
}

constexpr LinearSharding kAllShardings[kLinearShardings] = {LinearSharding::replicated, LinearSharding::columns,
                                                            LinearSharding::gathered_columns, LinearSharding::rows,
                                                            LinearSharding::spread_rows};

void append_work(std::string& text, const KernelCall& call) {
  text += fmt::format(" {}:{}:{}", call.work.kernel, call.work.flops.value, call.work.bytes.value);
}

}  // namespace

LinearChain cheapest_shardings(std::span<const LinearShardingCosts> layers) {
  LinearShardingCosts best{};
  std::vector<std::array<LinearSharding, kLinearShardings>> sharding_before(layers.size());
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    LinearShardingCosts costs;
    costs.fill(kInfiniteCost);
    for (const LinearSharding sharding : kAllShardings) {
      const auto to = static_cast<std::size_t>(sharding);
      for (const LinearSharding last : kAllShardings) {
        const auto from = static_cast<std::size_t>(last);
        if (layer == 0 ? sharding == LinearSharding::rows : !may_follow(last, sharding)) continue;
        const double cost = (layer == 0 ? 0 : best[from]) + layers[layer][to];
        if (cost >= costs[to]) continue;
        costs[to] = cost;
        sharding_before[layer][to] = last;
      }
    }
    best = costs;
  }
  // At the end, every rank must have the whole activation.
  if (!layers.empty()) best[static_cast<std::size_t>(LinearSharding::columns)] = kInfiniteCost;
  LinearChain chain;
  auto last_sharding = static_cast<std::size_t>(std::ranges::min_element(best) - best.begin());
  chain.cost = best[last_sharding];
  if (chain.cost == kInfiniteCost) return chain;
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    chain.shardings.push_back(static_cast<LinearSharding>(last_sharding));
    last_sharding = static_cast<std::size_t>(sharding_before[layer][last_sharding]);
  }
  std::ranges::reverse(chain.shardings);
  return chain;
}

std::vector<LinearSplit> splits_of(const std::vector<LinearSharding>& shardings) {
  std::vector<LinearSplit> splits;
  for (const LinearSharding sharding : shardings)
    splits.push_back(sharding == LinearSharding::replicated ? LinearSplit::replicated
                     : by_rows(sharding)                    ? LinearSplit::rows
                                                            : LinearSplit::columns);
  return splits;
}

std::string in_words(const std::vector<LinearSplit>& splits) {
  std::string text;
  for (const LinearSplit split : splits)
    text += fmt::format("{}{}", text.empty() ? "" : ", ",
                        split == LinearSplit::columns ? "columns"
                        : split == LinearSplit::rows  ? "rows"
                                                      : "replicated");
  return text;
}

LayerPieces::LayerPieces(const Scenario& base)
    : scenario_(base),
      micro_batch_(base.micro_batch_size * base.plan.mesh.data),
      few_(std::min(base.micro_batches(), 2)) {}

Scenario LayerPieces::scenario(const StageMesh& mesh, const std::vector<LinearSplit>& splits, int micro_batches) const {
  if (micro_batch_ % mesh.data != 0)
    throw UserError(fmt::format("{} data-parallel ranks do not divide {} samples", mesh.data, micro_batch_));
  PlanPoint point;
  point.tensor = mesh.tensor;
  point.micro_batch = micro_batch_ / mesh.data;
  point.sequence = scenario_.software.parallel.sequence;
  point.recompute = name_of(scenario_.plan.sharding.recompute);
  Node plan =
      plan_section(without_choices(*scenario_.document.find("plan")), point, mesh.data, micro_batch_ * micro_batches);
  std::erase_if(plan.fields,
                [](const auto& field) { return field.first == "linear_split" || field.first == "training"; });
  const auto set = [&plan](const char* path, const std::string& value) {
    set_field(plan, path, parse_override(value, "--layers"));
  };
  set("idle_devices", "allowed");  // the idle devices run the other stages
  if (mesh.tensor > 1 && !splits.empty()) set("linear_split", fmt::format("[{}]", in_words(splits)));
  return read_with_plan(scenario_, plan);
}

const LayerPieces::Share& LayerPieces::share(const StageMesh& mesh, const std::vector<LinearSplit>& splits) {
  const auto [entry, is_new] =
      shares_.try_emplace(fmt::format("{} {} {}", mesh.tensor, mesh.data, mesh.tensor > 1 ? in_words(splits) : ""));
  Share& share = entry->second;
  if (!is_new) return share;
  try {
    share.few = scenario(mesh, splits, few_);
    share.more = scenario(mesh, splits, few_ + 1);
    const Scenario& s = share.few;
    share.network =
        std::make_shared<const Network>(network_of(s.model, s.micro_batch_size, s.precision, s.plan.sharding, true));
    share.few.network = share.more.network = *share.network;
  } catch (const UserError& e) {
    share.error = e.what();
  }
  return share;
}

std::string LayerPieces::equivalence_key(int layer, const StageMesh& mesh, const std::vector<LinearSplit>& splits) {
  const Share& mesh_share = share(mesh, splits);
  if (!mesh_share.error.empty()) return mesh_share.error;
  const Layer& l = mesh_share.network->layers[static_cast<std::size_t>(layer)];
  std::string text =
      fmt::format("{} {} {}", l.activations().value, l.forward_transient.value, l.backward_transient.value);
  for (const KernelCall& call : l.forward) append_work(text, call);
  for (const BackwardKernel& call : l.backward) append_work(text, call);
  for (const auto* exchanges : {&l.forward_exchanges, &l.backward_exchanges})
    for (const Exchange& exchange : *exchanges) text += fmt::format(" {} {}", exchange.name, exchange.bytes.value);
  for (const ParameterTensor& tensor : l.parameters) text += fmt::format(" {}", tensor.elements);
  return text;
}

PieceTimes LayerPieces::times(int from, int to, const StageMesh& mesh, const std::vector<LinearSplit>& splits) {
  PieceTimes piece;
  const Share& mesh_share = share(mesh, splits);
  const auto refuse = [&piece](const std::string& why) {
    piece.error = why;
    piece.time = std::numeric_limits<double>::infinity();
  };
  if (!mesh_share.error.empty()) {
    refuse(mesh_share.error);
    return piece;
  }
  Network part = *mesh_share.network;
  part.layers.assign(mesh_share.network->layers.begin() + from, mesh_share.network->layers.begin() + to);
  const auto network = std::make_shared<const Network>(std::move(part));
  const SimulateOptions options{.critical_path = false};
  try {
    const Result few = simulate(mesh_share.few, plan(mesh_share.few, network), options),
                 more = simulate(mesh_share.more, plan(mesh_share.more, network), options);
    piece.time = more.step_time.value - few.step_time.value;
    piece.tail = std::max(0.0, few.step_time.value - few_ * piece.time);
    piece.parameters = few.memory.parameters.value + few.memory.gradients.value + few.memory.optimizer.value +
                       few.memory.buffers.value;
  } catch (const UserError& e) {
    refuse(e.what());
  }
  for (const Layer& layer : network->layers) {
    piece.micro_batch_bytes += layer.activations().value;
    piece.transient = std::max({piece.transient, layer.forward_transient.value, layer.backward_transient.value});
  }
  return piece;
}

}  // namespace trainyard
