#include "scenarios/src/lessons/teach_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/planning/offload.hpp"
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/step_machine.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/json_text.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

constexpr int kMostStepRanks = 64;
constexpr double kMostStepElements = 1e7;   // parameters of all ranks together
constexpr double kMostStepProducts = 3e10;  // parameters times tokens of all steps
constexpr double kStepRounding = 1e-10;     // relative difference that only the order of sums explains

void require_values(const Scenario& s, const StepQuestion& question) {
  const Place& place = s.plan.place;
  if (s.model.entry.cnn())
    fail(s.model.place,
         "model: teach step computes networks of linear layers and decoders; expected {mlp: {widths: […]}}, or a "
         "transformer such as {base: gpt2, n_layer: 2, n_embd: 16, n_head: 4}");
  if (s.plan.mechanism_name != kAllReduce || s.plan.compression)
    fail(place,
         "teach step: only replicas that all-reduce whole gradients compute the step of one device; `trainyard learn` "
         "shows the others");
  if (s.plan.inference || s.prescribed_step.exists() || s.input.is_used() || s.post_training)
    fail(place,
         "teach step: a training step alone expected, without input, post_training, plan.step_time and plan.inference");
  if (s.model.options.adapters.has_rank() || s.fp8)
    fail(place, "teach step: weights that are all trained, in 16 or more bits expected; leave out plan.lora and fp8");
  if (s.model.entry.transformer() && s.model.entry.transformer()->lists)
    fail(
        s.model.place,
        fmt::format(
            "teach step: {} is written as operators, which have no numbers; expected a network such as gpt2, or an MLP",
            s.network.name));
  if (s.plan.all_reduce.settings.fidelity != Fidelity::messages)
    fail(s.plan.all_reduce.place, "plan.data_parallel.all_reduce: only messages carry values; leave out fidelity");
  if (s.ranks() > kMostStepRanks)
    fail(place, fmt::format("teach step: {} ranks; at most {}", s.ranks(), kMostStepRanks));
  const double parameters = s.network.parameters(),
               tokens = static_cast<double>(s.global_batch_size * s.model.seq_length) * question.steps;
  if (parameters * (s.ranks() + 1) > kMostStepElements || parameters * tokens > kMostStepProducts)
    fail(s.model.place,
         fmt::format(
             "model: {:.4g} parameters on {} ranks and {:.4g} tokens are too many to compute; expected at most {:.0e} "
             "parameters on all ranks together, for example --set 'model={{mlp: {{widths: [16, 16, 16, 16]}}}}'",
             parameters, s.ranks(), tokens, kMostStepElements));
}

TrainingTask task_of(const Scenario& s, const StepQuestion& question) {
  TrainingTask task;
  if (const MlpShape* mlp = s.model.entry.mlp())
    task.model = *mlp;
  else
    task.model = *s.model.entry.transformer();
  task.micro_batch_size = static_cast<int>(s.micro_batch_size);
  task.seq_length = static_cast<int>(s.model.seq_length);
  task.seed = static_cast<std::uint64_t>(question.seed);
  task.rule.learning_rate = question.learning_rate;
  return task;
}

double largest(const std::vector<TensorComparison>& tensors, double TensorComparison::*figure) {
  double most = 0;
  for (const TensorComparison& tensor : tensors) most = std::max(most, tensor.*figure);
  return most;
}

