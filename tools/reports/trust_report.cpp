// How far an answer can be trusted, and what it stands on.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>

#include "models/networks/transformers/operator_lists.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/reading/read_stages.hpp"
#include "scenarios/src/studies/measured/doubt_answer.hpp"
#include "scenarios/src/studies/measured/left_out_errors.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"

namespace trainyard {
namespace {

std::string error_text(double share) { return fmt::format("{:.1f} %", share * 100); }

/// Names in their first order. More than six are only counted: "12 stacks".
std::string some_names(const std::vector<LeftOutErrors>& all, StepTrait trait, const char* many) {
  constexpr std::size_t most = 6;
  std::vector<std::string> names;
  for (const LeftOutErrors& errors : all)
    if (const std::string& name = errors.traits[static_cast<std::size_t>(trait)];
        std::ranges::find(names, name) == names.end())
      names.push_back(name);
  return names.size() > most ? fmt::format("{} {}", names.size(), many) : fmt::format("{}", fmt::join(names, ", "));
}

/// The traits of the step that no measured step combines with those it shares with the nearest measured steps: "this stack
/// (horovod-tcp)", "mixtures of experts with this stack on this GPU in bf16".
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
  for (const std::string& part : profile_of(s, 1).unmeasured_parts)
    words.push_back(part == s.plan.mechanism_name ? "the mechanism " + part : part);
  return words;
}

int steps_of(const std::vector<LeftOutErrors>& all) {
  int steps = 0;
  for (const LeftOutErrors& errors : all) steps += errors.steps;
  return steps;
}

/// The errors of measured steps that the fit did not use. The mean counts each family once.
struct ErrorWords {
  std::string error;    ///< "7.1 % on average (3.8 to 10.2 % by family of runs), 27.5 % at worst"
  std::string sources;  ///< "3 families; validate training --left-out"
};
ErrorWords errors_in_words(const std::vector<LeftOutErrors>& all) {
  std::map<std::string, std::pair<int, double>> families;  // steps, and the sum of their errors
  double worst = 0, mean = 0, least = 1e9, most = 0;
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
  const std::string low = fmt::format("{:.1f}", least * 100), high = fmt::format("{:.1f}", most * 100);
  const std::string by_family = low == high ? "" : fmt::format(" ({} to {} % by family of runs)", low, high);
  return {fmt::format("{} on average{}, {} at worst", error_text(mean), by_family, error_text(worst)),
          fmt::format(
              "{}; {}",
              families.size() == 1 ? "family " + families.begin()->first : fmt::format("{} families", families.size()),
              fmt::join(sets, ", "))};
}

/// Fewer steps than this say little about an error.
constexpr int kFewSteps = 10;

/// Steps of the same kind of network on the same GPU or with the same stack.
std::vector<LeftOutErrors> similar_steps(const StepTraits& traits, const std::vector<LeftOutErrors>& all) {
  std::vector<LeftOutErrors> alike;
  std::copy_if(all.begin(), all.end(), std::back_inserter(alike), [&traits](const LeftOutErrors& errors) {
    return errors.traits[0] == traits[0] && (errors.traits[1] == traits[1] || errors.traits[2] == traits[2]);
  });
  return alike;
}

/// The error to expect of this step, by its interval; "": it has none.
std::string expected_error_line(const Result& r) {
  if (!r.expected_error) return "";
  return fmt::format("error to expect: {} on average, by the interval of the step (explain --doubt)\n{}",
                     error_text(*r.expected_error), report_label(""));
}

/// The error to expect of a prediction, and the errors on the nearest measured steps.
std::string judgement(const Scenario& s, const std::string& expected_error) {
  if (s.measured.is_given())
    return report_label("trust") +
           "the compute time is measured, its division among layers modelled; communication is simulated and was not "
           "compared with measured steps\n";
  if (s.software.anchor.exists())
    return report_label("trust") +
           "the stack is fitted to steps that you measured (trainyard anchor); explain --doubt says what they leave\n";
  if (s.software.name == "plain")
    return report_label("trust") +
           "the stack is ideal (plain: no software costs), so no measured step is like it, and most real stacks are "
           "slower; name yours (key software)\n";
  const StepTraits traits = traits_of(s);
  const std::vector<LeftOutErrors> kept = errors_by_traits(kept_left_out_steps());
  const NearestSteps nearest = nearest_steps(traits, kept);
  const std::vector<std::string> missing = unmeasured(s, traits, nearest);
  std::string unseen;
  if (!missing.empty()) unseen = fmt::format("no measured step has {}\n", fmt::join(missing, ", nor "));
  if (nearest.errors.empty()) return report_label("trust") + expected_error + unseen;
  const auto shares = [&nearest](StepTrait trait) { return nearest.shared[static_cast<std::size_t>(trait)]; };
  const ErrorWords near = errors_in_words(nearest.errors);
  const int steps = steps_of(nearest.errors);
  const std::string errors =
      steps == 1 ? fmt::format("the only similar measured step that the fit did not use was off by {}",
                               error_text(nearest.errors.front().left_out))
                 : fmt::format("{} similar measured steps that the fit did not use were off by {}", steps, near.error);
  std::string text = fmt::format(
      "{}{}{}: {} in {} {} {} ({})\n", report_label("trust"), expected_error, errors,
      some_names(nearest.errors, StepTrait::network, "kinds of networks"),
      some_names(nearest.errors, StepTrait::precision, "precisions"),
      shares(StepTrait::gpu) ? "on this GPU" : "on " + some_names(nearest.errors, StepTrait::gpu, "types of GPU"),
      shares(StepTrait::stack) ? "with this stack" : "with " + some_names(nearest.errors, StepTrait::stack, "stacks"),
      near.sources);
  const std::vector<LeftOutErrors> alike = similar_steps(traits, kept);
  if (steps < kFewSteps && steps_of(alike) > steps) {
    const ErrorWords similar = errors_in_words(alike);
    text += fmt::format("{}{}; all {} on this GPU or with this stack: {}, on {} ({})\n", report_label(""),
                        steps == 1 ? "this is one step" : "these are few", traits[0], similar.error,
                        counted_noun(static_cast<std::int64_t>(steps_of(alike)), "step"), similar.sources);
  }
  return unseen.empty() ? text : text + report_label("") + "extrapolated: " + unseen;
}

std::size_t unverified_figures(const Sources& sources) {
  return static_cast<std::size_t>(std::ranges::count_if(sources, &FigureSource::unverified));
}

/// The reason why the interval of a step reaches far above its time; "": it does not.
std::string slow_host_line(const Scenario& s, const Result& r) {
  const double factor = r.likely_step_times ? step_doubt(s, r).slow_host : 1;
  if (factor < 1.005) return "";  // rounds to 1.00
  return fmt::format(
      "{}this error allows for a slow host: no measured step shows how fast this stack's host launches kernels, and a "
      "slow host would lengthen the step {:.2f} times\n",
      report_label(""), factor);
}

/// "; with memory_bandwidth 13 TB/s to 22 TB/s the step takes 65 ms to 83 ms": what the ranges of announced hardware mean.
std::string announced_range(const Scenario& s, const std::optional<std::array<double, 2>>& times) {
  if (!times) return "";
  std::vector<std::string> figures;
  for (const FigureSource& figure : s.sources)
    if (!figure.range.empty())
      figures.push_back(fmt::format("{} {} to {}", figure.figure.substr(figure.figure.find(": ") + 2), figure.range[0],
                                    figure.range[1]));
  const auto [fast, slow] = *times;
  return fmt::format("; with {} the step takes {} to {}", fmt::join(figures, ", "), show(Seconds{fast}),
                     show(Seconds{slow}));
}

/// Says that the network is trained without the operators of a loss; "": it has one.
std::string loss_line(const Scenario& s) {
  const ListedLayer* end = end_without_loss(s);
  if (!end) return "";
  return fmt::format("{}{} has no loss: no operator of its last layer, {}, computes one, and a loss is not timed\n",
                     report_label(""), s.model.entry.name, end->name);
}

/// Says that collectives have more GPUs of a node than were measured; "": they have not.
std::string extrapolated_line(const Scenario& s) {
  const std::optional<ExtrapolatedCollectives> found = extrapolated_collectives(s);
  if (!found) return "";
  return fmt::format("{}extrapolated: collectives among {} GPUs of a node; those of up to {} were measured\n",
                     report_label(""), found->gpus, found->measured_gpus);
}

/// Returns the errors to expect of the collectives of rank 0's groups.
std::string collective_errors(const Scenario& s) {
  bool in_nodes = false, between = false;
  for (const std::vector<int>& group : exchanging_groups(s)) {
    if (group.size() < 2) continue;
    const int node = s.cluster.node_of_gpu(group.front());
    const bool crosses = std::ranges::any_of(group, [&](int rank) { return s.cluster.node_of_gpu(rank) != node; });
    (crosses ? between : in_nodes) = true;
  }
  return s.plan.all_reduce.errors.in_words(in_nodes, between);
}

}  // namespace

