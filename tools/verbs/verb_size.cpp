#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "models/energy/energy.hpp"
#include "models/hardware/node.hpp"
#include "models/reading/catalog.hpp"
#include "models/reading/document_text.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/pictures/chart.hpp"
#include "scenarios/src/reading/measured_family.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/search/plan_memory.hpp"
#include "scenarios/src/search/size_search.hpp"
#include "sim/json_text.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/job.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/search_limits.hpp"
#include "tools/verbs/study_shares.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/device_noun.hpp"

namespace trainyard {
namespace {

/// Higher probabilities are beyond what the measured steps show.
constexpr double kMostConfidence = 0.99;

/// The scenario that `--model` changes if no file is named. It describes a whole training, with failures.
constexpr const char* kSizeTemplate = "scenarios/size-llama3-70b.yaml";

/// Reads a share less than 1: "10%" or "0.1".
double share_of(const std::string& option, const std::string& text) {
  if (text.empty()) return 0;
  const bool percent = text.back() == '%';
  double share = -1;
  try {
    share = parse_number(percent ? text.substr(0, text.size() - 1) : text) * (percent ? 0.01 : 1);
  } catch (const UserError&) {
  }
  if (!(share >= 0) || share >= 1)
    throw UserError(fmt::format("{} {}: a share below 100 % expected, such as 10%", option, text));
  return share;
}

/// The models of the catalog whose names begin with this prefix.
std::vector<std::string> models_of_family(const std::string& family) {
  const Catalog catalog;
  std::vector<std::string> models;
  for (const std::string& name : catalog.names("network"))
    if (name.starts_with(family)) models.push_back(name);
  if (models.empty())
    throw UserError(fmt::format("--family {}: no model of the catalog begins so{}", family,
                                hint(family, catalog.names("network"))));
  return models;
}

std::string size_money(double money) { return fmt::format("{:.4g}", money); }

std::string in_short(const SizeAnswer& a, const SizeRow& r) {
  std::string text = fmt::format("{}{} x {} ({} GPUs): {:.1f} days, {:.4g} GPU-hours",
                                 a.largest ? r.model + " on " : "", r.nodes, r.node, r.gpus, r.days(), r.gpu_hours);
  if (!a.currency.empty())
    text += fmt::format(", {} {}{}", size_money(size_cost(a, r)), a.currency, a.purchase ? " to buy" : "");
  return text;
}

std::string in_words(const SizeRow& r) {
  const std::string compared =
      r.batches.size() > 1 ? fmt::format(" (the fastest per sample of {})", fmt::join(r.batches, ", ")) : "";
  return r.plan + fmt::format(", batch {}{}{}", r.batch, compared, r.proved ? "" : " (not proved)");
}

/// Says which limit ended the searches.
std::string limit_words(const SizeAnswer& a) {
  if (a.search_seconds > 0)
    return fmt::format("each plan is the best that {:.4g} s of search found; another run may find another one",
                       a.search_seconds);
  const bool proved = std::all_of(a.rows.begin(), a.rows.end(), [](const SizeRow& r) { return !r.good() || r.proved; });
  return proved ? ""
                : fmt::format("a plan that is not proved is the best that {:.3g} M operations of search found (--work)",
                              a.work * 1e-6);
}

/// A line for each type of node: the fewest nodes that meet the deadline, and the result of fewer nodes.
std::string fewest_lines(const SizeAnswer& a) {
  std::string text;
  for (const SizeFewest& f : a.fewest) {
    const auto late = std::find_if(a.rows.begin(), a.rows.end(), [&f](const SizeRow& r) {
      return r.model == f.model && r.node == f.node && r.nodes == f.late;
    });
    std::string why = "fewer have no plan";
    if (late != a.rows.end()) {
      why = fmt::format("{}: {}", f.late, late->good() ? fmt::format("{:.1f} days", late->days()) : late->error);
      if (f.nodes - f.late > f.unit) why += ", and no number in between has a plan";
    }
    text += wrapped(report_label(text.empty() ? "fewest" : ""),
                    {fmt::format("of the simulated sizes: {} x {} ({})", f.nodes, f.node, why)}, "");
  }
  return text;
}

/// The share of memory that plans leave free, and the plan that would be taken without this share.
std::string headroom_line(const SizeAnswer& a) {
  double least = 1, most = -1;
  for (const SizeRow& r : a.rows)
    if (r.good()) {
      least = std::min(least, r.headroom);
      most = std::max(most, r.headroom);
    }
  std::vector<std::string> words;
  if (most >= 0)
    words.push_back(fmt::format("{}{} of a GPU's memory stays free in all plans", percent(least),
                                percent(most) == percent(least) ? "" : " to " + percent(most)));
  if (const auto& r = a.without_headroom)
    words.push_back(fmt::format("without it {} x {} take {:.1f} days, with {} GiB a GPU: {}", r->nodes, r->node,
                                r->days(), gib(r->peak), in_words(*r)));
  return words.empty() ? "" : wrapped(report_label("headroom"), words, ";");
}

/// The parts of the purchase and of a year, and when buying costs as much as renting.
std::string ownership_lines(const SizeAnswer& a) {
  const SizeRow* row = a.cheapest ? &*a.cheapest : a.nearest ? &*a.nearest : nullptr;
  if (!a.purchase || !row || !row->ownership) return "";
  const Ownership& o = *row->ownership;
  const auto parts = [](double sum, const std::map<std::string, double>& all) {
    std::vector<std::string> words;
    for (const auto& [name, money] : all)
      if (money > 0) words.push_back(fmt::format("{} {:.0f}", name, money));
    return fmt::format("{:.0f}: {}\n", sum, fmt::join(words, " + "));
  };
  return broken_lines(report_label("purchase") + parts(o.price(), o.purchase_prices) + report_label("a year") +
                      parts(o.year(), o.yearly) + report_label("training") +
                      fmt::format("{:.0f} for its share of the years · {:.3g} {} a million tokens{}\n", o.training,
                                  o.per_million, a.currency, rent_or_buy(o)));
}

/// The table of prices, deadline and budget at which the cheapest cluster changes.
std::string threshold_table(const SizeAnswer& a) {
  if (a.thresholds.empty()) return "";
  TextTable table{
      {"changes if", "is now", "", "then the cheapest of the simulated sizes"}, {false, true, false, false}, {}};
  for (const SizeThreshold& t : a.thresholds)
    table.rows.push_back({t.quantity, fmt::format("{:.6g}", t.value),
                          fmt::format("{} {:.6g}", t.threshold < t.value ? "below" : "above", t.threshold),
                          t.node.empty() ? "none" : fmt::format("{} x {}", t.nodes, t.node)});
  return "\n" + table.text("  ");
}

/// How far a quantity may move from its value, in both directions, before another cluster is the cheapest.
struct DecisionRange {
  std::string quantity;
  double value = 0;
  const SizeThreshold *below = nullptr, *above = nullptr;
  /// The share of the value by which it must move at least.
  double least() const {
    const double down = below ? 1 - below->threshold / value : HUGE_VAL;
    return std::min(down, above ? above->threshold / value - 1 : HUGE_VAL);
  }
};

std::vector<DecisionRange> decision_ranges(const SizeAnswer& a) {
  std::vector<DecisionRange> all;
  for (const SizeThreshold& t : a.thresholds) {
    if (all.empty() || all.back().quantity != t.quantity) all.push_back({t.quantity, t.value});
    (t.threshold < t.value ? all.back().below : all.back().above) = &t;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const DecisionRange& x, const DecisionRange& y) { return x.least() < y.least(); });
  return all;
}

/// Draws the table of thresholds as a tornado chart: a bar for each quantity, from its value to both thresholds. The
/// quantity that must move least is on top.
std::string tornado_picture(const SizeAnswer& a) {
  constexpr double label_width = 250, width = 420, row = 44, top = 84, most = 3;
  const std::vector<DecisionRange> ranges = decision_ranges(a);
  const double height = top + row * static_cast<double>(ranges.size()) + 30;
  const SizeRow& best = *a.cheapest;
  const std::string title = fmt::format("{} x {} is the cheapest until …", best.nodes, best.node);
  Svg svg(label_width + width + 190, height, title,
          "Prices, deadline and budget at which another cluster is the cheapest.");
  svg.text(16, 28, title, {.size = 16, .bold = true});
  svg.text(
      16, 48,
      "each quantity alone, in per cent of its value now; beside a bar: the cheapest of the simulated sizes beyond it",
      {.fill = "#555555"});
  const PlotArea area{label_width, top, width, row * static_cast<double>(ranges.size())};
  const ChartAxis axis(0, most);
  draw_x_axis(svg, area, axis, [](double share) { return fmt::format("{:.0f} %", share * 100); });
  double y = top;
  for (const DecisionRange& range : ranges) {
    svg.text(label_width - 10, y + row / 2 - 2, range.quantity, {.anchor = Svg::Anchor::end, .bold = true});
    svg.text(label_width - 10, y + row / 2 + 12, fmt::format("now {:.6g}", range.value),
             {.fill = "#555555", .anchor = Svg::Anchor::end});
    const auto bar = [&](const SizeThreshold* t, double end, const char* color) {
      const double from = std::min(1.0, end), to = std::min(most, std::max(1.0, end));
      svg.rect(area.x(axis, from), y + 8, area.x(axis, to) - area.x(axis, from), row - 16, color, t ? 1 : 0.25);
      if (!t) return;
      const std::string next = t->node.empty() ? "none" : fmt::format("{} x {}", t->nodes, t->node);
      const std::string words = fmt::format("{:.4g}: {}", t->threshold, next);
      const bool is_left = end < 1 && area.x(axis, from) - label_width > Svg::text_width(words, 11) + 8;
      svg.text(area.x(axis, is_left ? from : std::min(end, most)) + (is_left ? -6 : 6), y + row / 2 + 4, words,
               {.anchor = is_left ? Svg::Anchor::end : Svg::Anchor::start, .halo = true});
    };
    bar(range.below, range.below ? range.below->threshold / range.value : 0, "#d98c3f");
    bar(range.above, range.above ? range.above->threshold / range.value : most, "#1f6fb4");
    y += row;
  }
  svg.line(area.x(axis, 1), top, area.x(axis, 1), y, {"#222222", 1.5});
  return svg.finish();
}

std::string size_screen(const SizeAnswer& a) {
  std::string text =
      fmt::format("{}: in {:.4g} days{}{}\n", a.scenario, a.days,
                  a.confidence > 0 ? fmt::format(" with a probability of {}", percent(a.confidence, 0)) : "",
                  a.budget > 0 ? fmt::format(" for {} {}", size_money(a.budget), a.currency) : "");
  if (a.purchase) text.insert(text.size() - 1, ", bought");
  if (!a.unfinished.empty())
    text += broken_lines(report_label("unfinished") + a.unfinished + "; this is what was found\n");
  const auto line = [&](const char* label, const std::optional<SizeRow>& row) {
    if (row) text += report_label(label) + in_short(a, *row) + "\n" + report_label("") + in_words(*row) + "\n";
  };
  line("cheapest", a.cheapest);
  if (a.cheapest && a.fastest && (a.fastest->node != a.cheapest->node || a.fastest->nodes != a.cheapest->nodes))
    line("fastest", a.fastest);
  if (a.largest && a.cheapest && a.largest->model != a.cheapest->model) line("largest", a.largest);
  const char* simulated_sizes = a.unfinished.empty() ? "" : "of the simulated sizes ";
  if (a.nearest)
    text += fmt::format("{}{}meets deadline and budget; the nearest is\n", report_label("none"), simulated_sizes);
  if (!a.why_none.empty()) text += wrapped(report_label("limit"), {a.why_none}, "");
  if (!a.cheapest && !a.nearest && a.rows.empty()) text += report_label("none") + "was searched to its end\n";
  if (!a.cheapest && !a.nearest && !a.rows.empty())
    text += fmt::format("{}{}has a plan\n", report_label("none"), simulated_sizes);
  line("nearest", a.nearest);
  std::vector<std::string> rooms;
  for (const SizeSiteLimit& limit : a.site_limits)
    rooms.push_back(fmt::format("room for {} x {} (site.{})", limit.nodes, limit.node, limit.limit));
  if (!rooms.empty()) text += wrapped(report_label("site"), rooms, ",");
  if (const auto& row = a.cheapest ? a.cheapest : a.nearest; row && !a.purchase)
    text += rent_lines(row->rents, a.currency, a.days * 86400);
  if (const auto& r = a.least_rent)
    text += report_label("") + fmt::format("of all sizes: {} x {} {}, {} {}\n", r->nodes, r->node, r->terms,
                                           size_money(r->money), a.currency);
  text += ownership_lines(a) + fewest_lines(a) + headroom_line(a);
  if (a.rows.empty()) return text;
  TextTable table{
      {"", "model", "nodes", "GPUs", "days", "in time", "goodput", "MFU", "GPU-hours", "MWh", a.currency, "plan"},
      {false, false, true, true, true, true, true, true, true, true, true},
      {}};
  for (const SizeRow& r : a.rows) {
    const std::string where = fmt::format("{} x {}", r.nodes, r.node);
    if (!r.good()) {
      table.rows.push_back({"", r.model, where, fmt::format("{}", r.gpus), "-", "-", "-", "-", "-", "-", "-", r.error});
      continue;
    }
    table.rows.push_back({r.meets ? (r.pareto ? "*" : "+") : "", r.model, where, fmt::format("{}", r.gpus),
                          fmt::format("{:.1f}", r.days()), r.on_time ? probability_text(*r.on_time) : "-",
                          fmt::format("{:.1f} %", r.goodput * 100), fmt::format("{:.1f} %", r.mfu * 100),
                          fmt::format("{:.4g}", r.gpu_hours),
                          r.energy > 0 ? fmt::format("{:.3g}", r.energy / (1e3 * kJoulesOfKwh)) : "-",
                          !a.currency.empty() ? size_money(size_cost(a, r)) : "-", in_words(r)});
  }
  constexpr std::size_t most = 120;  // columns
  text += "\n" + table.text("  ", most) +
          "  + meets deadline and budget; * also, no other is both faster and cheaper\n"
          "  in time: probability that a measured training ends by the deadline\n";
  text += threshold_table(a);
  if (const std::string limit = limit_words(a); !limit.empty()) text += wrapped("  ", {limit}, "");
  if (!a.left_out.empty()) text += wrapped("left out: ", a.left_out, ",");
  return text;
}

/// The noun for the chips of all nodes in the answer.
std::string devices_of(const SizeAnswer& answer) {
  const Catalog catalog;
  std::string noun;
  std::set<std::string> seen;
  for (const SizeRow& row : answer.rows)
    if (seen.insert(row.node).second)
      noun = common_noun(
          noun, device_noun(read_node(catalog.resolve("node", Node::scalar_node(row.node)), catalog).gpu.kind));
  return noun;
}

struct SizeFlags {
  std::string file, model, family, tokens, days, budget, prices, site, nodes_of, json, svg, write, chinchilla,
      tolerance, headroom, confidence;
  int unit = 0, gpus = 0;
  bool purchase = false;
  std::vector<std::string> sets;
  StudyShares shares;
  SearchLimits limits;
  Arguments arguments{
      "size",
      "Finds which nodes, and how many, train a model in time: for each type of node it searches the best plan, with "
      "failures, checkpoints, energy and money.",
      "size --model llama-3-70b --tokens 15T --days 60 --nodes-of dgx-h100,dgx-b200 --prices "
      "scenarios/prices-example.yml"};

