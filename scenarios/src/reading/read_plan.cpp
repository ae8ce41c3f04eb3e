#include <fmt/format.h>

#include <algorithm>

#include "models/reading/document.hpp"
#include "scenarios/src/reading/plan_choice.hpp"
#include "scenarios/src/reading/read_stages.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/reading/searched_degrees.hpp"
#include "strategies/pipelines/pipeline_schedule.hpp"

namespace trainyard {
namespace {

/// Reads true, false, user-buffers (the stack states the hidden part) or a map that states that part.
void read_tensor_overlap(Sharding& sharding, Fields& plan, const SoftwareStack& stack) {
  static const std::string what = "plan.tensor_parallel_overlap";
  if (!plan.has({"tensor_parallel_overlap",
                 "Whether exchanges of tensor parallelism overlap with matrix products: true, false, user-buffers, or "
                 "{user_buffers: {overlapped: 0.5}}, which states the hidden part; for example user-buffers. Default: "
                 "the stack's."})) {
    sharding.overlap = stack.parallel.overlap_tensor;
    sharding.user_buffers = sharding.sequence ? stack.parallel.user_buffers : 0;
    return;
  }
  const Node* entry = plan.child("tensor_parallel_overlap");
  const Node node = entry->kind == Node::Kind::map ? long_form(entry, nullptr, entry->place) : *entry;
  const auto refuse_one_rank = [&] {
    if (sharding.tensor == 1)
      fail(node.place, what +
                           ": plan.tensor_parallel is 1: no rank exchanges anything; expected false, or "
                           "plan.tensor_parallel: 2 or more");
  };
  const bool is_user_buffers = node.kind == Node::Kind::scalar && same_name(node.scalar, "user-buffers");
  if (!is_user_buffers && node.kind != Node::Kind::map) {
    if (node.kind != Node::Kind::scalar || (node.scalar != "true" && node.scalar != "false"))
      fail(node.place, fmt::format("{}: expected true, false or user-buffers, got {}", what,
                                   node.kind == Node::Kind::scalar ? fmt::format("\"{}\"", node.scalar) : "a list"));
    sharding.overlap = plan.boolean("tensor_parallel_overlap", false);
    if (sharding.overlap) refuse_one_rank();
    return;
  }
  refuse_one_rank();
  if (!sharding.sequence)
    fail(node.place, what +
                         ": user buffers are for sequence parallelism's all-gathers and reduce-scatters; set "
                         "plan.sequence_parallel");
  if (is_user_buffers && stack.parallel.user_buffers == 0)
    fail(node.place, fmt::format("{}: user buffers: stack {} states no part that they hide; state it, as in "
                                 "{{user_buffers: {{overlapped: 0.5}}}}",
                                 what, stack.name));
  sharding.user_buffers = stack.parallel.user_buffers;
  if (is_user_buffers) return;
  Fields fields(node, what);
  Fields buffers(fields.required_child("user_buffers"), what + ".user_buffers");
  sharding.user_buffers =
      buffers.number({"overlapped",
                      "Part of the exchange next to a matrix product that user buffers hide, 0 to 1, for example 0.5. "
                      "The short form user-buffers takes the part that the stack states."},
                     0, 1);
  buffers.finish();
  fields.finish();
}

/// Reads `all-to-all`, which is the library's, or a dispatcher of the catalog.
void read_dispatcher(PlanChoice& choice, Fields& fields) {
  Sharding& sharding = choice.sharding;
  const Node* named =
      fields.child_unless_null({"dispatcher",
                                "Library that sends tokens to their experts: all-to-all (of the collective "
                                "library), deepep or hybridep; for example deepep. Default: all-to-all."});
  if (named && named->scalar != "all-to-all") {
    choice.dispatcher = read_expert_dispatcher(Catalog(), *named);
    choice.dispatcher_place = named->place;
    sharding.one_row_a_rank = true;
  }
  sharding.fp8_dispatch = fields.boolean(
      {"fp8_dispatch", "Whether the dispatcher sends tokens in fp8; results come back in 16 bits."}, false);
  if (sharding.fp8_dispatch && !sharding.one_row_a_rank)
    fields.refuse("fp8_dispatch",
                  "all-to-all sends tokens in their own precision; expected a dispatcher, such as deepep");
}

void read_expert(PlanChoice& choice, Fields& plan) {
  const Node node =
      long_form(plan.child({"expert_parallel",
                            "Ranks over which experts or embedding tables are spread: their number, for example 8, or "
                            "{size: 8, dispatcher: deepep}. Default: 1, or all data ranks for tables."}),
                "size", choice.place);
  Fields fields(node, "plan.expert_parallel");
  choice.sharding.expert = read_rank_count(
      fields, {"size", "Number of ranks over which experts or embedding tables are spread, for example 8."});
  if (fields.has({"tensor",
                  "Number of ranks that split each expert, for example 1; expert x tensor ranks lie over all ranks of "
                  "a stage. Default: as many as tensor_parallel, or as many as the stage has ranks for. With "
                  "sequence_parallel: false, each tensor rank sends all tokens that they share."})) {
    choice.sharding.expert_tensor = read_rank_count(fields, "tensor");
    if (choice.sharding.tensor > 1 && !choice.sharding.sequence)
      fields.refuse("tensor",
                    fmt::format("a rank routes and sends its own tokens, and without sequence parallelism the {} ranks "
                                "of plan.tensor_parallel have the same ones; set plan.sequence_parallel: true",
                                choice.sharding.tensor));
  }
  choice.sharding.expert_imbalance =
      fields.number({"imbalance",
                     "Tokens of the busiest rank over the mean, for example 1.2. Every rank then takes as long as the "
                     "busiest; load gives each rank its own."},
                    1, 1e6, 1);
  choice.expert_loads = read_expert_loads(fields);
  if (choice.expert_loads.are_given() && fields.has("imbalance"))
    fields.refuse("load", "plan.expert_parallel.imbalance says how busy the busiest rank is; leave one of them out");
  if (fields.has({"capacity",
                  "Most tokens that an expert takes, over the mean, for example 1.25; the rest is dropped. Only with "
                  "dispatcher: all-to-all. Default: no limit."}))
    choice.sharding.expert_capacity = fields.number("capacity", 1e-3, 1e6);
  choice.sharding.expert_masks = fields.boolean(
      {"masks",
       "Whether products with masks bring tokens to experts, which compute their whole capacity. GShard does, "
       "and MaxText without sparse_matmul."},
      false);
  if (choice.sharding.expert_masks && choice.sharding.expert_capacity == 0)
    fields.refuse("masks",
                  "each expert computes its capacity, which is not stated; expected capacity too, such as 1.25");
  read_dispatcher(choice, fields);
  // Megatron-LM (moe_expert_capacity_factor) refuses other dispatchers too.
  if (choice.sharding.one_row_a_rank && choice.sharding.expert_capacity > 0)
    fields.refuse("capacity", fmt::format("{} sends every token; expected dispatcher: all-to-all, or no capacity",
                                          choice.dispatcher.name));
  if (choice.sharding.expert_tensor > 1 && choice.sharding.one_row_a_rank)
    fields.refuse(
        "tensor",
        fmt::format(
            "{} with dispatcher {}, which sends a token to each rank once; expected 1, or dispatcher: all-to-all",
            choice.sharding.expert_tensor, choice.dispatcher.name));
  if (fields.has({"overlap",
                  "Whether a forward and a backward pass alternate layer by layer, so that compute hides exchanges. "
                  "Needs a pipeline of virtual stages, or no pipeline; for example true. Default: as in the stack, or "
                  "in the paper of the schedule."})) {
    choice.sharding.pairs_passes =
        fields.boolean("overlap", false) && (choice.sharding.expert > 1 || choice.sharding.expert_tensor > 1);
    choice.pairs_place = fields.place_of("overlap");
  }
  fields.finish();
}

/// Reads an item of plan.pipeline.layers.
std::int64_t read_layer_count(const Node& item, std::size_t stage) {
  if (const std::int64_t layers = find_integer(item.scalar).value_or(-1); layers >= 0) return layers;
  fail(item.place, fmt::format("plan.pipeline.layers: stage {}: expected a whole number, 0 or more, got {}", stage,
                               item.kind == Node::Kind::scalar ? fmt::format("\"{}\"", item.scalar) : "no number"));
}

/// Reads `even`, `balanced`, or a list with the number of layers of each virtual stage.
void read_layers(PlanChoice& choice, Fields& fields) {
  if (!fields.has("layers")) return;
  const Node* layers = fields.child("layers");
  choice.layers_place = layers->place;
  if (layers->kind != Node::Kind::list) {
    choice.balanced = fields.choice({"layers",
                                     "even, balanced (all stages take equally long), or a list with the number of "
                                     "layers of each virtual stage, for example [9, 8, 8, 7]. Default: even."},
                                    {"even", "balanced"}) == "balanced";
    if (choice.balanced && fields.has("ends_count_as_layers"))
      fields.refuse("ends_count_as_layers", "not with layers: balanced, which counts what each layer takes");
    choice.ends_count_as_layers |= choice.balanced;
    return;
  }
  for (const Node& item : layers->items) choice.layers.push_back(read_layer_count(item, choice.layers.size()));
}

void read_pipeline(PlanChoice& choice, Fields& plan, const SoftwareStack& stack) {
  const auto stages = static_cast<int>(choice.mesh.widths.size());
  choice.mesh.pipeline =
      read_rank_count(plan, {"pipeline_parallel", "Number of pipeline stages, for example 4."}, std::max(1, stages));
  if (stages > 0 && choice.mesh.pipeline != stages)
    fail(plan.place_of("pipeline_parallel"),
         fmt::format("plan.pipeline_parallel: {}, but plan.pipeline.stages has {}", choice.mesh.pipeline, stages));
  static const Node none;
  const Node* node = plan.child_unless_null("pipeline");
  Fields fields(node ? *node : none, "plan.pipeline");
  choice.schedule_place = node && fields.has("schedule") ? fields.place_of("schedule") : choice.place;
  const std::string named = fields.text(
      {"schedule",
       "Order of forward and backward passes, for example gpipe (trainyard list pipelines), or a YAML file with it "
       "(trainyard teach pipeline --write). Default: 1f1b, or interleaved-1f1b with several chunks."},
      "");
  const PipelineSchedule* stated = named.empty() ? nullptr : &pipeline_schedules().find(named, choice.schedule_place);
  choice.chunks = read_rank_count(fields,
                                  {"chunks",
                                   "Virtual stages (model chunks) of each pipeline rank, for example 2. Default: the "
                                   "fewest that the schedule takes."},
                                  stated ? stated->least_chunks : 1);
  choice.schedule = stated ? stated->name : choice.chunks > 1 ? "interleaved-1f1b" : "1f1b";
  choice.mesh.copies = stated ? stated->copies : 1;
  choice.activation_limit =
      fields.number({"activation_limit",
                     "Most activations that the schedule zb-auto keeps on a stage, in those of 1f1b's first stage, for "
                     "example 2."},
                    1, kMostActivationLimit, 1);
  if (fields.has("activation_limit") && !(stated && stated->is_solved()))
    fields.refuse("activation_limit",
                  fmt::format("{} has a fixed order; expected plan.pipeline.schedule: zb-auto", choice.schedule));
  choice.ends_count_as_layers =
      fields.boolean({"ends_count_as_layers",
                      "Whether embedding and head count as one layer each when layers are divided over stages."},
                     false);
  choice.overlap_pipeline =
      fields.boolean({"overlap", "Whether messages between stages overlap with compute. Default: the stack's."},
                     stack.parallel.overlap_pipeline);
  choice.flushes = fields.boolean(
      {"flush",
       "Whether a step ends when its micro-batches have left the pipeline. false: those of the next step follow at "
       "once, and stages keep earlier versions of their weights (PipeDream); with schedule 1f1b."},
      true);
  if (!choice.flushes && (choice.schedule != "1f1b" || choice.chunks > 1 || stages > 0))
    fields.refuse("flush",
                  "false is modelled with schedule 1f1b, one model chunk a stage and equal ranks of all stages");
  choice.scatter_gather =
      fields.boolean({"scatter_gather",
                      "Whether each tensor rank sends one share of a message between stages; the receivers gather the "
                      "shares in their node. Default: the stack's, without sequence parallelism."},
                     stack.parallel.scatter_gather && !choice.sharding.sequence && stages == 0);
  if (choice.scatter_gather && choice.sharding.sequence)
    fields.refuse("scatter_gather",
                  "true would change nothing: with sequence_parallel each tensor rank has its own share already");
  if (fields.has({"stages",
                  "Layers and ranks of each stage, if stages differ, for example [{layers: 3, tensor: 2, data: 1}, "
                  "{layers: 3, tensor: 1, data: 2}], as plan --layers finds them. Replaces pipeline.layers, "
                  "tensor_parallel and data_parallel.size. Default: all stages have the same ranks."}) &&
      fields.has("layers"))
    fail(fields.place_of("layers"),
         "plan.pipeline.layers: each entry of plan.pipeline.stages has its own layers; leave this key out");
  read_layers(choice, fields);
  if (!choice.layers.empty() && static_cast<int>(choice.layers.size()) != choice.mesh.parts(choice.chunks))
    fields.refuse("layers", fmt::format("{} numbers for {}", choice.layers.size(), choice.parts_in_words()));
  if (choice.mesh.pipeline == 1 && node && stages == 0)
    fail(node->place, "plan.pipeline: there is one stage only; set plan.pipeline_parallel, or leave it out");
  fields.finish();
}

/// Reads the order of the axes of the mesh. Throws UserError unless each axis is named once.
void read_order(PlanChoice& choice, Fields& plan) {
  const Node* node = plan.child_unless_null(
      {"mesh_order",
       "Axes of the mesh of ranks, from neighbours to far apart: a permutation of [tensor, context, data, "
       "pipeline], for example [tensor, data, pipeline, context]. Default: this order."});
  if (!node) return;
  const auto refuse = [](const Place& where, const std::string& why) {
    fail(where, fmt::format("plan.mesh_order: {}; tensor, context, data and pipeline are expected, each once, from "
                            "neighbours to far apart, as in [tensor, context, data, pipeline]",
                            why));
  };
  if (node->kind != Node::Kind::list) refuse(node->place, "not a list");
  std::vector<Axis> order;
  for (const Node& item : node->items) {
    Axis axis{};
    try {
      axis = parse_axis(item.scalar);
    } catch (const UserError& e) {
      fail(item.place, fmt::format("plan.mesh_order: {}", e.what()));
    }
    if (axis == Axis::expert || axis == Axis::expert_tensor)
      refuse(item.place, "expert is no axis of its own: experts are spread over data ranks");
    if (axis == Axis::ulysses || axis == Axis::ring)
      refuse(item.place, fmt::format("{} is no axis of its own: it is part of context", name_of(axis)));
    if (std::ranges::find(order, axis) != order.end()) refuse(item.place, fmt::format("{} twice", name_of(axis)));
    order.push_back(axis);
  }
  for (const Axis axis : {Axis::tensor, Axis::context, Axis::data, Axis::pipeline})
    if (std::ranges::find(order, axis) == order.end()) refuse(node->place, fmt::format("{} is missing", name_of(axis)));
  choice.mesh.order = order;
}

/// Reads the parts of blocks to recompute, by the names of Megatron-Core's recompute_modules.
void read_remade(Sharding& sharding, Fields& plan) {
  for (const std::size_t module :
       plan.choices({"recompute_modules",
                     "Parts of blocks that are also computed again in the backward pass: layernorm, moe_act, "
                     "mla_up_proj, moe (experts with their router and exchanges), mlp (dense feed-forward parts), "
                     "mlp_act (their activation alone); for example [layernorm, moe_act]. Default: none."},
                    {kRecomputedModules.begin(), kRecomputedModules.end()}))
    sharding.remade[module + 1] = true;
}

/// Reads a word that holds for all blocks, or `{full: N}`.
void read_recompute(PlanChoice& choice, Fields& plan) {
  const Node* node = plan.child_unless_null("recompute");
  if (node && node->kind == Node::Kind::map) {
    const Node map = long_form(node, nullptr, node->place);
    Fields fields(map, "plan.recompute");
    choice.recomputed_blocks = fields.integer<int>({"full",
                                                    "Number of blocks at the beginning of each virtual stage that are "
                                                    "computed again, for example 12. All blocks: recompute: full."},
                                                   1);
    choice.recomputed_place = fields.place_of("full");
    choice.sharding.recompute = Recompute::full;
    fields.finish();
    return;
  }
  std::vector<std::string> words;
  for (int i = 0; i < kRecomputes; ++i) words.emplace_back(name_of(static_cast<Recompute>(i)));
  choice.sharding.recompute = plan.one_of(
      {"recompute",
       "Activations that are computed again in the backward pass: none, selective (the core of attention), full (whole "
       "layers, or {full: N} of them) or operators (all but attention and every second matrix product)."},
      words, Recompute::none);
}

/// Returns true if experts are spread over ranks. By default sequence parallelism is then on: Megatron-Core trains
/// mixtures of experts with tensor parallelism only in that way.
bool spreads_experts(const PlanChoice& choice, Fields& plan) {
  const Node node = long_form(plan.child("expert_parallel"), "size", choice.place);
  Fields fields(node, "plan.expert_parallel");
  return read_rank_count(fields, "size") > 1;
}

void read_axes(PlanChoice& choice, Fields& plan, const SoftwareStack& stack) {
  Sharding& sharding = choice.sharding;
  sharding.tensor = read_rank_count(plan, {"tensor_parallel", "Number of ranks that split each layer, for example 2."});
  read_stages(choice, plan);
  const bool splits_tokens = stack.parallel.sequence || spreads_experts(choice, plan);
  sharding.sequence = plan.boolean({"sequence_parallel",
                                    "Whether tensor ranks split norms, dropouts and residual sums by tokens. Default: "
                                    "the stack's, and true with expert_parallel."},
                                   splits_tokens && sharding.tensor > 1);
  if (sharding.sequence && sharding.tensor == 1)
    plan.refuse("sequence_parallel", "tensor ranks share the tokens, but plan.tensor_parallel is 1");
  read_tensor_overlap(sharding, plan, stack);
  read_linear_split(sharding, plan, "tensor_parallel");
  for (const SearchedDegree& degree : searched_degrees())
    if (degree.read) degree.read(choice, plan);
  read_expert(choice, plan);
  static_cast<LayerDegrees&>(choice.mesh) = sharding;
  if (!choice.mesh.widths.empty()) choice.mesh.tensor = 1;  // the widths replace it
  read_pipeline(choice, plan, stack);
  read_recompute(choice, plan);
  read_activation_offload(choice, plan);
  read_remade(sharding, plan);
  spread_sharding(choice);
  read_order(choice, plan);
}

/// Chooses whether a forward and a backward pass alternate: as the plan says; or for experts as the stack does; or, if
/// layers exchange anything, as the schedule's paper does. With ZeRO stage 3 they never alternate, because parameters
/// are gathered in the order of whole passes.
void choose_pairs(PlanChoice& choice, const SoftwareStack& stack) {
  const bool gathers = choice.zero == ZeroStage::parameters;
  const auto pairs = [&choice] {
    return pipeline_schedules().find(choice.schedule, choice.schedule_place).pairs_passes;
  };
  if (choice.pairs_place.file) {
    // Megatron-LM's comm_overlap.py: with a pipeline, overlap_moe_expert_parallel_comm takes virtual stages.
    if (choice.sharding.pairs_passes && choice.mesh.pipeline > 1 && choice.schedule != "interleaved-1f1b" && !pairs())
      fail(choice.pairs_place,
           fmt::format("plan.expert_parallel.overlap: a stage of {} has one model chunk, and a forward and a backward "
                       "pass side by side wait for messages of both neighbours; expected plan.pipeline.schedule: "
                       "interleaved-1f1b (chunks: 2 or more) or dualpipe-v, or overlap: false",
                       choice.schedule));
    if (choice.sharding.pairs_passes && gathers)
      fail(choice.pairs_place,
           "plan.expert_parallel.overlap: not with ZeRO stage 3, which gathers parameters for one pass at a time");
    return;
  }
  const Mesh& mesh = choice.mesh;
  if (gathers) return;
  const bool can = mesh.pipeline == 1 || choice.schedule == "interleaved-1f1b" || pairs();
  choice.sharding.pairs_passes =
      (stack.parallel.overlap_experts && mesh.expert > 1 && can) ||
      (mesh.pipeline > 1 && (mesh.expert > 1 || mesh.expert_tensor > 1 || mesh.tensor > 1 || mesh.context > 1) &&
       pairs());
}

}  // namespace

bool PlanChoice::splits_model() const {
  return !mesh.widths.empty() || mesh.tensor > 1 || mesh.context > 1 || mesh.pipeline > 1 || mesh.expert > 1 ||
         mesh.expert_tensor > 1 || zero != ZeroStage::none || sharding.recompute != Recompute::none ||
         offload.copies() || std::ranges::count(sharding.remade, true) > 0;
}

std::string PlanChoice::context_exchange_in_words() const {
  if (sharding.ulysses > 0) return fmt::format("ulysses {}", sharding.ulysses);
  return sharding.context_exchange == ContextExchange::all_to_all ? "all-to-all" : "ring";
}

std::string PlanChoice::parts_in_words() const {
  const std::string stages = counted_noun(mesh.pipeline, "stage");
  if (mesh.copies > 1) return stages + " in both directions";
  return chunks == 1 ? stages : fmt::format("{} x {} chunks", stages, chunks);
}

bool PlanChoice::ends_apart() const {
  const PipelineShape shape{mesh.pipeline, 1, chunks};
  if (mesh.pipeline == 1) return false;
  return pipeline_schedules().find(schedule, schedule_place).place_of(mesh.pipeline * chunks - 1, shape).stage != 0;
}

PlanChoice read_plan(const Node& section, Fields& plan, const ClusterSpec& cluster, const SoftwareStack& stack,
                     const LibraryModel* library, const FindRanksRoom& find_room) {
  PlanChoice choice;
  choice.place = section.place;
  read_axes(choice, plan, stack);
  const Node data_parallel =
      long_form(plan.child("data_parallel"), "size", section.place);  // `data_parallel: 16` is its size
  Fields fields(data_parallel, "plan.data_parallel");
  read_data_parallel(choice, plan, fields, cluster, stack, library, find_room);
  fields.finish();
  choose_pairs(choice, stack);
  for (const auto& [key, value] : section.fields)
    if (!plan.knows(key) && fields.knows(key) && key != "size")
      fail(value.key_place, fmt::format("plan.{}: it belongs in plan.data_parallel", key));
  return choice;
}

namespace {

/// Throws UserError for a key that says how tokens go to experts, if the network has none.
void refuse_keys_of_experts(const Scenario& s) {
  const TransformerConfig* config = s.model.entry.transformer();
  if (config && (config->experts.count > 0 || config->has_tables)) return;
  const Node* axis = s.document.find("plan")->find("expert_parallel");
  if (!axis || axis->kind != Node::Kind::map) return;
  for (const auto& [key, fallback] : {std::pair{"imbalance", "1"},
                                      {"capacity", ""},
                                      {"masks", "false"},
                                      {"dispatcher", "all-to-all"},
                                      {"fp8_dispatch", "false"},
                                      {"overlap", "false"}}) {
    const Node* stated = axis->find(key);
    if (!stated || stated->kind == Node::Kind::null || stated->scalar == fallback) continue;
    fail(stated->place, fmt::format("plan.expert_parallel.{}: {} has no experts; leave it out", key, s.network.name));
  }
}

}  // namespace

void take_expert_loads(Scenario& s) {
  refuse_keys_of_experts(s);
  const ExpertLoads& loads = s.plan.expert_loads;
  if (!loads.are_given()) return;
  const TransformerConfig* config = s.model.entry.transformer();
  if (!config || config->experts.count == 0)
    fail(loads.place, fmt::format("plan.expert_parallel.load: {} has no experts; leave it out", s.network.name));
  s.plan.sharding.expert_loads = loads_of(loads, config->experts.count);
  s.model.split_keys["expert_loads"] = {"plan.expert_parallel.load", loads.place};
}

}  // namespace trainyard
