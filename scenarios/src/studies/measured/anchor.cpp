#include "scenarios/src/studies/measured/anchor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "models/reading/document_text.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/measured/ratio_doubt.hpp"
#include "scenarios/src/studies/measured/scale_fit.hpp"
#include "scenarios/src/studies/measured/step_doubt.hpp"
#include "sim/error.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

constexpr double kStepError = 0.08;     // standard deviation of ln(measured / predicted) of one step
constexpr double kRuledOutMisfit = 4;   // difference of misfits above which a structure is ruled out
constexpr double kContradiction = 0.1;  // steps of one plan whose times differ by more than this share contradict

/// Lists the scales of a scenario's stack and node.
std::vector<ScaleRule> scale_rules(const Scenario& s) {
  const SoftwareStack& stack = s.software;
  const SoftwareStack::Slowdowns& slow = stack.slowdowns;
  constexpr double kernels = 0.08, host = 0.9, exchange = 0.15;
  const auto slowdown = [](const char* path, double value) { return ScaledKey{path, value, 0.1, 10, false, ""}; };
  const auto time = [](const char* path, Seconds value) { return ScaledKey{path, value.value, 0, 10, false, " s"}; };
  return {{"kernels: products, attention, element-wise, optimizer",
           kernels,
           {slowdown("software.slowdowns.products", slow.products),
            slowdown("software.slowdowns.attention", slow.attention),
            slowdown("software.slowdowns.elementwise", slow.elementwise),
            slowdown("software.slowdowns.optimizer", slow.optimizer)}},
          {"host: launches, work a micro-batch and a step",
           host,
           {time("software.kernel_dispatch", stack.kernel_dispatch),
            time("software.host.micro_batch", stack.host.micro_batch),
            time("software.step_overhead", stack.step_overhead)}},
          {"exchanges in a layer", exchange, {slowdown("software.slowdowns.exchanges", slow.exchanges)}},
          {"network between nodes",
           exchange,
           {{"cluster.node.hca.efficiency", s.cluster.node.hca_efficiency, 0.01, 1, true, ""}}}};
}

/// A step to predict, with changes of its scenario.
struct AnchorTrial {
  const AnchorStep* step;
  Overrides sets;
};

struct StepPrediction {
  double time = 0;  ///< s
  StepProfile profile;
};

/// `critical_path`: the profiles have the shares of the critical path.
std::vector<StepPrediction> predict_all(const std::vector<AnchorTrial>& trials, bool critical_path = false) {
  ProgressLine progress;
  std::size_t finished_steps = 0;
  return all_in_parallel(
      trials.size(), processors(),
      [&trials, critical_path](std::size_t i) {
        const Scenario s = read_scenario(trials[i].step->document, trials[i].step->id, trials[i].sets);
        const Result r = simulate_here(s, {.critical_path = critical_path});
        return StepPrediction{r.step_time.value, profile_of(s, r)};
      },
      [&](std::size_t, const StepPrediction&) {
        progress.show(fmt::format("{} of {} steps", ++finished_steps, trials.size()));
      });
}

/// A structure with its most probable scales.
struct StructureFit {
  ScaleFit scales;
  double misfit = 0;
};

class Anchoring {
 public:
  /// `first`: scenario of the first step, with the changes `base`.
  Anchoring(std::vector<AnchorStep> steps, const Scenario& first, Overrides base)
      : rules_(scale_rules(first)), steps_(std::move(steps)), base_(std::move(base)) {}

  StructureFit fit(const Overrides& structure) const {
    const auto errors_of = [&](const std::vector<ScaleLogs>& trials) { return errors(structure, trials); };
    StructureFit fit{fit_scales(rules_, errors_of, {.row_error = kStepError})};
    forget_undetermined(rules_, fit.scales);
    for (std::size_t k = 0; k < rules_.size(); ++k) fit.misfit += std::pow(fit.scales.logs[k] / rules_[k].prior, 2);
    const std::vector<double> final_errors = errors(structure, {fit.scales.logs}).front();
    for (const double error : final_errors) fit.misfit += misfit_of_error(error, kStepError);
    return fit;
  }

