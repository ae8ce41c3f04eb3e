#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/memory_verdict.hpp"
#include "scenarios/src/studies/fleet/fleet.hpp"
#include "sim/process/job.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/assumptions.hpp"
#include "tools/reports/html_page.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

std::string time_cell(double seconds) { return seconds == 0 ? "0 s" : long_time(Seconds{seconds}); }

std::string memory_cell(double risk) {
  return is_safe_risk(risk) ? "fits" : fmt::format("at risk, {}", percent(risk, 0));
}

std::string fleet_steps_table(const FleetAnswer& a) {
  TextTable table{"training", ">nodes", ">step", ">80 % interval", ">alone", ">checkpoint every", "memory"};
  for (const FleetStep& step : a.steps) {
    const double every = step.size.checkpoint.interval_steps * step.step_time;
    table.rows.push_back({step.training, counted(step.nodes), show(Seconds{step.step_time}),
                          step.likely_step_times
                              ? fmt::format("{} to {}", show(Seconds{step.likely_step_times->front()}),
                                            show(Seconds{step.likely_step_times->back()}))
                              : "-",
                          time_cell(step.alone_time), every > 0 ? time_cell(every) : "-", memory_cell(step.risk)});
  }
  return table.text() +
         "alone: the whole training with its checkpoints, if nothing interrupts it; at risk: probability to run out of "
         "memory\n";
}

std::string fleet_groups_table(const FleetAnswer& a) {
  TextTable table{"training", ">arrivals", ">in time", ">starts", ">whole", ">longest", ">failures", ">stopped"};
  const bool has_costs = !a.currency.empty();
  const auto any = [&a](double FleetGroup::*figure) {
    return std::ranges::any_of(a.groups, [figure](const FleetGroup& group) { return group.*figure > 0; });
  };
  const bool has_energy = any(&FleetGroup::tokens_per_joule), has_tokens = any(&FleetGroup::per_million);
  const auto figure = [](double v) { return v > 0 ? fmt::format("{:.3g}", v) : std::string("-"); };
  if (has_energy) table.add_column("tokens/J");
  if (has_costs) table.add_column(a.currency);
  if (has_tokens) table.add_column("a M tokens");
  for (const FleetGroup& group : a.groups) {
    table.rows.push_back({group.training, counted(group.arrivals), percent(group.in_time), time_cell(group.mean_wait),
                          time_cell(group.mean_time), time_cell(group.longest_time),
                          fmt::format("{:.1f}", group.failures), fmt::format("{:.1f}", group.preemptions)});
    std::vector<std::string>& cells = table.rows.back();
    if (has_energy) cells.push_back(figure(group.tokens_per_joule));
    if (has_costs) cells.push_back(with_commas(group.money));
    if (has_tokens) cells.push_back(figure(group.per_million));
  }
  return table.text() +
         fmt::format(
             "means over the arrivals{}; starts: time until the first start; whole: from arrival to end; stopped: "
             "preemptions\n",
             a.runs > 1 ? fmt::format(" of {} runs", a.runs) : "") +
         (has_costs
              ? fmt::format("{}: all arrivals of run {} together; the cost of the cluster ({}), with idle nodes, "
                            "shared by node-hours\na M tokens: that cost for a million tokens of these arrivals\n",
                            a.currency, a.shown_run, a.costs.front().terms)
              : "");
}

std::string fleet_rows_table(const FleetAnswer& a) {
  constexpr std::size_t most = 20;  // rows
  TextTable table{fmt::format("run {}", a.shown_run),
                  ">arrival",
                  ">start",
                  ">end",
                  ">due",
                  ">nodes",
                  ">failures",
                  ">stopped",
                  "in time"};
  const bool in_days = a.horizon > 10 * 86400.0;
  const auto day = [&](double seconds) { return fmt::format("{:.2f}", seconds / (in_days ? 86400 : 3600)); };
  for (std::size_t i = 0; i < std::min(most, a.rows.size()); ++i) {
    const FleetRow& row = a.rows[i];
    const QueueOutcome& o = row.outcome;
    table.rows.push_back({row.name, day(row.arrival), day(o.start.value), day(o.end.value), day(row.due),
                          counted(o.stays.back().nodes), counted(o.failures), counted(o.preemptions),
                          row.is_too_late_to_count ? "too late to count"
                          : row.in_time()          ? "yes"
                                                   : "no"});
  }
  std::string text = table.text() + (in_days ? "days" : "hours") + "; nodes: in the last stay\n";
  if (a.rows.size() > most) text += fmt::format("{} more: --csv has all\n", a.rows.size() - most);
  return text;
}

