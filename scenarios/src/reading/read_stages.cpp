#include "scenarios/src/reading/read_stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/reading/nearest.hpp"

namespace trainyard {
namespace {

constexpr std::pair<const char*, LinearSplit> kLinearSplits[] = {{"pairs", LinearSplit::pairs},
                                                                 {"columns", LinearSplit::columns},
                                                                 {"rows", LinearSplit::rows},
                                                                 {"replicated", LinearSplit::replicated}};

/// The largest stage first.
void place(std::vector<StageWidth>& widths) {
  std::vector<StageWidth*> order;
  for (StageWidth& width : widths) order.push_back(&width);
  std::ranges::stable_sort(order, std::greater{}, [](const StageWidth* w) { return w->tensor * w->data; });
  int next = 0;
  for (StageWidth* width : order) next = (width->first = next) + width->tensor * width->data;
}

}  // namespace

void read_stages(PlanChoice& choice, Fields& plan) {
  const Node* pipeline = plan.child("pipeline");
  const std::vector<Node>* stages = pipeline ? Fields(*pipeline, "plan.pipeline").list("stages") : nullptr;
  if (!stages) return;
  choice.stages_place = choice.layers_place = pipeline->find("stages")->place;
  if (choice.sharding.tensor > 1)
    fail(choice.stages_place, "plan.pipeline.stages: each says its tensor ranks; leave plan.tensor_parallel out");
  for (const Node& item : *stages) {
    Fields stage(item, "plan.pipeline.stages");
    choice.layers.push_back(stage.integer({"layers", "of the stage"}, 0));
    Sharding& own = choice.stage_shardings.emplace_back();
    own.tensor = read_rank_count(stage, {"tensor", "ranks that split each of its layers"});
    const int data = read_rank_count(stage, {"data", "ranks that share the samples of a micro-batch"});
    if (std::int64_t{own.tensor} * data > 1 << 20)
      fail(item.place, "plan.pipeline.stages: at most 1048576 ranks a stage");
    choice.mesh.widths.push_back({own.tensor, data});
    read_linear_split(own, stage, "tensor");
    stage.finish();
    choice.sharding.tensor = std::max(choice.sharding.tensor, own.tensor);
  }
  place(choice.mesh.widths);
}

void spread_sharding(PlanChoice& choice) {
  for (Sharding& stage : choice.stage_shardings) {
    Sharding own = choice.sharding;
    own.tensor = stage.tensor;
    own.sequence = own.sequence && own.tensor > 1;
    if (!own.sequence) own.user_buffers = 0;
    own.linear_split = stage.linear_split;
    own.linear_splits = stage.linear_splits;
    stage = own;
  }
}

void read_linear_split(Sharding& sharding, Fields& fields, const char* tensor) {
  const Node* given = fields.child(
      {"linear_split", "of an mlp: pairs, columns, rows or replicated; or a list with one for each layer"});
  if (!given) return;
  const std::string what = fields.what() + ".linear_split";
  const auto split_of = [&what](const Node& node, bool of_all) {
    std::vector<std::string> names;
    for (const auto& [name, split] : kLinearSplits) {
      if (!of_all && split == LinearSplit::pairs) continue;  // two layers make a pair
      names.emplace_back(name);
      if (node.kind == Node::Kind::scalar && node.scalar == name) return split;
    }
    const std::string got = node.kind == Node::Kind::scalar ? node.scalar : "";
    fail(node.place, fmt::format("{}: unknown split \"{}\"{}", what, got, hint(got, names)));
  };
  if (sharding.tensor == 1)
    fail(given->place, fmt::format("{}: it is over the ranks of {}.{}, which is 1", what, fields.what(), tensor));
  if (given->kind != Node::Kind::list) {
    sharding.linear_split = split_of(*given, true);
    return;
  }
  if (given->items.empty()) fail(given->place, fmt::format("{}: a split for each layer expected", what));
  for (const Node& item : given->items) sharding.linear_splits.push_back(split_of(item, false));
}

namespace {

/// Of a stage of so many layers from one on, as lists for all layers of the network have it.
void spread_splits(Sharding& own, std::size_t first, std::size_t layers, std::size_t all, const Place& where) {
  if (own.tensor == 1) return;
  std::vector<LinearSplit> splits = own.linear_splits;
  for (std::size_t i = 0; splits.size() < layers && own.linear_splits.empty(); ++i)
    splits.push_back(own.linear_split != LinearSplit::pairs ? own.linear_split
                     : i % 2 == 1                           ? LinearSplit::rows
                                                            : LinearSplit::columns);
  if (splits.size() != layers)
    fail(where,
         fmt::format("plan.pipeline.stages: a stage of {} layers has {} in its linear_split", layers, splits.size()));
  own.linear_splits.assign(all, LinearSplit::replicated);
  std::ranges::copy(splits, own.linear_splits.begin() + static_cast<std::ptrdiff_t>(first));
}

}  // namespace

void check_stages(Scenario& s) {
  PlanChoice& plan = s.plan;
  const std::vector<StageWidth>& widths = plan.mesh.widths;
  if (widths.empty()) return;
  const auto refuse = [&plan](bool used, const char* what) {
    if (used) fail(plan.stages_place, fmt::format("plan.pipeline.stages: not with {}, which is not modelled", what));
  };
  refuse(!s.strategy.empty(), "plan.strategy");
  refuse(plan.mesh.context > 1, "context_parallel");
  refuse(plan.mesh.expert > 1, "expert_parallel");
  refuse(plan.mesh.order != Mesh{}.order, "mesh_order");
  refuse(plan.chunks > 1, "several chunks a stage");
  refuse(plan.scatter_gather, "scatter_gather");
  refuse(plan.zero != ZeroStage::none, "zero_stage");
  refuse(plan.offload.copies(), "offload");
  refuse(plan.compression != nullptr, "compression");
  refuse(plan.mechanism_name != kAllReduce, "a mechanism other than all-reduce");
  refuse(plan.recomputed_blocks > 0, "full recomputation of some blocks");
  refuse(plan.sharding.splits_linear_layers(), "linear_split of the plan: each stage says its own");
  refuse(s.input.used(), "input");
  s.model.split_keys["tensor"] = {"plan.pipeline.stages", plan.stages_place};
  for (std::size_t stage = 0; stage < widths.size(); ++stage)
    if (s.micro_batch_size % widths[stage].data != 0)
      fail(
          plan.stages_place,
          fmt::format("plan.pipeline.stages: the {} data ranks of stage {} share the samples of plan.micro_batch_size, "
                      "{}, which they do not divide; nearest: {}",
                      widths[stage].data, stage, s.micro_batch_size,
                      nearest_multiples(widths[stage].data, s.micro_batch_size)));
  const MlpShape* mlp = s.model.entry.mlp();
  std::size_t first = 0;
  for (std::size_t stage = 0; stage < widths.size(); ++stage) {
    Sharding& own = plan.stage_shardings[stage];
    const auto layers = static_cast<std::size_t>(plan.layers[stage]);
    refuse(!mlp && own.splits_linear_layers(), "linear_split of a network other than an mlp");
    if (mlp && first + layers <= static_cast<std::size_t>(mlp->layers()))  // else there are too many, as is said later
      spread_splits(own, first, layers, static_cast<std::size_t>(mlp->layers()), plan.stages_place);
    first += layers;
  }
}

}  // namespace trainyard