  Overrides sets(const Overrides& structure, const ScaleLogs& logs) const {
    Overrides all = base_;
    all.insert(all.end(), structure.begin(), structure.end());
    for (const auto& set : scaled_sets(rules_, logs)) all.push_back(set);
    return all;
  }
  /// Returns the structures whose steps differ from those of all structures before: a plan may state what the stack would
  /// choose, or leave no choice.
  std::vector<AnchorStructure> unlike(const std::vector<AnchorStructure>& all) const {
    constexpr double kUnlike = 1e-4;  // share of a step
    std::vector<AnchorStructure> structures;
    std::vector<std::vector<double>> errors_of_structures;
    for (const AnchorStructure& structure : all) {
      const std::vector<double> step_errors = errors(structure.sets, {ScaleLogs(rules_.size(), 0.0)}).front();
      const bool is_new = std::ranges::none_of(errors_of_structures, [&step_errors](const std::vector<double>& others) {
        return std::ranges::equal(step_errors, others, [](double a, double b) { return std::abs(a - b) < kUnlike; });
      });
      if (!is_new) continue;
      structures.push_back(structure);
      errors_of_structures.push_back(step_errors);
    }
    return structures;
  }
  const std::vector<ScaleRule>& rules() const { return rules_; }

 private:
  std::vector<ScaleRule> rules_;
  std::vector<AnchorStep> steps_;
  Overrides base_;  ///< changes before those of structures and scales

  /// ln(predicted / measured) of each step, for each trial. All steps of all trials are simulated in parallel.
  std::vector<std::vector<double>> errors(const Overrides& structure, const std::vector<ScaleLogs>& logs) const {
    std::vector<AnchorTrial> all;
    for (const ScaleLogs& trial : logs)
      for (const AnchorStep& step : steps_) all.push_back({&step, sets(structure, trial)});
    const std::vector<StepPrediction> predictions = predict_all(all);
    std::vector<std::vector<double>> errors(logs.size());
    for (std::size_t i = 0; i < predictions.size(); ++i)
      errors[i / steps_.size()].push_back(std::log(predictions[i].time / steps_[i % steps_.size()].measured));
    return errors;
  }
};

/// Lists the structures in which the stack may overlap communication; the first is the stack's own.
std::vector<AnchorStructure> structures_of(const Scenario& s) {
  std::vector<AnchorStructure> all{{"as the stack has it", {}}};
  if (s.plan.replicas() < 2) return all;
  const SoftwareStack& stack = s.software;
  const auto word_of = [](bool value) { return value ? "true" : "false"; };
  const auto add = [&](const char* text, bool gradients, bool parameters) {
    Overrides sets;
    if (gradients != stack.overlap) sets.emplace_back("software.overlap", word_of(gradients));
    if (parameters != stack.parallel.overlap_parameters)
      sets.emplace_back("software.parallel.overlap_parameters", word_of(parameters));
    if (!sets.empty()) all.push_back({text, sets});
  };
  add("gradients and parameters overlap with compute", true, true);
  add("gradients overlap with compute, gathered parameters do not", true, false);
  add("gathered parameters overlap with compute, gradients do not", false, true);
  add("neither gradients nor gathered parameters overlap with compute", false, false);
  return all;
}

/// Returns the name of the stack of all steps and parts. Throws UserError if their stacks or GPUs differ, or if the stack
/// is the ideal one, which cannot be measured.
std::string stack_of_machine(const std::vector<AnchorStep>& steps, const std::vector<AnchorStep>& judged,
                             const AnchorParts& parts) {
  const Scenario machine = read_scenario(parts.parts.empty() ? steps.front().document : parts.document, "the machine");
  const std::string machine_id = parts.parts.empty() ? steps.front().id : "the scenario of the machine";
  const auto check = [&](const AnchorStep& step) {
    const Scenario s = read_scenario(step.document, step.id);
    if (s.software.name != machine.software.name || s.cluster.node.gpu.name != machine.cluster.node.gpu.name)
      throw UserError(fmt::format("anchor: {} has {} on {}, and {} has {} on {}; one stack and one GPU expected",
                                  machine_id, machine.software.name, machine.cluster.node.gpu.name, step.id,
                                  s.software.name, s.cluster.node.gpu.name));
  };
  std::ranges::for_each(steps, check);
  std::ranges::for_each(judged, check);
  if (!steps.empty() && machine.software.name == "plain")
    throw UserError("anchor: plain is an ideal stack, which nobody can measure; name another one in software");
  return trait_of(traits_of(machine), StepTrait::stack);
}

/// Predicts the steps with the anchored stack and node.
void predict_after(std::vector<AnchorStep>& steps, const Overrides& sets) {
  std::vector<AnchorTrial> trials;
  for (const AnchorStep& step : steps) trials.push_back({&step, sets});
  std::vector<StepPrediction> predictions = predict_all(trials, true);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].after = predictions[i].time;
    steps[i].profile = std::move(predictions[i].profile);
  }
}

