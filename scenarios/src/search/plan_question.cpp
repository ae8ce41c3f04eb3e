#include "scenarios/src/search/plan_question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "scenarios/src/reading/searched_degrees.hpp"
#include "strategies/pipelines/pipeline_schedule.hpp"

namespace trainyard {
namespace {

/// Throws UserError for plans whose search would not mean what the user expects.
void require_searchable(const Scenario& s) {
  const auto refuse = [&s](const char* what) {
    throw UserError(
        fmt::format("plan: a scenario with {} has no plan to search for; leave it out of {}", what, s.name));
  };
  if (s.plan.mechanism_name != kAllReduce) refuse("a mechanism other than all-reduce");
  if (s.plan.inference) refuse("plan.mode: inference");
  if (s.prescribed_step.exists()) refuse("plan.step_time");
  if (s.measured.is_given()) refuse("plan.measured_step");
  if (s.plan.steps) refuse("plan.steps");
  if (!s.plan.flushes) refuse("plan.pipeline.flush: false");
  if (s.input.is_used()) refuse("an input pipeline");
  if (!s.slow.stragglers.empty()) refuse("stragglers");
}

/// Keys of the plan that the search chooses, or that depend on its choices.
constexpr const char* kChosen[] = {"sequence_parallel", "micro_batch_size", "recompute", "steps"};
/// Returns true for keys of the plan that only several tensor ranks have.
bool is_of_tensor_ranks(std::string_view key) { return key == "linear_split" || key == "tensor_parallel_overlap"; }
constexpr const char* kChosenOfPipeline[] = {"schedule", "chunks", "stages"};
constexpr const char* kChosenOfData[] = {"size", "zero_stage", "zero_group", "offload"};
/// A key of `data_parallel` that only the ZeRO stages from `first` to `last` accept.
struct KeyOfStages {
  const char* key;
  ZeroStage first, last;
};
constexpr KeyOfStages kStageKeys[] = {{"prefetch", ZeroStage::parameters, ZeroStage::parameters},
                                      {"overlap_parameters", ZeroStage::optimizer, ZeroStage::gradients},
                                      {"overlap", ZeroStage::none, ZeroStage::gradients},
                                      {"bucket", ZeroStage::none, ZeroStage::gradients},
                                      {"first_bucket", ZeroStage::none, ZeroStage::gradients},
                                      {"bucket_boundaries", ZeroStage::none, ZeroStage::gradients},
                                      {"compression", ZeroStage::none, ZeroStage::none}};
template <std::size_t n>
void erase_keys(Node& map, const char* const (&keys)[n]) {
  std::erase_if(map.fields, [&keys](const auto& field) {
    return std::find(std::begin(keys), std::end(keys), field.first) != std::end(keys);
  });
}

/// Removes chosen keys from the map below a key. A plain value is removed, because it is the size, which is chosen too.
void strip_map(Node& plan, const char* key, const auto& keys) {
  Node* map = plan.find(key);
  if (!map) return;
  if (map->kind == Node::Kind::map) erase_keys(*map, keys);
  if (map->kind != Node::Kind::map || map->fields.empty())
    std::erase_if(plan.fields, [key](const auto& field) { return field.first == key; });
}

}  // namespace

Node without_choices(const Node& section) {
  Node plan = section;
  erase_keys(plan, kChosen);
  strip_map(plan, "pipeline", kChosenOfPipeline);
  strip_map(plan, "data_parallel", kChosenOfData);
  for (const SharingChoice& choice : kSharingChoices) {
    const char* const keys[] = {choice.key};
    strip_map(plan, "data_parallel", keys);
  }
  for (const SearchedDegree& degree : searched_degrees()) {
    const std::string path = degree.key;
    const std::size_t dot = path.find('.');
    const char* const keys[] = {degree.key + (dot == std::string::npos ? 0 : dot + 1)};
    if (dot == std::string::npos)
      erase_keys(plan, keys);
    else
      strip_map(plan, path.substr(0, dot).c_str(), keys);
  }
  if (Node* pipeline = plan.find("pipeline"))  // a list of layers is only valid for one number of stages
    std::erase_if(pipeline->fields,
                  [](const auto& field) { return field.first == "layers" && field.second.kind == Node::Kind::list; });
  return plan;
}

PlanPoint point_of(const Scenario& s) {
  const PlanChoice& plan = s.plan;
  PlanPoint p;
  static_cast<Degrees&>(p) = plan.mesh;
  p.ulysses = 0;  // all plans have the value of the question
  p.micro_batch = s.micro_batch_size;
  p.sequence = plan.sharding.sequence;
  p.recompute = name_of(plan.sharding.recompute);
  p.recomputed_blocks = plan.recomputed_blocks;
  if (p.pipeline > 1) p.schedule = plan.schedule;
  p.chunks = p.pipeline > 1 ? plan.chunks : 1;
  static_cast<StateSharing&>(p) = plan;
  p.offload = name_of(plan.offload.optimizer);
  return p;
}

PlanQuestion read_plan_question(Node document, const std::string& name, const Overrides& overrides) {
  const Node file = document;
  for (const auto& [path, value] : overrides) set_field(document, path, value);
  PlanQuestion question;
  Node* plan = document.find("plan");
  if (!plan || plan->kind != Node::Kind::map) {
    read_scenario(file, name, overrides);  // throws
    throw UserError(name + ": a plan expected, at least with its global_batch_size");
  }
  question.section = *plan;
  try {
    question.own = read_scenario(file, name, overrides);
  } catch (const UserError& e) {  // an error outside of the plan is thrown again below
    question.own_error = e.what();
  }
  if (question.own) require_searchable(*question.own);
  constexpr const char* kBatch = "global_batch_size";
  if (!question.section.find(kBatch) && !document.find("post_training")) {
    if (!question.own)
      throw UserError(fmt::format("plan: the samples of a step expected, plan.{}, since the plan of {} has none: {}",
                                  kBatch, name, question.own_error));
    set_field(question.section, kBatch,
              Node::scalar_node(fmt::format("{}", question.own->global_batch_size), plan->place));
  }
  Node& bare = *plan = without_choices(question.section);
  std::erase_if(bare.fields, [](const auto& field) {
    return field.first == "pipeline" || is_of_tensor_ranks(field.first);  // one device has none of them
  });
  if (Node* data_parallel = bare.find("data_parallel"))
    for (const KeyOfStages& stage_key : kStageKeys)
      std::erase_if(data_parallel->fields, [&stage_key](const auto& field) { return field.first == stage_key.key; });
  set_field(bare, "data_parallel.size", Node::scalar_node("1", bare.place));
  set_field(bare, "idle_devices", Node::scalar_node("allowed", bare.place));
  set_field(bare, "micro_batch_size", Node::scalar_node("1", bare.place));
  question.base = read_scenario(document, name);
  require_searchable(question.base);
  if (question.own && question.own->ranks() != question.base.cluster.gpus()) {
    question.own_error = fmt::format("{}, but the cluster has {}", counted_noun(question.own->ranks(), "rank"),
                                     counted_noun(question.base.cluster.gpus(), "GPU"));
    question.own.reset();
  }
  return question;
}

PlanPoint stated_point(const PlanQuestion& question) {
  if (question.own) return point_of(*question.own);
  Node document = question.base.document;
  Node& plan = *document.find("plan") = question.section;
  constexpr const char* kSizes[] = {"size"};
  strip_map(plan, "data_parallel", kSizes);
  set_field(plan, "data_parallel.size", Node::scalar_node("1", plan.place));
  set_field(plan, "idle_devices", Node::scalar_node("allowed", plan.place));
  PlanPoint point;
  try {
    if (const Node* micro_batch = plan.find("micro_batch_size"))
      point.micro_batch = whole_number(*micro_batch, "plan.micro_batch_size", 1, std::int64_t{1} << 24);
    point = point_of(read_scenario(document, question.base.name));
  } catch (const UserError&) {  // `own_error` says why it is no plan
  }
  return point;
}

Node plan_section(const Node& bare, const PlanPoint& p, std::int64_t data, std::int64_t global_batch_size) {
  Node plan = bare;
  // A plan that stands in no file is named by its words in errors about it.
  const Place place = plan.place.line > 0 ? plan.place : Place::named(words_of(p, data));
  plan.place = place;
  const auto set = [&plan, &place](std::string_view path, std::string value) {
    set_field(plan, path, Node::scalar_node(std::move(value), place));
  };
  const auto set_number = [&set](std::string_view path, std::int64_t value) { set(path, fmt::format("{}", value)); };
  set_number("global_batch_size", global_batch_size);
  set_number("micro_batch_size", p.micro_batch);
  for (const SearchedDegree& degree : searched_degrees())
    if (p.*degree.member != degree.unsplit_value) set_number(degree.key, p.*degree.member);
  if (p.tensor > 1) set("sequence_parallel", p.sequence ? "true" : "false");
  if (p.tensor == 1) std::erase_if(plan.fields, [](const auto& f) { return is_of_tensor_ranks(f.first); });
  if (p.context == 1) std::erase_if(plan.fields, [](const auto& f) { return f.first == "context_parallel"; });
  if (p.pipeline > 1) {
    set("pipeline.schedule", p.schedule);
    set_number("pipeline.chunks", p.chunks);
    if (!pipeline_schedules().find(p.schedule, place).is_solved())
      std::erase_if(plan.find("pipeline")->fields, [](const auto& f) { return f.first == "activation_limit"; });
  } else {
    std::erase_if(plan.fields, [](const auto& f) { return f.first == "pipeline"; });
  }
  if (p.recomputed_blocks > 0)
    set_number("recompute.full", p.recomputed_blocks);
  else if (p.recompute != "none")
    set("recompute", p.recompute);
  set_number("data_parallel.size", data);
  set_number("data_parallel.zero_stage", static_cast<int>(p.zero));
  Node& data_parallel = *plan.find("data_parallel");
  for (const KeyOfStages& stage_key : kStageKeys)
    if (p.zero < stage_key.first || p.zero > stage_key.last)
      std::erase_if(data_parallel.fields, [&stage_key](const auto& f) { return f.first == stage_key.key; });
  for (const SharingChoice& choice : kSharingChoices)
    if (p.*choice.member == choice.other) set(fmt::format("data_parallel.{}", choice.key), choice.value);
  if (p.zero_group > 0) set_number("data_parallel.zero_group", p.zero_group);
  if (p.offload != "none") set("data_parallel.offload.optimizer", p.offload);
  for (const auto& [path, value] : p.extra)
    set_field(plan, path.substr(5), parse_override(value, fmt::format("--vary {}", path)));
  return plan;
}

std::string sharing_details(const StateSharing& p) {
  std::string text;
  for (const SharingChoice& choice : kSharingChoices)
    if (p.*choice.member == choice.other) text += choice.words;
  if (p.zero_group > 0) text += fmt::format(" in groups of {}", p.zero_group);
  return text;
}

std::string words_of(const PlanPoint& p, std::int64_t data, const std::string& context_exchange) {
  Mesh mesh;
  static_cast<Degrees&>(mesh) = p;
  mesh.data = static_cast<int>(data);
  std::string text = fmt::format("{}, micro-batch {}", mesh.in_words(context_exchange), p.micro_batch);
  if (p.pipeline > 1) text += ", " + p.schedule;
  if (p.chunks > 1) text += fmt::format(" of {} chunks", p.chunks);
  if (p.sequence) text += ", sequence parallel";
  if (p.recompute != "none") text += fmt::format(", {} recomputation", p.recompute);
  if (p.recomputed_blocks > 0) text += fmt::format(" of {} blocks a stage", p.recomputed_blocks);
  if (p.zero != ZeroStage::none) text += fmt::format(", ZeRO {}", static_cast<int>(p.zero));
  text += sharing_details(p);
  if (p.offload != "none") text += ", optimizer on " + p.offload;
  for (const auto& [path, value] : p.extra) text += fmt::format(", {} {}", path.substr(5), value);
  return text;
}

}  // namespace trainyard
