#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/reading/document.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/pictures/run_pictures.hpp"
#include "scenarios/src/pictures/step_picture.hpp"
#include "scenarios/src/pictures/views.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/reading/searched_degrees.hpp"
#include "scenarios/src/running/packet_cost.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/fold_check.hpp"
#include "scenarios/src/traces/chakra_export.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "tools/reports/html_page.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/verbs/search_limits.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/device_noun.hpp"

namespace trainyard {
namespace {

/// Reads a range of ranks, "0-7", or one rank, "3". Throws UserError.
std::pair<int, int> rank_range(const std::string& text) {
  const std::size_t dash = text.find('-', 1);
  try {
    const std::int64_t first = parse_integer(text.substr(0, dash));
    const std::int64_t last = dash == std::string::npos ? first : parse_integer(text.substr(dash + 1));
    constexpr int kMost = std::numeric_limits<int>::max();
    if (first >= 0 && first <= last && last <= kMost) return {static_cast<int>(first), static_cast<int>(last)};
  } catch (const UserError&) {
  }
  throw UserError(fmt::format("--trace-ranks {}: a range of ranks such as 0-7, or one rank expected", text));
}

/// Simulates the step folded and rank by rank. Returns exit code 1 if the results differ.
int check_folding_of(const Scenario& scenario, const Plan& laid_out) {
  const FoldCheck check = check_folding(scenario, laid_out);
  if (!check.full_pods.empty())
    print(fmt::format(
        "{}\nThe step is {:+.4f} % off the one in which every rank is simulated; at most {:.4f} % is expected.\n",
        check.full_pods, 100 * check.pods_time, 100 * check.most_of_pods));
  if (!check.unfolded_reason.empty()) {
    print(fmt::format("nothing is folded{}: {}\n", check.full_pods.empty() ? "" : " otherwise", check.unfolded_reason));
    return check.full_pods.empty() || check.good() ? kGood : kFailsLimit;
  }
  print(fmt::format("{} in {}: {} operations compared, largest difference {:.1e}\n", counted_noun(check.ranks, "rank"),
                    counted_noun(check.classes, "class", "classes"), check.operations, check.worst));
  if (!check.shared_draws.empty())
    print(
        fmt::format("{}\nWith these shared draws the step is {:+.3f} % off the one in which each rank has its own, its "
                    "energy {:+.3f} %; at most {:.3g} % is expected of the step.\n",
                    check.shared_draws, 100 * check.draws_time, 100 * check.draws_energy, 100 * check.most_of_draws));
  if (check.rounding_decides())
    print(fmt::format(
        "{}\nRounding decides here, not the fold: the run rank by rank differs from {:.6g} s on, and with a "
        "resource that is faster by 1e-13 it differs from {:.6g} s on.\n",
        check.difference, *check.first_difference, *check.first_by_rounding));
  else if (!check.difference.empty())
    print(fmt::format("DIFFERENT: {}\n", check.difference));
  return check.good() ? kGood : kFailsLimit;
}

struct RunFlags {
  std::string file, json, html, trace, trace_ranks, chakra, picture, transport, port_buffer, fold, prices;
  std::optional<int> rank;
  std::vector<std::string> sets, required;
  bool timing = false, sources = false, no_what_if = false;
  Arguments arguments{"run",
                      "Simulates one training step of a scenario: time, breakdown, memory, bottleneck, trust. "
                      "`trainyard glossary WORD` explains a word of the answer, such as MFU or trust.",
                      "run scenarios/gpt2-xl-ddp-dgx-a100.yaml --set plan.micro_batch_size=8 --json answer.json"};

  RunFlags() {
    arguments.positional("SCENARIO", file, "scenario file (YAML)");
    arguments.repeated_flag("--set", sets, "PATH=VALUE", "override a field; may be repeated");
    arguments.output("--json", json, "write the whole answer as JSON; - is stdout (and prints nothing else there)");
    arguments.output("--html", html, "write the whole answer as a page that opens without a network; - is stdout");
    arguments.output("--trace", trace, "write a Chrome/Perfetto trace; - is stdout");
    arguments.option("--trace-ranks", trace_ranks, "A-B", "trace only these ranks, or one rank, for example 0-7 or 3");
    arguments.option(
        "--chakra", chakra, "PREFIX",
        "write the step as a Chakra execution trace, a file for each rank: PREFIX.0.et, … (see trainyard replay)");
    arguments.output("--picture", picture, "draw the step of one rank as SVG; - is stdout");
    arguments.option("--rank", rank, "N",
                     "report on this rank: its peers, links and timeline; with --picture draw it (default: the last "
                     "rank to finish)");
    arguments.option(
        "--transport", transport, "native|flow|packets",
        "how messages share links: by the built-in solver (flow, the default), by SimGrid's (native: slower, equal to "
        "1e-9), or as TCP packet by packet by ns-3 (packets: TCP networks only, slow, without what-ifs)");
    arguments.option("--port-buffer", port_buffer, "SIZE", kPortBufferHelp);
    arguments.choice("--fold", fold, {"auto", "off", "check"}, "auto|off|check",
                     "simulate equivalent ranks once (auto: if that halves their number), simulate each rank (off), or "
                     "do both and compare operations, memory and critical path (check)");
    arguments.option("--prices", prices, "FILE",
                     "add the cost of step and training by your prices (scenarios/prices-example.yml shows how)");
    arguments.repeated_flag("--require", required, "fits", "end with exit code 1 unless the plan fits into memory");
    arguments.flag("--timing", timing, "add the wall time of the simulation to the JSON");
    arguments.flag("--sources", sources, "list every figure with its source");
    arguments.flag("--no-what-if", no_what_if, "skip the what-if simulations");
  }