/// Predicts the steps with the catalog's stack and node. Throws UserError if a time is so far off that its unit or its
/// scenario must be wrong.
void predict_before(std::vector<AnchorStep>& steps) {
  constexpr double kFarOff = 10;
  std::vector<AnchorTrial> trials;
  for (const AnchorStep& step : steps) trials.push_back({&step, {}});
  const std::vector<StepPrediction> predictions = predict_all(trials);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    AnchorStep& step = steps[i];
    step.before = predictions[i].time;
    const double ratio = step.measured / step.before, factor = std::max(ratio, 1 / ratio);
    if (factor <= kFarOff) continue;
    const char* unit = ratio > 3e4        ? "is it in microseconds?"
                       : ratio > 200      ? "is it in milliseconds?"
                       : ratio > 20       ? "is it the time of several steps, or of another plan?"
                       : ratio > 1        ? "is it a step of another plan?"
                       : ratio > 1 / 20.  ? "is it a micro-batch, or a step of another plan?"
                       : ratio > 1 / 200. ? "is it in minutes, or a step of another plan?"
                                          : "is it in thousands of seconds, as from a time in ms divided twice?";
    throw UserError(fmt::format("{}: a step of {}, predicted {}, {:.3g} times as {}: {}",
                                step.place.empty() ? step.id : step.place, show(Seconds{step.measured}),
                                show(Seconds{step.before}), factor, ratio > 1 ? "long" : "short", unit));
  }
}

/// Fits structure and scales to the steps. The changes that the parts determined stay.
void fit_steps(Anchor& anchor, const std::vector<AnchorStep>& steps) {
  const Scenario first = read_scenario(anchor.document, steps.front().id, anchor.sets);
  const Anchoring anchoring(steps, first, anchor.sets);
  std::vector<StructureFit> fits;
  anchor.structures = anchoring.unlike(structures_of(first));
  for (AnchorStructure& structure : anchor.structures) {
    fits.push_back(anchoring.fit(structure.sets));
    structure.misfit = fits.back().misfit;
  }
  std::size_t chosen = 0;
  for (std::size_t i = 1; i < fits.size(); ++i)
    if (fits[i].misfit < fits[chosen].misfit - (chosen == 0 ? kRuledOutMisfit : 0)) chosen = i;
  for (AnchorStructure& structure : anchor.structures)
    structure.is_told_apart = structure.misfit >= fits[chosen].misfit + kRuledOutMisfit;
  std::swap(anchor.structures.front(), anchor.structures[chosen]);
  const ScaleFit& best_scales = fits[chosen].scales;
  for (std::size_t k = 0; k < best_scales.logs.size(); ++k) {
    const ScaleRule& rule = anchoring.rules()[k];
    anchor.scales.push_back({rule.words, rule.prior, best_scales.spreads[k], std::exp(best_scales.logs[k])});
  }
  anchor.sets = anchoring.sets(anchor.structures.front().sets, best_scales.logs);
}

/// Returns the scenario of a step without its name and measured time: steps with equal texts repeat one plan.
std::string text_of_plan(const AnchorStep& step) {
  Node document = step.document;
  for (const char* key : {"measured", "name"})
    std::erase_if(document.fields, [key](const auto& field) { return field.first == key; });
  return yaml_text(document);
}

/// Returns the doubt that the fitted steps leave. Steps of one plan count as one step.
SoftwareStack::Anchor basis_of(const std::vector<AnchorStep>& steps) {
  SoftwareStack::Anchor basis;
  std::set<std::string> networks, precisions, features;
  std::map<std::string, std::vector<double>> squares_of_plan;
  for (const AnchorStep& step : steps) {
    const StepProfile& profile = step.profile;
    basis.stack = profile.trait(StepTrait::stack);
    basis.gpu = profile.trait(StepTrait::gpu);
    networks.insert(profile.trait(StepTrait::network));
    precisions.insert(profile.trait(StepTrait::precision));
    features.insert(profile.unmeasured_parts.begin(), profile.unmeasured_parts.end());
    basis.devices = std::max(basis.devices, profile.devices);
    for (std::size_t part = 0; part < basis.path.size(); ++part)
      basis.path[part] = std::max(basis.path[part], profile.path[part]);
    basis.slow_host = std::max(basis.slow_host, profile.slow_host);
    basis.wide_tensor = basis.wide_tensor || profile.wide_tensor;
    squares_of_plan[text_of_plan(step)].push_back(std::pow(std::log(step.after / step.measured), 2));
  }
  double squares = 0;
  for (const auto& [plan, list] : squares_of_plan)
    squares += std::accumulate(list.begin(), list.end(), 0.0) / static_cast<double>(list.size());
  basis.spread = spread_of_anchor(squares_of_plan.size(), squares);
  basis.networks = {networks.begin(), networks.end()};
  basis.precisions = {precisions.begin(), precisions.end()};
  basis.features = {features.begin(), features.end()};
  return basis;
}