/// Runs the programs of the plan on values, and fills the lesson with what they give.
void run_divided(const Scenario& s, Plan planned, const TrainingTask& task, StepLesson& lesson,
                 const TrainingValues& one_device, const TrainingValues& before) {
  planned.training.steps = lesson.steps;
  planned.training.values = true;
  require_size(s, planned, 1, "every rank has numbers of its own");
  StepMachine machine(s, planned);
  attach_host_ways(planned.training.offload, planned.training.ranks(), machine.cluster, s.plan.place);
  const TrainingStates states{s.precision, s.optimizer, s.software};
  lesson.cut = cut_layer(*planned.training.network, planned.training.mesh.group(0, Axis::tensor));
  Names names;
  CutLayerTraffic operators(lesson.cut, names);
  const auto mechanism = s.plan.mechanism->run({planned.training, machine.cluster, states, names});
  Values values;
  TrainingValues training(task, mechanism->plan(), values);
  mechanism->add_values(training);
  bool any = false;
  values.lose([&](const Op& receive) {
    const std::string& exchange = names.groups().at(receive.group).name;
    ++lesson.messages[exchange];
    const bool lost = !lesson.left_out_exchange.empty() && exchange.starts_with(lesson.left_out_exchange);
    any |= lost;
    return lost;
  });
  run_programs(machine.top(), mechanism->programs(), {.observers = {&values, mechanism->observer(), &operators}});
  if (!any && !lesson.left_out_exchange.empty()) {
    std::vector<std::string> exchanges;
    for (const auto& [name, count] : lesson.messages) exchanges.push_back(name);
    throw UserError(fmt::format("--leave-out {}: no exchange of this plan{}", lesson.left_out_exchange,
                                hint(lesson.left_out_exchange, exchanges)));
  }
  lesson.loss = training.loss(lesson.steps - 1);
  lesson.difference = difference(training, one_device);
  lesson.tensors = compare_tensors(training, one_device, before);
  lesson.hazards = values.hazards();
}

nlohmann::ordered_json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

std::string difference_text(double value) { return std::isfinite(value) ? fmt::format("{:.2g}", value) : "no number"; }

std::vector<double> elements_by_rank(const StepLesson& lesson) {
  std::vector<double> elements(static_cast<std::size_t>(lesson.ranks));
  for (const TensorComparison& tensor : lesson.tensors)
    for (std::size_t rank = 0; rank < elements.size(); ++rank) elements[rank] += tensor.elements_by_rank[rank];
  return elements;
}

long holding_ranks(const TensorComparison& tensor) {
  return std::ranges::count_if(tensor.elements_by_rank, [](double count) { return count > 0; });
}

std::vector<std::string> step_sums(const StepLesson& lesson) {
  std::vector<std::string> sums;
  std::string messages;
  for (const auto& [name, count] : lesson.messages)
    messages += fmt::format("{}{} of {}", messages.empty() ? "" : ", ", count, name);
  sums.push_back("messages with values: " + (messages.empty() ? "none" : messages));
  if (!lesson.left_out_exchange.empty())
    sums.push_back(fmt::format("messages of {} have brought zeros", lesson.left_out_exchange));
  if (!lesson.failure.empty()) {
    sums.push_back("the step cannot end: " + lesson.failure);
    return sums;
  }
  sums.push_back(fmt::format("loss: {:.12g} divided, {:.12g} on one device", lesson.loss, lesson.loss_of_one));
  sums.push_back(fmt::format(
      "{} by one device move{} weights by up to {:.3g}; the divided weights differ from them by up to {}: {}",
      counted_noun(lesson.steps, "step"), lesson.steps == 1 ? "s" : "", lesson.largest_change(),
      difference_text(lesson.largest_difference()),
      lesson.equals_one_device() ? "the step of one device" : "NOT the step of one device"));
  if (!lesson.equals_one_device()) sums.push_back("largest relative difference: " + lesson.difference.worst);
  for (const std::string& hazard : lesson.hazards) sums.push_back(hazard);
  return sums;
}

nlohmann::ordered_json operators_json(const CutLayer& cut) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (const CutPart& part : cut.parts)
    parts.push_back({{"part", part.name},
                     {"f", {{"forward_bytes", 0}, {"backward_bytes", part.f_backward.front().bytes}}},
                     {"g", {{"forward_bytes", part.g_forward.front().bytes}, {"backward_bytes", 0}}}});
  return {{"layer", cut.name}, {"ranks", cut.ranks.size()}, {"parts", std::move(parts)}};
}

