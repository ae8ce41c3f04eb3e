#include "scenarios/search/plan_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "scenarios/planning/layer_division.hpp"
#include "strategies/pipelines/pipeline_schedule.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kLongSequence = 16384;  // shorter ones fit on a rank: context parallelism only adds exchanges

std::vector<std::int64_t> divisors(std::int64_t of) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t n = 1; n * n <= of; ++n) {
    if (of % n != 0) continue;
    low.push_back(n);
    if (n * n != of) high.push_back(of / n);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

/// What a search would do something else with than its user thinks.
void require_searchable(const Scenario& s) {
  const auto refuse = [&s](const char* what) {
    throw UserError(
        fmt::format("plan: a scenario with {} has no plan to search for; leave it out of {}", what, s.name));
  };
  if (s.plan.mechanism_name != kAllReduce) refuse("a mechanism other than all-reduce");
  if (s.plan.inference) refuse("plan.mode: inference");
  if (s.prescribed_step.given()) refuse("plan.step_time");
  if (s.measured.given()) refuse("plan.measured_step");
  if (s.plan.steps > 0) refuse("plan.steps");
  if (s.input.used()) refuse("an input pipeline");
  if (!s.slow.stragglers.empty()) refuse("stragglers");
}

/// Keys of the plan's maps that the search chooses, or that belong to what it chooses.
constexpr const char* kChosen[] = {"tensor_parallel",  "sequence_parallel", "pipeline_parallel",
                                   "micro_batch_size", "recompute",         "steps"};
constexpr const char* kChosenOfPipeline[] = {"schedule", "chunks"};
constexpr const char* kChosenOfData[] = {"size", "zero_stage", "zero_group", "reshard", "gradient_sync", "offload"};
constexpr const char* kChosenOfSplit[] = {"size"};
/// Keys of `data_parallel` that some ZeRO stages alone take.
struct KeyOfStages {
  const char* key;
  int first, last;
};
constexpr KeyOfStages kOfStages[] = {{"prefetch", 3, 3},   {"overlap_parameters", 1, 2}, {"overlap", 0, 2},
                                     {"bucket", 0, 2},     {"first_bucket", 0, 2},       {"bucket_boundaries", 0, 2},
                                     {"compression", 0, 0}};
/// Fields of the plan that say what is computed: plans are compared on the same.
constexpr const char* kWorkOfPlan[] = {"plan.global_batch_size", "plan.seq_length", "plan.decoder_seq_length",
                                       "plan.precision",         "plan.optimizer",  "plan.strategy",
                                       "plan.training",          "plan.mode"};
constexpr const char* kSpaceAxes[] = {"plan.tensor_parallel",
                                      "plan.context_parallel",
                                      "plan.expert_parallel",
                                      "plan.pipeline_parallel",
                                      "plan.micro_batch_size",
                                      "plan.sequence_parallel",
                                      "plan.recompute",
                                      "plan.pipeline.schedule",
                                      "plan.pipeline.chunks",
                                      "plan.data_parallel.zero_stage",
                                      "plan.data_parallel.offload"};

bool is_axis(const std::string& path) {
  return std::find(std::begin(kSpaceAxes), std::end(kSpaceAxes), path) != std::end(kSpaceAxes);
}

template <std::size_t n>
void erase_keys(Node& map, const char* const (&keys)[n]) {
  std::erase_if(map.fields, [&keys](const auto& field) {
    return std::find(std::begin(keys), std::end(keys), field.first) != std::end(keys);
  });
}

/// The map below a key; a plain value there is its size, which is chosen.
void strip_map(Node& plan, const char* key, const auto& keys) {
  Node* map = plan.find(key);
  if (!map) return;
  if (map->kind == Node::Kind::map) erase_keys(*map, keys);
  if (map->kind != Node::Kind::map || map->fields.empty())
    std::erase_if(plan.fields, [key](const auto& field) { return field.first == key; });
}

Node without_choices(const Node& section) {
  Node plan = section;
  erase_keys(plan, kChosen);
  strip_map(plan, "pipeline", kChosenOfPipeline);
  strip_map(plan, "data_parallel", kChosenOfData);
  strip_map(plan, "context_parallel", kChosenOfSplit);
  strip_map(plan, "expert_parallel", kChosenOfSplit);
  if (Node* pipeline = plan.find("pipeline"))  // a list of layers is of so many stages
    std::erase_if(pipeline->fields,
                  [](const auto& field) { return field.first == "layers" && field.second.kind == Node::Kind::list; });
  return plan;
}

std::vector<std::int64_t> powers_of_two(std::vector<std::int64_t> of) {
  std::erase_if(of, [](std::int64_t n) { return (n & (n - 1)) != 0; });
  return of;
}

}  // namespace