/// Returns the pairs of steps that have equal scenarios and unlike measured times, in words.
std::vector<std::string> contradictions_of(const std::vector<AnchorStep>& steps) {
  std::vector<std::string> texts, pairs;
  for (const AnchorStep& step : steps) texts.push_back(text_of_plan(step));
  for (std::size_t b = 0; b < steps.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (const double ratio = steps[b].measured / steps[a].measured;
          texts[a] == texts[b] && std::abs(std::log(ratio)) > kContradiction)
        pairs.push_back(fmt::format("{} and {} are steps of one plan, and the times differ by a factor of {:.2f}",
                                    steps[a].id, steps[b].id, std::max(ratio, 1 / ratio)));
  return pairs;
}

std::string list_in_yaml(const std::vector<std::string>& items) { return fmt::format("[{}]", fmt::join(items, ", ")); }

/// Returns the key `anchor` of the stack as YAML.
std::string yaml_of_basis(const SoftwareStack::Anchor& a) {
  std::string text = fmt::format("{{stack: {}", a.stack);
  std::vector<std::string> path;
  for (std::size_t part = 0; part < kPathParts.size(); ++part)
    path.push_back(fmt::format("{}: {:.3g}", kPathParts[part], a.path[part]));
  if (a.exists())
    text += fmt::format(
        ", spread: {:.3g}, devices: {:.0f}, gpu: {}, networks: {}, precisions: {}, slow_host: {:.3g}, wide_tensor: {}, "
        "path: {{{}}}",
        a.spread, a.devices, a.gpu, list_in_yaml(a.networks), list_in_yaml(a.precisions), a.slow_host, a.wide_tensor,
        fmt::join(path, ", "));
  if (!a.features.empty()) text += ", features: " + list_in_yaml(a.features);
  return text + "}";
}

/// Returns the measurements in words: "2 measured steps, 36 collectives of nccl-tests".
std::string measurements_of(const Anchor& anchor) {
  std::vector<std::string> words;
  if (!anchor.steps.empty())
    words.push_back(fmt::format("{} measured step{}", anchor.steps.size(), anchor.steps.size() == 1 ? "" : "s"));
  for (const AnchorPart& part : anchor.parts) words.push_back(part.words);
  return fmt::format("{}", fmt::join(words, ", "));
}

const RegisterJsonReference anchor_reference{"anchor", "a stack and a node that fit measured steps", anchor_fields};

}  // namespace

bool AnchorScale::is_determined() const { return is_determined_scale(prior, spread); }

double Anchor::mean_error(const std::vector<AnchorStep>& steps, double (AnchorStep::*error)() const) {
  double sum = 0;
  for (const AnchorStep& step : steps) sum += std::abs((step.*error)());
  return steps.empty() ? 0 : sum / static_cast<double>(steps.size());
}

Anchor anchor_steps(std::vector<AnchorStep> steps, std::vector<AnchorStep> judged, const AnchorParts& parts) {
  if (steps.empty() && parts.parts.empty()) throw UserError("anchor: no measured step");
  Anchor anchor;
  anchor.basis.stack = stack_of_machine(steps, judged, parts);
  anchor.document = steps.empty() ? parts.document : steps.front().document;
  anchor.parts = parts.parts;
  anchor.scales = parts.scales;
  anchor.sets = parts.sets;
  anchor.contradictions = contradictions_of(steps);
  anchor.contradictions.insert(anchor.contradictions.end(), parts.warnings.begin(), parts.warnings.end());
  predict_before(steps);
  predict_before(judged);
  if (!steps.empty()) fit_steps(anchor, steps);
  predict_after(steps, anchor.sets);
  predict_after(judged, anchor.sets);
  if (!steps.empty()) anchor.basis = basis_of(steps);
  for (const AnchorStep& step : steps)
    if (std::abs(std::log(step.after / step.measured)) > 2 * kStepError) anchor.odd.push_back(step.id);
  anchor.steps = std::move(steps);
  anchor.judged = std::move(judged);
  return anchor;
}