std::string fleet_lines(const FleetAnswer& a) {
  const FleetUse& use = a.use;
  const std::vector<std::pair<const char*, double>> parts{{"steps", use.steps},
                                                          {"checkpoints", use.checkpoints},
                                                          {"repeated after failures", use.lost_to_failures},
                                                          {"repeated after preemption", use.lost_to_preemption},
                                                          {"restarts", use.restarts},
                                                          {"idle", use.idle},
                                                          {"spare", use.spare},
                                                          {"repair", use.repair}};
  std::vector<double> shares;
  for (const auto& [name, hours] : parts) shares.push_back(hours / use.sum() * 100);
  const std::vector<double> rounded = rounded_parts(shares, 0.1);
  std::vector<std::string> words;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].second > 0) words.push_back(fmt::format("{} {:.1f} %", parts[i].first, rounded[i]));
  std::string text = wrapped(report_label("node-hours"), words, " · ");
  text += fmt::format("{}{:.2f} trainings wait on average, at most {}\n", report_label("queue"), a.mean_queue,
                      a.longest_queue);
  for (std::size_t i = 0; i < a.costs.size(); ++i)
    text += fmt::format("{}{} {} {} ({:.4g} for each node-hour{})\n", report_label(i == 0 ? "cost" : ""),
                        with_commas(a.costs[i].money), a.currency, a.costs[i].terms, a.costs[i].node_hour,
                        a.costs[i].years > 0 ? fmt::format("; {} to own for {}", with_commas(a.costs[i].total),
                                                           years_words(a.costs[i].years))
                                             : "");
  if (a.ownership)
    text += broken_lines(report_label("purchase") + sum_in_parts(a.ownership->purchase_prices, a.currency) + "\n" +
                         report_label("a year") + sum_in_parts(a.ownership->yearly, a.currency) + "\n") +
            break_even_lines(*a.ownership);
  if (!a.tries.empty()) {
    const auto [least, largest] = std::ranges::minmax(a.tries, {}, &FleetTrial::nodes);
    const int spares = std::ranges::max(a.tries, {}, &FleetTrial::spares).spares;
    text += fmt::format("{}{} of {}, with up to {}\n", report_label("tried"),
                        counted_noun(static_cast<std::int64_t>(a.tries.size()), "cluster"),
                        least.nodes == largest.nodes ? counted_noun(least.nodes, "node")
                                                     : fmt::format("{} to {} nodes", least.nodes, largest.nodes),
                        counted_noun(spares, "spare"));
  }
  if (a.room) text += broken_lines(report_label("site") + room_in_words(*a.room) + "\n");
  if (!a.left_out.empty()) text += broken_lines(report_label("left out") + a.left_out);
  return text;
}

std::string fleet_screen(const FleetAnswer& a) {
  return fmt::format("{}{} on {} for {}\n\n", counted_noun(static_cast<std::int64_t>(a.rows.size()), "training"),
                     a.runs > 1 ? fmt::format(" in run {}", a.shown_run) : "", a.cluster, time_cell(a.horizon)) +
         broken_lines(report_label("verdict") + a.verdict + "\n" + report_label("limit") + a.limit + "\n") +
         fmt::format("{}\n{}\n{}\n{}", fleet_lines(a), fleet_groups_table(a), fleet_steps_table(a),
                     fleet_rows_table(a));
}

/// The page of the answer. Its timeline has the stays of the shown run: training, begin, end and number of nodes.
std::string fleet_page(const FleetAnswer& a, const std::string& screen, const Node& document) {
  nlohmann::ordered_json stays = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < a.rows.size(); ++i)
    for (const QueueOutcome::Stay& stay : a.rows[i].outcome.stays)
      stays.push_back({i, a.rows[i].training, stay.begin.value, stay.end.value, stay.nodes});
  nlohmann::ordered_json data{{"answer", fleet_json(a)},
                              {"screen", screen},
                              {"stays", std::move(stays)},
                              {"assumptions", assumptions_json(document, {a.node})}};
  return chart_page("A fleet: " + a.name, std::move(data), {page_script::fleet()});
}