  SizeFlags() {
    arguments.positional("SCENARIO", file,
                         "scenario file (YAML): its model, batch, plan.training and faults are used; its cluster is "
                         "not",
                         false);
    arguments.option("--model", model, "NAME",
                     "the model, instead of the scenario's (default SCENARIO: scenarios/size-llama3-70b.yaml)");
    arguments.option("--family", family, "PREFIX",
                     "find the largest possible model among those of the catalog whose names begin so");
    arguments.option("--tokens", tokens, "N", "tokens of the training, for example 300B or 15T");
    arguments.option("--tokens-per-parameter", chinchilla, "N",
                     "tokens for each parameter, instead of --tokens: 20 is compute-optimal (Hoffmann et al. 2022)");
    arguments.option("--days", days, "D", "the deadline: the training takes at most D days");
    arguments.option("--confidence", confidence, "SHARE",
                     "the deadline is met with at least this probability, for example 90% (default: the predicted time "
                     "meets it; a measured time is as likely to be longer as shorter)");
    arguments.option("--budget", budget, "MONEY", "the most that the training may cost, in the currency of the prices");
    arguments.flag("--purchase", purchase,
                   "buy the cluster: the cheapest has the least purchase price, and --budget is the most it may be");
    arguments.option("--prices", prices, "FILE", "file with your prices (scenarios/prices-example.yml shows how)");
    arguments.option("--site", site, "SITE",
                     "limits and PUE (energy of the site over that of its computers) of the site: a name, a file, or a "
                     "map such as {power: 2 MW, pue: 1.2, ports: 512}");
    arguments.option("--nodes-of", nodes_of, "A,B,...",
                     "consider only these types of node, or all nodes with these chips (for example tpu-v5p)");
    arguments.option("--gpus", gpus, "N", "use N devices: the fewest nodes that have them");
    arguments.option("--unit", unit, "N", "the number of nodes is a multiple of N (default 1)");
    arguments.option("--batch-tolerance", tolerance, "SHARE",
                     "the batch may differ by this share, for example 10%: the batch with the least time per sample "
                     "is taken");
    limits.declare(arguments, "--search", "the search for the plan of each cluster",
                   fmt::format("default {:.0f}M", kWorkOfCluster * 1e-6));
    arguments.option(
        "--headroom", headroom, "SHARE",
        "leave this share of each device's memory free, for example 8 % or 0 (default: what the driver's context and "
        "fragmentation take, some 8 % of 80 GiB)");
    arguments.repeated_flag("--set", sets, "PATH=VALUE", "override a field; may be repeated");
    arguments.output("--json", json, "write the answer as JSON; - is stdout (and prints nothing else there)");
    arguments.output("--svg", svg,
                     "with --prices: draw how far prices, deadline and budget may move before another cluster is the "
                     "cheapest; - is stdout");
    arguments.output("--write", write, "write the cheapest cluster and plan as a scenario; - is stdout");
    shares.declare(arguments, "type of node");
  }

