#include "scenarios/src/reading/read_stages.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/networks/transformers/operator_keys.hpp"
#include "models/networks/transformers/operator_lists.hpp"
#include "models/reading/nearest.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr std::pair<const char*, LinearSplit> kLinearSplits[] = {{"pairs", LinearSplit::pairs},
                                                                 {"columns", LinearSplit::columns},
                                                                 {"rows", LinearSplit::rows},
                                                                 {"replicated", LinearSplit::replicated}};

/// Places the ranks of the stages one after another, the largest stage first.
void place(std::vector<StageWidth>& widths) {
  std::vector<StageWidth*> order;
  for (StageWidth& width : widths) order.push_back(&width);
  sort_stably(order,
              [](const StageWidth* a, const StageWidth* b) { return a->tensor * a->data > b->tensor * b->data; });
  int next = 0;
  for (StageWidth* width : order) next = (width->first = next) + width->tensor * width->data;
}

/// Sets the splits of a stage with `layers` layers from layer `first` on. The list has an entry for each of the `all`
/// layers of the network.
void spread_splits(Sharding& sharding, std::size_t first, std::size_t layers, std::size_t all, const Place& where) {
  if (sharding.tensor == 1) return;
  std::vector<LinearSplit> splits = sharding.linear_splits;
  for (std::size_t i = 0; splits.size() < layers && sharding.linear_splits.empty(); ++i)
    splits.push_back(sharding.linear_split != LinearSplit::pairs ? sharding.linear_split
                     : i % 2 == 1                                ? LinearSplit::rows
                                                                 : LinearSplit::columns);
  if (splits.size() != layers)
    fail(where, fmt::format("plan.pipeline.stages: a stage of {} layers has {} splits in its linear_split", layers,
                            splits.size()));
  sharding.linear_splits.assign(all, LinearSplit::replicated);
  std::ranges::copy(splits, sharding.linear_splits.begin() + static_cast<std::ptrdiff_t>(first));
}

}  // namespace

void read_stages(PlanChoice& choice, Fields& plan) {
  const Node* pipeline = plan.child("pipeline");
  const std::vector<Node>* stages = pipeline ? Fields(*pipeline, "plan.pipeline").list("stages") : nullptr;
  if (!stages) return;
  choice.stages_place = choice.layers_place = pipeline->find("stages")->place;
  if (choice.sharding.tensor > 1)
    fail(choice.stages_place,
         "plan.pipeline.stages: each stage has its own tensor ranks; leave plan.tensor_parallel out");
  for (const Node& item : *stages) {
    Fields stage(item, "plan.pipeline.stages");
    choice.layers.push_back(stage.integer({"layers", "Number of layers of the stage, for example 3."}, 0));
    Sharding& sharding = choice.stage_shardings.emplace_back();
    sharding.tensor =
        read_rank_count(stage, {"tensor", "Number of ranks that split each layer of the stage, for example 2."});
    const int data = read_rank_count(
        stage, {"data", "Number of ranks that share the samples of a micro-batch in the stage, for example 2."});
    if (std::int64_t{sharding.tensor} * data > 1 << 20)
      fail(item.place, "plan.pipeline.stages: at most 1048576 ranks a stage");
    choice.mesh.widths.push_back({sharding.tensor, data});
    read_linear_split(sharding, stage, "tensor");
    stage.finish();
    choice.sharding.tensor = std::max(choice.sharding.tensor, sharding.tensor);
  }
  place(choice.mesh.widths);
}

void spread_sharding(PlanChoice& choice) {
  for (Sharding& stage : choice.stage_shardings) {
    Sharding sharding = choice.sharding;
    sharding.tensor = stage.tensor;
    sharding.sequence = sharding.sequence && sharding.tensor > 1;
    if (!sharding.sequence) sharding.user_buffers = 0;
    sharding.linear_split = stage.linear_split;
    sharding.linear_splits = stage.linear_splits;
    stage = sharding;
  }
}