/// Prints and writes what was found before a signal ended the work.
int report_unfinished(const FleetAnswer& a, bool prints, const std::string& json) {
  nlohmann::ordered_json tries = nlohmann::ordered_json::array();
  std::string text = fmt::format("unfinished: {}\n\n{}", a.unfinished, fleet_steps_table(a));
  for (const FleetTrial& trial : a.tries) {
    text += fmt::format("{} nodes, {} of them spare: {} late\n", trial.nodes, trial.spares,
                        counted_noun(trial.late, "training"));
    tries.push_back({{"nodes", trial.nodes}, {"spares", trial.spares}, {"late", trial.late}});
  }
  if (prints) print(text);
  write_json(json, nlohmann::ordered_json{{"unfinished", a.unfinished}, {"tries", std::move(tries)}});
  complain(fmt::format("interrupted: {}; the answer has these alone", a.unfinished));
  return kInterrupted;
}

int fleet_verb(const std::vector<std::string>& words) {
  Arguments arguments(
      "fleet",
      "Simulates trainings that arrive on one cluster over a year: queue, priorities, preemption, failures, spares and "
      "repairs. Steps and checkpoints are simulated as run does. The file has a `cluster`, rules in `fleet`, and a "
      "list `trainings`; each has `nodes`, arrivals, a deadline and the keys of a scenario (trainyard help scenario).",
      "fleet scenarios/fleet-year.yml --nodes choose");
  std::string file, nodes, prices, site, json, csv, svg, html;
  std::vector<std::string> sets;
  FleetQuestion question;
  constexpr int most = 1 << 20;
  arguments.positional("FILE", file, "cluster, fleet and trainings (YAML)");
  arguments.repeated_flag("--set", sets, "PATH=VALUE",
                          "override a field of the file, for example fleet.policy=priority; may be repeated");
  arguments.option("--nodes", nodes, "N|choose",
                   "number of nodes of the cluster, with the spares (default: cluster.nodes; if these are not enough, "
                   "larger numbers are tried until one is); choose: the fewest with which no training is late in any "
                   "run. Numbers are tried upwards from the least possible one");
  arguments.option("--spares", question.spares, "N",
                   "number of spares (default: fleet.spares; with --nodes choose: 0 to 2)", 0, most);
  arguments.option("--most-nodes", question.most_nodes, "N",
                   "with --nodes choose: try up to N nodes (default: as many as all trainings need at once)", 1, most);
  arguments.option("--prices", prices, "FILE", "file with your prices (scenarios/prices-example.yml shows how)");
  arguments.option(
      "--site", site, "SITE",
      "limits and PUE (energy of the site over that of its computers) of the site: a name, a file, a power "
      "such as 2MW, or a map such as {power: 2 MW, pue: 1.2}. The cluster has no more nodes than the site has room "
      "for");
  arguments.output("--json", json, "write the answer as JSON; - is stdout (and prints nothing else there)");
  arguments.output("--csv", csv, "write the trainings of the shown run as CSV; - is stdout");
  arguments.output("--svg", svg, "draw the trainings of the shown run over time, and the nodes in use; - is stdout");
  arguments.output("--html", html, "write a page with the verdict and a timeline of the nodes; - is stdout");
  if (!arguments.parse(words)) return kGood;
  question.choose = nodes == "choose";
  if (!question.choose && !nodes.empty())
    question.nodes = static_cast<int>(
        whole_number(Node::scalar_node(nodes, Place::named("--nodes")), "a number of nodes or choose", 1, most));
  if (!question.choose && question.most_nodes > 0) throw UserError("--most-nodes: only with --nodes choose");
  Node document = read_document(scenario_file(file));
  set_prices(document, prices);
  set_site(document, site);
  const FleetFile fleet = read_fleet(document, std::filesystem::path(file).stem().string(), parse_overrides(sets));
  watch_interrupts();
  const FleetAnswer answer = answer_fleet(fleet, question);
  if (!answer.unfinished.empty()) return report_unfinished(answer, arguments.leaves_stdout_free(), json);
  const std::string screen = fleet_screen(answer);
  if (arguments.leaves_stdout_free()) print(screen);
  if (!html.empty()) write_atomically(html, fleet_page(answer, screen, document));
  write_json(json, fleet_json(answer));
  if (!csv.empty()) write_atomically(csv, fleet_csv(answer));
  if (!svg.empty()) write_atomically(svg, fleet_picture(answer));
  return answer.is_enough() ? kGood : kFailsLimit;
}

const RegisterVerb registered_fleet{
    "fleet", VerbGroup::choose, "simulate trainings that queue on a cluster for a year: how many nodes do they need?",
    fleet_verb};

}  // namespace
}  // namespace trainyard