  SizeOptions options() const {
    if (days.empty()) throw UserError("size: --days expected, the deadline");
    if (file.empty() && model.empty() && family.empty())
      throw UserError("size: a scenario file, --model or --family expected");
    if (!svg.empty() && prices.empty() && !document().find("prices")) throw UserError("--svg: only with --prices");
    if (gpus < 0) throw UserError(fmt::format("--gpus {}: 1 or more expected", gpus));
    SizeOptions options;
    options.days = parse_amount("--days", days);
    options.budget = parse_amount("--budget", budget);
    options.tokens_per_parameter = parse_amount("--tokens-per-parameter", chinchilla);
    options.gpus = gpus;
    options.purchase = purchase;
    if (unit < 0) throw UserError(fmt::format("--unit {}: 1 or more expected", unit));
    options.unit = unit;
    options.batch_tolerance = share_of("--batch-tolerance", tolerance);
    options.confidence = share_of("--confidence", confidence);
    if (!confidence.empty() && (options.confidence < 0.5 || options.confidence > kMostConfidence))
      throw UserError(fmt::format("--confidence {}: 50 % to {:.0f} % expected", confidence, kMostConfidence * 100));
    if (!headroom.empty()) options.headroom = parse_headroom(headroom);
    options.node_types = comma_list(nodes_of);
    std::erase(options.node_types, "");
    options.work = limits.operations();
    options.search_seconds = limits.wall_seconds();
    if (!family.empty()) options.models = models_of_family(family);
    options.journal = shares.points;
    options.shard = shares.requested_shard(!(json + svg + write).empty());
    return options;
  }