  Scenario scenario() const {
    const Overrides overrides = parse_overrides(sets, prices);
    const std::optional<Node>& document = arguments.document();
    Scenario read = document ? read_scenario(*document, std::filesystem::path(file).stem().string(), overrides)
                             : read_scenario(file, overrides);
    refuse_idle_keys(read);
    return read;
  }
  AnswerOptions options(const Scenario& scenario) const {
    AnswerOptions all{.simulation = {}, .factor = no_what_if ? 0.0 : 2.0, .changes = true};
    SimulateOptions& options = all.simulation;
    if (!transport.empty()) options.transport = parse_transport(transport);
    options.port_buffer = read_port_buffer(port_buffer, options.transport.value_or(scenario.transport));
    if (fold == "off") options.folding = Folding::off;
    options.progress = true;
    return all;
  }
};

/// Refuses flags that want an answer beside the comparison of two runs, which has none.
void require_comparison_alone(const RunFlags& flags) {
  const std::pair<const char*, bool> wanted[] = {{"--json", !flags.json.empty()},
                                                 {"--html", !flags.html.empty()},
                                                 {"--trace", !flags.trace.empty()},
                                                 {"--chakra", !flags.chakra.empty()},
                                                 {"--picture", !flags.picture.empty()},
                                                 {"--prices", !flags.prices.empty()},
                                                 {"--rank", flags.rank.has_value()},
                                                 {"--require", !flags.required.empty()},
                                                 {"--transport", !flags.transport.empty()},
                                                 {"--timing", flags.timing},
                                                 {"--sources", flags.sources}};
  for (const auto& [flag, is_wanted] : wanted)
    if (is_wanted)
      throw UserError(fmt::format(
          "{}: not with --fold check, which compares two runs and gives no answer; expected --fold auto or off", flag));
}

std::string run_answer(const VerbQuestion& question) {
  RunFlags flags;
  flags.arguments.take(question);
  if (flags.fold == "check") throw UserError("fold: check compares two runs and gives no answer; expected auto or off");
  const Scenario scenario = flags.scenario();
  return json_text(answer_json(answer(scenario, flags.options(scenario)), flags.timing));
}

int run(const std::vector<std::string>& words) {
  RunFlags flags;
  if (!flags.arguments.parse(words)) return kGood;
  if (!flags.trace_ranks.empty() && flags.trace.empty()) throw UserError("--trace-ranks: only with --trace");
  for (const std::string& what : flags.required)
    if (what != "fits") throw UserError(fmt::format("--require {}: unknown{}", what, hint(what, {"fits"})));
  if (flags.fold == "check") require_comparison_alone(flags);
  const Scenario scenario = flags.scenario();
  AnswerOptions options = flags.options(scenario);
  options.simulation.trace = flags.trace;
  if (!flags.trace_ranks.empty()) options.simulation.trace_ranks = rank_range(flags.trace_ranks);
  if (!flags.picture.empty()) options.simulation.watch = picture_of(scenario, flags.picture, flags.rank);
  const Plan laid_out = plan(scenario);
  const auto pictures = std::make_shared<nlohmann::ordered_json>();
  if (!flags.html.empty()) draw_run(scenario, laid_out, options.simulation, pictures);
  if (!flags.chakra.empty()) export_chakra(laid_out, flags.chakra, options.simulation);
  if (flags.rank) require_rank(scenario, *flags.rank);
  if (flags.fold == "check") return check_folding_of(scenario, laid_out);
  const Answer all = answer(scenario, laid_out, options);
  const Result& result = all.result;
  const bool prescribed = !result.step_time_source.empty();
  if (prescribed && !(flags.trace.empty() && flags.picture.empty() && flags.chakra.empty()))
    throw UserError("--trace, --picture, --chakra: plan.step_time is not simulated");
  const double simulated = simulated_operations(laid_out, result);
  const std::string text = screen(scenario, laid_out, result, all.what_ifs);
  if (flags.arguments.leaves_stdout_free()) {
    print(text);
    if (flags.rank && flags.picture.empty() && !prescribed)
      print(fmt::format(
          "\n{}", in_words_of(device_noun(scenario.cluster),
                              rank_text(rank_view(scenario, laid_out, *flags.rank)) +
                                  rank_timeline_text(rank_timeline(scenario, laid_out, *flags.rank), *flags.rank))));
    if (simulated > kMostKept && !prescribed && !flags.no_what_if)
      print(fmt::format(
          "{}what-ifs left out: {:.2g} million operations would be simulated for each what-if; explain does that\n",
          report_label("note"), simulated * 1e-6));
    if (result.flow_step_time)
      print(fmt::format("{}{} a step; by flows, the default transport, {} ({} by packets). Here {}\n",
                        report_label("packets"), show(result.step_time), show(*result.flow_step_time),
                        signed_percent(result.step_time / *result.flow_step_time - 1), packets_in_words()));
    if (flags.sources) print(fmt::format("\n{}{}", trust_details(scenario), source_table(scenario.sources)));
  }
  if (!(flags.json + flags.html).empty()) {
    const nlohmann::json written = answer_json(all, flags.timing);
    write_json(flags.json, written);
    if (!flags.html.empty()) write_atomically(flags.html, run_page(written, text, *pictures, scenario));
  }
  return !flags.required.empty() && !result.fits ? kFailsLimit : kGood;
}

const RegisterVerb registered{"run", VerbGroup::predict, "simulate one training step of a scenario", run, run_answer};

}  // namespace
}  // namespace trainyard