void read_linear_split(Sharding& sharding, Fields& fields, const char* tensor) {
  const Node* entry =
      fields.child_unless_null({"linear_split",
                                "How the linear layers of an mlp are split over tensor ranks: pairs (by columns "
                                "and rows in turn), columns, rows or replicated; or a list with one of the last "
                                "three for each layer; for example columns. Default: pairs."});
  if (!entry) return;
  const std::string what = fields.what() + ".linear_split";
  const auto split_of = [&what](const Node& node, bool for_all_layers) {
    std::vector<std::string> names;
    for (const auto& [name, split] : kLinearSplits) {
      if (!for_all_layers && split == LinearSplit::pairs) continue;  // one layer is no pair
      names.emplace_back(name);
      if (node.kind == Node::Kind::scalar && node.scalar == name) return split;
    }
    const std::string got = node.kind == Node::Kind::scalar ? node.scalar : "";
    fail(node.place, fmt::format("{}: unknown split \"{}\"{}", what, got, hint(got, names)));
  };
  if (sharding.tensor == 1)
    fail(entry->place,
         fmt::format("{}: layers are split over the ranks of {}.{}, which is 1", what, fields.what(), tensor));
  if (entry->kind != Node::Kind::list) {
    sharding.linear_split = split_of(*entry, true);
    return;
  }
  if (entry->items.empty()) fail(entry->place, fmt::format("{}: a split for each layer expected", what));
  for (const Node& item : entry->items) sharding.linear_splits.push_back(split_of(item, false));
}

void check_stages(Scenario& s) {
  PlanChoice& plan = s.plan;
  const std::vector<StageWidth>& widths = plan.mesh.widths;
  if (plan.mesh.copies > 1 && s.input.is_used())
    fail(plan.schedule_place,
         fmt::format("plan.pipeline.schedule: {} takes micro-batches at both ends of the pipeline, and input feeds the "
                     "first stage only: not modelled together; nearest: dualpipe-v",
                     plan.schedule));
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
  refuse(plan.sharding.splits_linear_layers(), "linear_split of the plan: each stage has its own");
  refuse(s.input.is_used(), "input");
  s.model.split_keys["tensor"] = {"plan.pipeline.stages", plan.stages_place};
  for (std::size_t stage = 0; stage < widths.size(); ++stage)
    if (s.micro_batch_size % widths[stage].data != 0)
      fail(plan.stages_place, fmt::format("plan.pipeline.stages: the {} data ranks of stage {} share the samples of "
                                          "plan.micro_batch_size, {}, which they do not divide; nearest: {}",
                                          widths[stage].data, stage, s.micro_batch_size,
                                          nearest_multiples(widths[stage].data, s.micro_batch_size)));
  const MlpShape* mlp = s.model.entry.mlp();
  std::size_t first = 0;
  for (std::size_t stage = 0; stage < widths.size(); ++stage) {
    Sharding& sharding = plan.stage_shardings[stage];
    const auto layers = static_cast<std::size_t>(plan.layers[stage]);
    refuse(!mlp && sharding.splits_linear_layers(), "linear_split of a network other than an mlp");
    if (mlp && first + layers <= static_cast<std::size_t>(mlp->layers()))  // too many layers are an error later
      spread_splits(sharding, first, layers, static_cast<std::size_t>(mlp->layers()), plan.stages_place);
    first += layers;
  }
}

const ListedLayer* end_without_loss(const Scenario& s) {
  const TransformerConfig* config = s.model.entry.transformer();
  if (s.plan.inference || !config || !config->lists) return nullptr;
  const ListedLayer& end = config->lists->layers.back();
  const auto computes_loss = [](const ListedOperator& op) { return operator_keys(op.word, op.place).is_loss; };
  return std::ranges::any_of(end.operators, computes_loss) ? nullptr : &end;
}

void refuse_missing_parts(const Scenario& s) {
  const Node* model = s.document.find("model");
  // Backbones of the catalog and of configs may be trained with a loss that they do not have; the report says so.
  const bool is_written = model && model->find("layers");
  if (const ListedLayer* end = end_without_loss(s); end && is_written)
    fail(end->place,
         fmt::format(
             "model.layers: no operator of {}, the last layer, computes a loss to train with; expected {} as its "
             "last operator, or plan.mode: inference",
             end->name, fmt::join(loss_words(), " or ")));
  const Node* plan = s.document.find("plan");
  const Node* modules = plan ? plan->find("recompute_modules") : nullptr;
  if (!modules) return;
  const auto kernels = [&s](const Sharding& sharding) {
    std::size_t sum = 0;
    for (const Layer& layer : network_of(s.model, s.micro_batch_size, s.precision, sharding, false).layers)
      sum += layer.backward.size();
    return sum;
  };
  const std::size_t usual = kernels({});
  std::vector<std::string> parts;
  for (std::size_t part = 1; part <= kRecomputedModules.size(); ++part) {
    Sharding sharding;
    sharding.remade[part] = true;
    if (kernels(sharding) != usual) parts.emplace_back(kRecomputedModules[part - 1]);
  }
  for (const Node& item : modules->items)
    if (std::ranges::none_of(parts, [&item](const std::string& part) { return same_name(part, item.scalar); }))
      fail(item.place,
           fmt::format("plan.recompute_modules: no block of {} has the part {}; expected {}", s.network.name,
                       item.scalar, parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "))));
}

}  // namespace trainyard