  std::string name() const {
    return !file.empty() ? std::filesystem::path(file).stem().string() : model.empty() ? family : model;
  }

  Node document() const {
    const std::optional<Node>& scenario = arguments.document();
    Node document =
        scenario ? *scenario : read_scenario_document(file.empty() ? shipped_file(kSizeTemplate).string() : file);
    for (const auto& [field, value] : parse_overrides(sets)) set_field(document, field, value);
    if (!model.empty()) set_field(document, "model", parse_override(model, "--model"));
    if (!tokens.empty())
      set_field(document, "plan.training", fmt::format("{{tokens: {:.0f}}}", parse_amount("--tokens", tokens)));
    if (std::error_code ignored; std::filesystem::is_regular_file(site, ignored))
      set_field(document, "site", "\"" + site + "\"");
    else if (!site.empty())
      set_field(document, "site", site);
    if (!prices.empty()) {
      const auto [field, value] = prices_override(prices);
      set_field(document, field, value);
    }
    return document;
  }
};

SizeAnswer shown_search(const Node& document, const std::string& name, SizeOptions options) {
  ProgressLine line;
  options.progress = [&line](const std::string& text) { line.show(text); };
  return size_clusters(document, name, options);
}

std::string size_answer(const VerbQuestion& question) {
  SizeFlags flags;
  flags.arguments.take(question);
  const SizeOptions options = flags.options();
  return json_text(size_fields().json(shown_search(flags.document(), flags.name(), options)));
}

int size_verb(const std::vector<std::string>& words) {
  SizeFlags flags;
  if (!flags.arguments.parse(words)) return kGood;
  const SizeOptions options = flags.options();
  const Node document = flags.document();
  StudyShares& shares = flags.shares;
  if (!shares.slurm.empty()) return shares.write_slurm_job(flags.arguments, kMostShards);
  watch_interrupts();
  const SizeAnswer answer = shown_search(document, flags.name(), options);
  if (is_interrupted() && !shares.shard.empty()) return shares.interrupted_search();
  if (!shares.shard.empty()) {
    shares.finish(flags.arguments);
    return kGood;
  }
  if (flags.json != "-" && flags.svg != "-" && flags.write != "-")
    print(in_words_of(devices_of(answer), size_screen(answer)));
  if (!flags.json.empty()) write_atomically(flags.json, json_text(size_fields().json(answer), 2) + "\n");
  if (!answer.cheapest) return answer.unfinished.empty() ? kFailsLimit : shares.interrupted_search();
  if (!flags.svg.empty()) write_atomically(flags.svg, tornado_picture(answer));
  if (!flags.write.empty())
    write_atomically(flags.write, fmt::format("# {}: the cheapest that `trainyard size` found.\n", flags.name()) +
                                      yaml_text(answer.cheapest->document));
  return answer.unfinished.empty() ? kGood : shares.interrupted_search();
}

const RegisterVerb registered_size{"size", VerbGroup::choose,
                                   "find which nodes, and how many, train a model in time and budget", size_verb,
                                   size_answer};

}  // namespace
}  // namespace trainyard