std::string anchored_stack_yaml(const Anchor& anchor, const std::string& from) {
  Node document = anchor.document;
  std::vector<std::string> changed_keys;
  const auto change = [&](std::string_view path, const std::string& value) {
    constexpr std::string_view kStack = "software.";
    if (!path.starts_with(kStack)) return;
    set_field(document, path, value);
    path.remove_prefix(kStack.size());
    changed_keys.emplace_back(path.substr(0, path.find('.')));
  };
  for (const auto& [path, value] : anchor.sets) change(path, value);
  if (!anchor.steps.empty() || !changed_keys.empty()) change("software.anchor", yaml_of_basis(anchor.basis));
  if (changed_keys.empty()) return "";
  Node stack = *document.find("software");
  if (!stack.find("sources")) stack.fields.emplace_back("sources", Node::empty_map());
  for (const std::string& key : changed_keys)
    set_field(stack, "sources." + key, Node::scalar_node("trainyard anchor, " + from));
  return fmt::format("# Anchored by trainyard anchor to {}: {}.\n", from, measurements_of(anchor)) + yaml_text(stack);
}

std::string anchored_node_yaml(const Anchor& anchor, const std::string& from) {
  Node document = anchor.document;
  bool has_changes = false;
  for (const auto& [path, value] : anchor.sets) {
    if (!path.starts_with("cluster.node.")) continue;
    set_field(document, path, value);
    has_changes = true;
  }
  if (!has_changes) return "";
  return fmt::format("# Anchored by trainyard anchor to {}: {}.\n", from, measurements_of(anchor)) +
         yaml_text(*document.find("cluster")->find("node"));
}

const JsonFields<Anchor>& anchor_fields() {
  using A = Anchor;
  using T = AnchorStep;
  static const JsonFields<T> steps =
      JsonFields<T>()
          .value("id", "", &T::id, "name of the measured step")
          .value("measured_s", "s", &T::measured, "measured time of the step")
          .value("before_s", "s", &T::before, "predicted with the catalog's stack and node")
          .value("after_s", "s", &T::after, "predicted with the anchored ones");
  static const JsonFields<AnchorScale> scales =
      JsonFields<AnchorScale>()
          .value("scale", "", &AnchorScale::words, "the constants that it multiplies")
          .value("factor", "", &AnchorScale::factor, "most probable factor on their times; 1: not determined")
          .value("prior_spread", "", &AnchorScale::prior, "standard deviation of its logarithm before")
          .value("spread", "", &AnchorScale::spread, "standard deviation of its logarithm afterwards")
          .value(
              "determined", "", [](auto& s) { return s.is_determined(); }, "the steps determine it");
  static const JsonFields<AnchorPart> parts =
      JsonFields<AnchorPart>()
          .value("measured", "", &AnchorPart::words, "number and kind of the measurements")
          .value("error_before", "share", &AnchorPart::before,
                 "mean of |predicted / measured - 1| with the catalog's stack and node")
          .value("error_after", "share", &AnchorPart::after,
                 "mean of |predicted / measured - 1| with the anchored stack and node")
          .value("worst", "", &AnchorPart::worst, "the row with the largest error that is left")
          .value("worst_error", "share", &AnchorPart::worst_error,
                 "error of that row: predicted over measured, minus one");
  static const JsonFields<AnchorStructure> structures =
      JsonFields<AnchorStructure>()
          .value("structure", "", &AnchorStructure::words, "what overlaps; the first is taken")
          .value("misfit", "", &AnchorStructure::misfit, "twice the negative logarithm of the likelihood")
          .value("given_up", "", &AnchorStructure::is_told_apart, "much less likely than the first");
  static const JsonFields<A> fields =
      JsonFields<A>()
          .list("steps", &A::steps, steps, "measured steps of the fit")
          .list("judged", &A::judged, steps, "measured steps that the fit did not use")
          .list("parts", &A::parts, parts, "measurements of parts: collectives, products, memory, kernels of a trace")
          .list("scales", &A::scales, scales, "factors that the fit sets, each on some constants")
          .list("structures", &A::structures, structures, "structures that were tried")
          .value(
              "sets", "",
              [](auto& a) {
                std::vector<std::string> all;
                for (const auto& [path, value] : a.sets) all.push_back(path + "=" + value);
                return all;
              },
              "all changes, as --set takes them")
          .value("odd", "", &A::odd,
                 "steps that are off by more than about 16 % after the fit: two standard deviations")
          .value("contradictions", "", &A::contradictions,
                 "measurements that contradict each other: steps of one plan whose times differ by over 10 %, two "
                 "measurements of one thing, or a row that no constants can meet")
          .value(
              "spread", "", [](auto& a) { return a.basis.spread; },
              "standard deviation of ln(measured / predicted) that is left for steps like these")
          .value(
              "devices", "", [](auto& a) { return a.basis.devices; }, "largest number of devices of a step of the fit");
  return fields;
}

}  // namespace trainyard
