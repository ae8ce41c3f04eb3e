// How far an answer can be trusted, and what it stands on.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/studies/measured/left_out_errors.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"

namespace trainyard {
namespace {

std::string kept_error(double share) { return fmt::format("{:.1f} %", share * 100); }

/// Names in the order they are met; many are counted: "12 stacks".
std::string some_names(const std::vector<LeftOutErrors>& all, StepTrait trait, const char* many) {
  constexpr std::size_t most = 6;
  std::vector<std::string> names;
  for (const LeftOutErrors& errors : all)
    if (const std::string& name = errors.traits[static_cast<std::size_t>(trait)];
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  return names.size() > most ? fmt::format("{} {}", names.size(), many) : fmt::format("{}", fmt::join(names, ", "));
}

/// What of the step was never measured together with what it shares with the nearest measured steps: "this stack
/// (plain)", "mixtures of experts with this stack on this GPU in bf16".
std::vector<std::string> unmeasured(const Scenario& s, const StepTraits& traits, const NearestSteps& nearest) {
  const std::string how[] = {" for " + traits[0], " with this stack", " on this GPU", " in " + traits[3]};
  std::array<bool, kStepTraits> shared = nearest.shared;
  if (nearest.errors.empty()) shared[0] = nearest.seen[0];
  std::string together;
  for (std::size_t t = 0; t < traits.size(); ++t)
    if (shared[t]) together += how[t];
  const std::string names[] = {traits[0], fmt::format("this stack ({})", traits[1]),
                               fmt::format("this GPU ({})", traits[2]), traits[3]};
  std::vector<std::string> words;
  for (std::size_t t = 0; t < traits.size(); ++t)
    if (!nearest.seen[t])
      words.push_back(names[t]);
    else if (!shared[t] && !together.empty())
      words.push_back(names[t] + together);
  if (s.plan.inference) words.emplace_back("forward passes alone");
  if (!s.cluster.others.empty()) words.emplace_back("several types of nodes in one cluster");
  return words;
}

int steps_of(const std::vector<LeftOutErrors>& all) {
  int steps = 0;
  for (const LeftOutErrors& errors : all) steps += errors.steps;
  return steps;
}

/// "870 steps of 7 families, left out of the fit: mean error 12.0 % (2.0 to 33.9 % by family), worst 60.3 %". A family
/// counts once.
std::string errors_in_words(const std::vector<LeftOutErrors>& all) {
  std::map<std::string, std::pair<int, double>> families;  // steps, and the sum of their errors
  double worst = 0, mean = 0, least = 1e9, most = 0;
  const int steps = steps_of(all);
  std::set<std::string> sets;
  for (const LeftOutErrors& errors : all) {
    auto& [count, sum] = families[errors.family];
    count += errors.steps;
    sum += errors.left_out * errors.steps;
    worst = std::max(worst, errors.worst);
    sets.insert(fmt::format("validate {} --left-out", errors.set));
  }
  for (const auto& [name, family] : families) {
    const double error = family.second / family.first;
    mean += error / static_cast<double>(families.size());
    least = std::min(least, error);
    most = std::max(most, error);
  }
  const std::string by_family =
      families.size() == 1 ? "" : fmt::format(" ({:.1f} to {:.1f} % by family)", least * 100, most * 100);
  return fmt::format("{} step{} of {}, left out of the fit: mean error {}{}, worst {} ({})", steps,
                     steps == 1 ? "" : "s",
                     families.size() == 1 ? families.begin()->first : fmt::format("{} families", families.size()),
                     kept_error(mean), by_family, kept_error(worst), fmt::join(sets, ", "));
}

/// Of so few steps an error says little.
constexpr int kFewSteps = 10;

/// Steps of the same kind of network on the same GPU or with the same stack.
std::vector<LeftOutErrors> alike_at_all(const StepTraits& traits, const std::vector<LeftOutErrors>& all) {
  std::vector<LeftOutErrors> alike;
  std::copy_if(all.begin(), all.end(), std::back_inserter(alike), [&traits](const LeftOutErrors& errors) {
    return errors.traits[0] == traits[0] && (errors.traits[1] == traits[1] || errors.traits[2] == traits[2]);
  });
  return alike;
}

/// What is known of the error of such predictions, by `validate training` and `validate mlperf`.
std::string judgement(const Scenario& s) {
  if (s.measured.given())
    return report_label("trust") +
           "compute measured, its split over layers modelled; communication simulated, not judged yet\n";
  const StepTraits traits = traits_of(s);
  const std::vector<LeftOutErrors> kept = kept_left_out_errors();
  const NearestSteps nearest = nearest_steps(traits, kept);
  const std::vector<std::string> missing = unmeasured(s, traits, nearest);
  std::string text;
  if (!missing.empty())
    text = wrapped(report_label("trust") + "extrapolated; not among the measured steps: ", missing, ", ");
  if (nearest.errors.empty()) return text;
  const auto shares = [&nearest](StepTrait trait) { return nearest.shared[static_cast<std::size_t>(trait)]; };
  std::string sentence = fmt::format(
      "{} {} in {} {} {}: {}",
      missing.empty() ? "measured:" : "nearest:", some_names(nearest.errors, StepTrait::network, "kinds of networks"),
      some_names(nearest.errors, StepTrait::precision, "precisions"),
      shares(StepTrait::gpu) ? "on this GPU" : "on " + some_names(nearest.errors, StepTrait::gpu, "types of GPU"),
      shares(StepTrait::stack) ? "with this stack" : "with " + some_names(nearest.errors, StepTrait::stack, "stacks"),
      errors_in_words(nearest.errors));
  const std::vector<LeftOutErrors> alike = alike_at_all(traits, kept);
  if (steps_of(nearest.errors) < kFewSteps && steps_of(alike) > steps_of(nearest.errors))
    sentence +=
        fmt::format("; these are few: all {} on this GPU or with this stack: {}", traits[0], errors_in_words(alike));
  std::vector<std::string> words;
  std::istringstream in(sentence);
  for (std::string word; in >> word;) words.push_back(word);
  return text + wrapped(report_label(missing.empty() ? "trust" : ""), words, " ");
}

}  // namespace

std::string trust_lines(const Scenario& s) {
  const Sources& sources = s.sources;
  const auto unverified =
      std::count_if(sources.begin(), sources.end(), [](const FigureSource& figure) { return figure.unverified; });
  std::string text = judgement(s);
  if (!s.plan.all_reduce.scaled.empty())
    text += fmt::format("{}collectives as NCCL does them, outside what was fitted: {}\n", report_label(""),
                        s.plan.all_reduce.scaled);
  if (!s.plan.all_reduce.judged.empty())
    text += wrapped(report_label("") + "collectives: error to expect ", {s.plan.all_reduce.judged}, " ");
  if (const double hidden = s.plan.sharding.user_buffers; hidden > 0)
    text +=
        fmt::format("{}{:.3g} % of tensor-parallel exchange hidden by user buffers: stated by the {}, not simulated\n",
                    report_label(""), hidden * 100, hidden == s.software.parallel.user_buffers ? "stack" : "plan");
  if (s.fp8 && s.software.fp8_attention)
    text += fmt::format("{}attention keeps its tensors in fp8 and takes as long as in 16 bits: no rate was measured\n",
                        report_label(""));
  text += fmt::format("{}{} figures, {} of them unverified (--sources lists them)\n", report_label(""), sources.size(),
                      unverified);
  return text;
}

std::string source_table(const Sources& sources) {
  std::string text;
  for (const FigureSource& s : sources)
    text += fmt::format("  {} = {}{}\n      {}\n", s.figure, s.value, s.unverified ? "  (unverified)" : "", s.source);
  return text;
}

}  // namespace trainyard