std::string trust_lines(const Scenario& s, const Result* r, const char* source_flag,
                        const std::optional<std::array<double, 2>>& announced_step_times) {
  const Gpu& gpu = s.cluster.node.gpu;
  std::string announced =
      is_announced(gpu) ? fmt::format("{}announced: the figures of {} are preliminary", report_label(""), gpu.name)
                        : "";
  if (!announced.empty()) announced += announced_range(s, r ? r->announced_step_times : announced_step_times) + "\n";
  return judgement(s, r ? expected_error_line(*r) : "") + (r ? slow_host_line(s, *r) : "") + extrapolated_line(s) +
         announced + loss_line(s) +
         fmt::format("{}{} of {} input figures are unverified; {} lists them{}\n", report_label(""),
                     unverified_figures(s.sources), s.sources.size(), source_flag,
                     s.ranks() > 1 ? ", and the errors of collectives" : "");
}

std::string trust_details(const Scenario& s) {
  std::string text;
  if (!s.plan.all_reduce.scaled.empty())
    text += fmt::format("collectives as NCCL does them, outside what was fitted: {}\n", s.plan.all_reduce.scaled);
  if (const std::string errors = collective_errors(s); !errors.empty())
    text += fmt::format("collectives: error to expect {}\n", errors);
  if (const double hidden = s.plan.sharding.user_buffers; hidden > 0)
    text += fmt::format("user buffers hide {:.3g} % of the tensor-parallel exchange: stated by the {}, not simulated\n",
                        hidden * 100, hidden == s.software.parallel.user_buffers ? "stack" : "plan");
  const AttentionModel& attention = s.cluster.node.gpu.attention;
  const bool by_blocks = s.model.options.fp8_scaling == Fp8Scaling::block;
  if (s.fp8 && s.software.fp8_attention && (by_blocks ? attention.fp8_block : attention.fp8).forward == 0)
    text += "attention keeps its tensors in fp8 and takes as long as in 16 bits, besides casts: no rate was measured\n";
  return broken_lines(text);
}