PlanPoint point_of(const Scenario& s) {
  const PlanChoice& plan = s.plan;
  PlanPoint p;
  p.tensor = plan.mesh.tensor;
  p.context = plan.mesh.context;
  p.expert = plan.mesh.expert;
  p.pipeline = plan.mesh.pipeline;
  p.micro_batch = s.micro_batch_size;
  p.sequence = plan.sharding.sequence;
  p.recompute = plan.sharding.recompute == Recompute::full        ? "full"
                : plan.sharding.recompute == Recompute::selective ? "selective"
                                                                  : "none";
  if (p.pipeline > 1) p.schedule = plan.schedule;
  p.chunks = p.pipeline > 1 ? plan.chunks : 1;
  p.zero = static_cast<int>(plan.zero);
  if (p.zero == 3) p.reshard = plan.reshard;
  if (p.zero == 3) p.sync_last = plan.sync_last;
  p.zero_group = plan.zero_group;
  p.offload = plan.offload.optimizer == OffloadDevice::none  ? "none"
              : plan.offload.optimizer == OffloadDevice::cpu ? "cpu"
                                                             : "nvme";
  return p;
}

PlanQuestion read_plan_question(Node document, const std::string& name, const Overrides& overrides) {
  for (const auto& [path, value] : overrides) set_field(document, path, value);
  PlanQuestion question;
  Node* plan = document.find("plan");
  if (!plan || plan->kind != Node::Kind::map) {
    read_scenario(document, name);  // says so
    throw UserError(name + ": a plan expected, with its global_batch_size at least");
  }
  question.section = *plan;
  try {
    question.own = read_scenario(document, name);
  } catch (const UserError&) {  // what does not lie in the plan is said below
  }
  Node& bare = *plan = without_choices(question.section);
  std::erase_if(bare.fields, [](const auto& field) { return field.first == "pipeline"; });
  if (Node* data_parallel = bare.find("data_parallel"))
    for (const KeyOfStages& of : kOfStages)
      std::erase_if(data_parallel->fields, [&of](const auto& field) { return field.first == of.key; });
  set_field(bare, "data_parallel.size", Node::of_text("1", bare.place));
  set_field(bare, "micro_batch_size", Node::of_text("1", bare.place));
  question.base = read_scenario(document, name);
  require_searchable(question.own ? *question.own : question.base);
  if (question.own && question.own->ranks() != question.base.cluster.gpus()) question.own.reset();
  return question;
}

PlanSpace::PlanSpace(const PlanQuestion& question, PlanSpaceOptions options)
    : of_(question.base), options_(std::move(options)), base_(without_choices(question.section)) {
  gpus_ = of_.cluster.gpus();
  PlanChoice cut = of_.plan;
  if (const Node* pipeline = base_.find("pipeline"); pipeline && pipeline->kind == Node::Kind::map) {
    const Node *ends = pipeline->find("ends_count_as_layers"), *layers = pipeline->find("layers");
    cut.ends_count_as_layers = (ends && ends->scalar == "true") || (layers && layers->scalar == "balanced");
  }
  layers_ = layers_to_divide(of_.network, cut);
  const TransformerConfig* config = of_.model.entry.transformer();
  transformer_ = config != nullptr;
  experts_ = config && config->experts.count > 0;
  long_sequences_ =
      (config && of_.model.seq_length >= kLongSequence) || question.section.find("context_parallel") != nullptr;
  for (const PlanSpaceOptions::Axis& axis : options_.vary) {
    if (!axis.path.starts_with("plan."))
      throw UserError(fmt::format("--vary {}: a field of the plan expected, such as plan.tensor_parallel", axis.path));
    if (std::find(std::begin(kWorkOfPlan), std::end(kWorkOfPlan), axis.path) != std::end(kWorkOfPlan))
      throw UserError(fmt::format("--vary {}: it says what is computed; plans are compared on the same", axis.path));
  }
}