std::string step_json(const StepLesson& lesson) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const TensorComparison& t : lesson.tensors)
    tensors.push_back({{"layer", lesson.layers[static_cast<std::size_t>(t.layer)]},
                       {"tensor", t.tensor},
                       {"elements", t.elements},
                       {"held", t.elements_by_rank},
                       {"largest", t.largest_weight},
                       {"moved", t.largest_change},
                       {"difference", finite_or_null(t.largest_difference)}});
  return json_text(nlohmann::ordered_json{{"network", lesson.network},
                                          {"plan", lesson.plan},
                                          {"ranks", lesson.ranks},
                                          {"steps", lesson.steps},
                                          {"samples", lesson.samples},
                                          {"parameters", lesson.parameters},
                                          {"left_out", lesson.left_out_exchange},
                                          {"failed", lesson.failure},
                                          {"loss", finite_or_null(lesson.loss)},
                                          {"loss_of_one_device", lesson.loss_of_one},
                                          {"largest_move", lesson.largest_change()},
                                          {"largest_difference", finite_or_null(lesson.largest_difference())},
                                          {"relative_difference",
                                           {{"loss", finite_or_null(lesson.difference.loss)},
                                            {"gradients", finite_or_null(lesson.difference.gradients)},
                                            {"weights", finite_or_null(lesson.difference.parameters)}}},
                                          {"equals_one_device", lesson.equals_one_device()},
                                          {"held_by_rank", elements_by_rank(lesson)},
                                          {"messages", lesson.messages},
                                          {"cut_layer", lesson.cut.has_operators() ? operators_json(lesson.cut)
                                                                                   : nlohmann::ordered_json(nullptr)},
                                          {"tensors", tensors}},
                   2);
}

std::vector<FieldRow> step_json_rows() {
  return {
      {"network", "text", "description of the network", ""},
      {"plan", "text", "description of the plan", ""},
      {"ranks", "number", "number of ranks", ""},
      {"steps", "number", "number of training steps", ""},
      {"samples", "number", "number of samples of a step", ""},
      {"parameters", "number", "number of parameters of the network", ""},
      {"left_out", "text", "exchange that was left out; empty: none", ""},
      {"failed", "text", "reason why the step could not end; empty: it ended", ""},
      {"loss", "number", "loss of the divided step; null: it is not finite", ""},
      {"loss_of_one_device", "number", "loss of the step of one device", ""},
      {"largest_move", "number", "largest change of a parameter", ""},
      {"largest_difference", "number", "largest difference of a parameter between both; null: it is not finite", ""},
      {"relative_difference", "object", "largest relative differences between both; null: not finite", ""},
      {"relative_difference.loss", "number", "relative difference of the losses", ""},
      {"relative_difference.gradients", "number", "largest relative difference of gradients", ""},
      {"relative_difference.weights", "number", "largest relative difference of weights", ""},
      {"equals_one_device", "true|false", "both agree up to rounding", ""},
      {"held_by_rank", "[number]", "number of parameters that each rank holds", ""},
      {"messages", "{key: number}", "number of messages between ranks, by operation", ""},
      {"cut_layer", "object", "the first layer that tensor ranks share; null: none", ""},
      {"cut_layer.layer", "text", "name of the layer", "if tensor ranks share a layer"},
      {"cut_layer.ranks", "number", "number of ranks that share it", "if tensor ranks share a layer"},
      {"cut_layer.parts", "list", "parts of the layer, with Megatron's operators f and g",
       "if tensor ranks share a layer"},
      {"cut_layer.parts[].part", "text", "name of the part", "if tensor ranks share a layer"},
      {"cut_layer.parts[].f", "object", "the operator before the part", "if tensor ranks share a layer"},
      {"cut_layer.parts[].f.forward_bytes", "bytes", "bytes that f exchanges forward", "if tensor ranks share a layer"},
      {"cut_layer.parts[].f.backward_bytes", "bytes", "bytes that f exchanges backward",
       "if tensor ranks share a layer"},
      {"cut_layer.parts[].g", "object", "the operator after the part", "if tensor ranks share a layer"},
      {"cut_layer.parts[].g.forward_bytes", "bytes", "bytes that g exchanges forward", "if tensor ranks share a layer"},
      {"cut_layer.parts[].g.backward_bytes", "bytes", "bytes that g exchanges backward",
       "if tensor ranks share a layer"},
      {"tensors", "list", "parameters of each layer", ""},
      {"tensors[].layer", "text", "name of the layer", ""},
      {"tensors[].tensor", "text", "name of the tensor", ""},
      {"tensors[].elements", "number", "number of its elements", ""},
      {"tensors[].held", "[number]", "number of elements that each rank holds", ""},
      {"tensors[].largest", "number", "largest absolute value of an element", ""},
      {"tensors[].moved", "number", "largest change of an element", ""},
      {"tensors[].difference", "number", "largest difference between both; null: it is not finite", ""}};
}
const RegisterJsonReference step_json_reference{
    "teach step", "a divided training step beside that of one device, on numbers", step_json_rows};

}  // namespace