std::string doubt_screen(const DoubtAnswer& a) {
  const std::string step = fmt::format("step of {}: {}", a.scenario, show(Seconds{a.step_time}));
  if (!a.interval) return fmt::format("{}; no interval: {}\n", step, a.no_interval);
  const auto [low, high] = *a.interval;
  TextTable table{">alone", ">without", "doubt"};
  for (const DoubtPart& part : a.parts)
    table.rows.push_back({"±" + percent(part.width_alone), "±" + percent(part.width_without), part.words});
  std::string text = fmt::format(
      "{}; a measured one lies between {} and {} ({} to {}) with a probability of 80 %\n\n{}alone: half width of the "
      "interval if nothing else were in doubt; without: its half width if this were certain\n",
      step, show(Seconds{low}), show(Seconds{high}), signed_percent(low / a.step_time - 1),
      signed_percent(high / a.step_time - 1), table.text("  "));
  if (a.measurements.empty()) return text + "measured steps of two more plans would not narrow it (trainyard anchor)\n";
  text += "narrowed by\n";
  for (const NarrowingMeasurement& m : a.measurements) {
    text += fmt::format("  ±{}: {}\n", percent(m.half_width), m.words);
    if (!m.command.empty()) text += fmt::format("    {}\n", m.command);  // one line, to be copied
  }
  return text;
}

std::string source_table(const Sources& sources) {
  std::string text;
  for (const FigureSource& s : sources)
    text += fmt::format("  {} = {}{}\n      {}\n", s.figure, s.value, s.unverified ? "  (unverified)" : "", s.source);
  return text;
}

}  // namespace trainyard