const PlanSpaceOptions::Axis* PlanSpace::given(const std::string& path) const {
  for (const PlanSpaceOptions::Axis& axis : options_.vary)
    if (axis.path == path) return &axis;
  return nullptr;
}

std::vector<std::int64_t> PlanSpace::numbers(const std::string& path, std::vector<std::int64_t> own) const {
  const PlanSpaceOptions::Axis* axis = given(path);
  if (!axis) return own;
  std::vector<std::int64_t> values;
  for (const std::string& text : axis->values) {
    try {
      values.push_back(parse_integer(text));
    } catch (const UserError&) {
      throw UserError(fmt::format("--vary {}: {}: a whole number expected", path, text));
    }
    if (values.back() < 0) throw UserError(fmt::format("--vary {}: {}: 0 or more expected", path, text));
  }
  return values;
}

std::vector<std::string> PlanSpace::texts(const std::string& path, std::vector<std::string> own) const {
  const PlanSpaceOptions::Axis* axis = given(path);
  return axis ? axis->values : own;
}

std::vector<std::int64_t> PlanSpace::tensors() const {
  return numbers("plan.tensor_parallel", transformer_ ? divisors(gpus_) : std::vector<std::int64_t>{1});
}
std::vector<std::int64_t> PlanSpace::contexts(int tensor) const {
  return numbers("plan.context_parallel",
                 long_sequences_ ? powers_of_two(divisors(gpus_ / tensor)) : std::vector<std::int64_t>{1});
}
std::vector<std::int64_t> PlanSpace::pipelines(const PlanPoint& p) const {
  return numbers("plan.pipeline_parallel", divisors(gpus_ / (std::int64_t{1} * p.tensor * p.context)));
}
std::vector<std::int64_t> PlanSpace::experts(const PlanPoint& p) const {
  return numbers("plan.expert_parallel", experts_ ? divisors(data(p) * p.context) : std::vector<std::int64_t>{1});
}
std::vector<std::int64_t> PlanSpace::micro_batches(const PlanPoint& p) const {
  return numbers("plan.micro_batch_size", divisors(of_.global_batch_size / data(p)));
}

/// The axes divide the GPUs, replicas the batch: the reader of scenarios refuses all else.
bool PlanSpace::fits_gpus(const PlanPoint& p) const {
  const std::int64_t others = std::int64_t{1} * p.tensor * p.context * p.pipeline;
  return p.tensor > 0 && p.context > 0 && p.pipeline > 0 && others <= gpus_ && gpus_ % others == 0 &&
         of_.global_batch_size % data(p) == 0 && p.pipeline <= layers_;
}

std::vector<PlanPoint> PlanSpace::groups() const {
  std::vector<PlanPoint> groups;
  PlanPoint p;
  const std::vector<std::string> recomputations =
      texts("plan.recompute",
            transformer_ ? std::vector<std::string>{"none", "selective", "full"} : std::vector<std::string>{"none"});
  const auto add = [&](std::int64_t micro, bool sequence) {
    p.micro_batch = micro;
    p.sequence = sequence;
    for (const std::string& recompute : recomputations) {
      p.recompute = recompute;
      groups.push_back(p);
    }
  };
  for (const std::int64_t tensor : tensors()) {
    p.tensor = static_cast<int>(tensor);
    for (const std::int64_t context : tensor > 0 ? contexts(p.tensor) : std::vector<std::int64_t>{}) {
      p.context = static_cast<int>(context);
      for (const std::int64_t pipeline : p.context > 0 ? pipelines(p) : std::vector<std::int64_t>{}) {
        p.pipeline = static_cast<int>(pipeline);
        if (!fits_gpus(p)) continue;
        for (const std::int64_t expert : experts(p)) {
          p.expert = static_cast<int>(expert);
          if (p.expert < 1 || data(p) * p.context % p.expert != 0) continue;
          for (const std::int64_t micro : micro_batches(p)) {
            if (micro < 1 || of_.global_batch_size % (micro * data(p)) != 0) continue;
            for (const std::string& sequence : texts("plan.sequence_parallel", {"false", "true"}))
              if (sequence != "true" || p.tensor > 1) add(micro, sequence == "true");
          }
        }
      }
    }
  }
  return groups;
}