double StepLesson::largest_difference() const { return largest(tensors, &TensorComparison::largest_difference); }

double StepLesson::largest_change() const { return largest(tensors, &TensorComparison::largest_change); }

bool StepLesson::equals_one_device() const {
  return failure.empty() && hazards.empty() && difference.largest() < kStepRounding;
}

Scenario read_for_values(const std::string& file, const Overrides& overrides) {
  Overrides all = overrides;
  all.emplace_back("plan.collectives", "messages");
  return read_scenario(file, all);
}

StepLesson teach_step(const Scenario& s, const StepQuestion& question) {
  require_values(s, question);
  const TrainingTask task = task_of(s, question);
  StepLesson lesson;
  lesson.network = s.network.name;
  lesson.plan = s.ranks() == 1 ? "one device" : s.plan.mesh_in_words();
  if (s.plan.zero != ZeroStage::none) lesson.plan += fmt::format(", ZeRO stage {}", static_cast<int>(s.plan.zero));
  if (s.plan.mesh.pipeline > 1) lesson.plan += ", " + s.plan.schedule;
  lesson.left_out_exchange = question.leave_out;
  lesson.ranks = s.ranks();
  lesson.steps = question.steps;
  lesson.samples = s.global_batch_size;
  lesson.parameters = s.network.parameters();
  for (const Layer& layer : s.network.layers) lesson.layers.push_back(layer.name);
  const int batch = static_cast<int>(s.global_batch_size);
  const auto reference = [&](int steps) {
    try {
      return std::make_unique<ReferenceTraining>(task, batch, steps);
    } catch (const InternalError& e) {  // a layer that has no values
      fail(s.model.place,
           fmt::format("model: teach step cannot compute all layers of {}: {}", s.network.name, e.what()));
    }
  };
  const auto one_device = reference(question.steps), before = reference(question.steps);
  one_device->run();
  lesson.loss_of_one = one_device->values().loss(question.steps - 1);
  try {
    run_divided(s, plan(s), task, lesson, one_device->values(), before->values());
  } catch (const InternalError& e) {
    if (question.leave_out.empty()) throw;
    lesson.failure = e.what();  // an operation misses a value that the left-out exchange brings
  }
  return lesson;
}

LessonView lesson_view(const StepLesson& lesson) {
  LessonView view{
      fmt::format("{} of {} on {}: {}", counted_noun(lesson.steps, "step"), lesson.network,
                  counted_noun(lesson.ranks, "rank"), lesson.plan),
      "A bar per rank: the weights that it holds; with matrices that are cut, also the operators f and g of a layer",
      {fmt::format("{:.0f} weights, {} samples a step; the same weights and samples on one device", lesson.parameters,
                   lesson.samples)}};
  view.sums = step_sums(lesson);
  view.right = lesson.equals_one_device() || !lesson.left_out_exchange.empty();
  view.json = step_json(lesson);
  if (!lesson.failure.empty()) return view;
  view.figures = {.head = {"layer", "tensor", "weights", "ranks", "moved by up to", "differs by up to"},
                  .right = {false, false, true, true, true, true}};
  for (const TensorComparison& t : lesson.tensors)
    view.figures.rows.push_back({lesson.layers[static_cast<std::size_t>(t.layer)], t.tensor,
                                 fmt::format("{:.0f}", t.elements), std::to_string(holding_ranks(t)),
                                 fmt::format("{:.2g}", t.largest_change), difference_text(t.largest_difference)});
  LessonFrame frame{.caption = "weights that each rank holds", .axis = LessonFrame::Axis::amount};
  const std::vector<double> elements = elements_by_rank(lesson);
  frame.end = std::max(lesson.parameters, std::ranges::max(elements));
  frame.legend.push_back({"W", "weights", Tone::blue});
  for (std::size_t rank = 0; rank < elements.size(); ++rank)
    frame.lanes.push_back({fmt::format("rank {}", rank),
                           "",
                           {{0, elements[rank], "W", "", Tone::blue}},
                           fmt::format("{:.0f} of {:.0f}", elements[rank], lesson.parameters)});
  view.frames = operator_frames(lesson.cut);
  view.frames.push_back(std::move(frame));
  return view;
}

}  // namespace trainyard