std::vector<std::pair<std::string, int>> PlanSpace::schedules(const PlanPoint& p) const {
  if (p.pipeline == 1) return {{"1f1b", 1}};
  std::vector<std::pair<std::string, int>> all;
  for (const std::string& name : texts("plan.pipeline.schedule", pipeline_schedules().names())) {
    const PipelineSchedule& schedule = pipeline_schedules().find(name, Place::of("--vary plan.pipeline.schedule"));
    std::vector<std::int64_t> chunks;
    for (std::int64_t n = schedule.least_chunks; n * p.pipeline <= layers_; ++n)
      if (n == schedule.least_chunks || layers_ % (n * p.pipeline) == 0) chunks.push_back(n);
    const std::int64_t micro_batches = of_.global_batch_size / (p.micro_batch * data(p));
    for (const std::int64_t n : numbers("plan.pipeline.chunks", chunks)) {
      if (n < 1 || n * p.pipeline > layers_ || (n > schedule.least_chunks && schedule.least_chunks == 1)) continue;
      const PipelineShape shape{p.pipeline, static_cast<int>(micro_batches), static_cast<int>(n)};
      if (!schedule.refuses || schedule.refuses(shape).empty()) all.emplace_back(name, static_cast<int>(n));
    }
  }
  return all;
}

/// The reader of scenarios refuses stage 2 with a pipeline, and stage 3 where a weight of the first layer lies on two
/// stages.
bool PlanSpace::refused_stage(const PlanPoint& p) const {
  if (p.pipeline == 1 || p.zero < 2) return false;
  if (p.zero == 2) return true;
  PlanChoice choice;
  choice.mesh.pipeline = p.pipeline;
  choice.schedule = p.schedule;
  choice.chunks = p.chunks;
  return ties_head(of_.model) && choice.ends_apart();
}

/// What replicas share out.
std::vector<PlanPoint> PlanSpace::sharings(const PlanPoint& of) const {
  std::vector<PlanPoint> all;
  const std::int64_t replicas = data(of) * of.context;
  const std::int64_t micro_batches = of_.global_batch_size / (of.micro_batch * data(of));
  const std::int64_t of_node = of_.cluster.node.gpus / std::max(1, of.tensor);
  for (const std::int64_t stage : numbers("plan.data_parallel.zero_stage", {0, 1, 2, 3})) {
    PlanPoint p = of;
    p.zero = static_cast<int>(stage);
    if (stage > 0 && replicas == 1 && !given("plan.data_parallel.zero_stage")) continue;  // the same as without
    if (refused_stage(p)) continue;
    all.push_back(p);
    if (stage != 3) continue;
    std::vector<PlanPoint> here{p};
    if (micro_batches > 1) {  // of one, all of these are the same
      p.sync_last = true;
      here.push_back(p);
      p.reshard = false;
      here.push_back(p);
    }
    if (of_node > 1 && of_node < replicas && replicas % of_node == 0)
      for (std::size_t i = 0, n = here.size(); i < n; ++i) {
        here.push_back(here[i]);
        here.back().zero_group = static_cast<int>(of_node);
      }
    all.insert(all.end(), here.begin() + 1, here.end());
  }
  return all;
}

std::vector<PlanPoint> PlanSpace::points(const PlanPoint& group) const {
  std::vector<PlanPoint> all;
  const std::vector<std::string> offloads =
      texts("plan.data_parallel.offload",
            options_.offload ? std::vector<std::string>{"none", "cpu"} : std::vector<std::string>{"none"});
  for (const auto& [schedule, chunks] : schedules(group)) {
    PlanPoint p = group;
    p.schedule = schedule;
    p.chunks = chunks;
    for (PlanPoint shared : sharings(p))
      for (const std::string& offload : offloads) {
        shared.offload = offload;
        all.push_back(shared);
      }
  }
  for (const PlanSpaceOptions::Axis& axis : options_.vary) {
    if (is_axis(axis.path)) continue;
    std::vector<PlanPoint> wider;
    for (const PlanPoint& p : all)
      for (const std::string& value : axis.values) {
        wider.push_back(p);
        wider.back().extra.emplace_back(axis.path, value);
      }
    all = std::move(wider);
  }
  return all;
}

Node PlanSpace::section(const PlanPoint& p) const {
  Node plan = base_;
  const auto set = [&plan](std::string_view path, std::string value) {
    set_field(plan, path, Node::of_text(std::move(value), plan.place));
  };
  const auto number = [&set](std::string_view path, std::int64_t value) { set(path, fmt::format("{}", value)); };
  number("global_batch_size", of_.global_batch_size);
  number("micro_batch_size", p.micro_batch);
  if (p.tensor > 1) number("tensor_parallel", p.tensor);
  if (p.tensor > 1) set("sequence_parallel", p.sequence ? "true" : "false");
  if (p.context > 1) number("context_parallel.size", p.context);
  if (p.context == 1) std::erase_if(plan.fields, [](const auto& f) { return f.first == "context_parallel"; });
  if (p.expert > 1) number("expert_parallel.size", p.expert);
  if (p.pipeline > 1) {
    number("pipeline_parallel", p.pipeline);
    set("pipeline.schedule", p.schedule);
    number("pipeline.chunks", p.chunks);
  } else {
    std::erase_if(plan.fields, [](const auto& f) { return f.first == "pipeline"; });
  }
  if (p.recompute != "none") set("recompute", p.recompute);
  number("data_parallel.size", data(p));
  number("data_parallel.zero_stage", p.zero);
  Node& data_parallel = *plan.find("data_parallel");
  for (const KeyOfStages& of : kOfStages)
    if (p.zero < of.first || p.zero > of.last)
      std::erase_if(data_parallel.fields, [&of](const auto& f) { return f.first == of.key; });
  if (!p.reshard) set("data_parallel.reshard", "false");
  if (p.sync_last) set("data_parallel.gradient_sync", "last");
  if (p.zero_group > 0) number("data_parallel.zero_group", p.zero_group);
  if (p.offload != "none") set("data_parallel.offload.optimizer", p.offload);
  for (const auto& [path, value] : p.extra) set_field(plan, path.substr(5), value);
  return plan;
}

std::string PlanSpace::words(const PlanPoint& p) const {
  Mesh mesh;
  mesh.tensor = p.tensor;
  mesh.context = p.context;
  mesh.expert = p.expert;
  mesh.pipeline = p.pipeline;
  mesh.data = static_cast<int>(data(p));
  std::string text = fmt::format("{}, micro-batch {}", mesh.in_words(), p.micro_batch);
  if (p.pipeline > 1) text += ", " + p.schedule;
  if (p.chunks > 1) text += fmt::format(" of {} chunks", p.chunks);
  if (p.sequence) text += ", sequence parallel";
  if (p.recompute != "none") text += fmt::format(", {} recomputation", p.recompute);
  if (p.zero > 0) text += fmt::format(", ZeRO {}", p.zero);
  if (!p.reshard) text += " without resharding";
  if (p.sync_last) text += ", gradients exchanged last";
  if (p.zero_group > 0) text += fmt::format(", shared by {}", p.zero_group);
  if (p.offload != "none") text += ", optimizer on " + p.offload;
  for (const auto& [path, value] : p.extra) text += fmt::format(", {} {}", path.substr(5), value);
  return text;
}

}  // namespace trainyard
