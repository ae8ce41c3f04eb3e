// The answer of `trainyard size` on a screen and as a picture.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "models/energy/energy.hpp"
#include "scenarios/src/answer/memory_verdict.hpp"
#include "scenarios/src/pictures/chart.hpp"
#include "scenarios/src/search/plan_memory.hpp"
#include "scenarios/src/sizing/size_answer.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/reports/size_cells.hpp"

namespace trainyard {
namespace {

std::string cluster_in_words(const SizeAnswer& a, const SizeRow& r) {
  std::string text =
      fmt::format("{}{}{} ({}){}: {}, {} GPU-hours", a.largest ? r.model + " on " : "", nodes_in_words(r),
                  r.network.empty() ? "" : " with the network " + r.network, counted_noun(r.gpus, "GPU"),
                  terms_in_words(r.terms), days_words(r.end_days), size_money(r.paid_gpu_hours));
  if (!a.currency.empty())
    text += fmt::format(", {} {}{}", size_money(r.cost), a.currency, a.purchase ? " " + purchase_words(a) : "");
  return text;
}

/// Says that a plan may run out of memory: ", at risk: out of memory with 14 %"; "": it hardly may.
std::string risk_words(double risk) {
  return is_safe_risk(risk) ? "" : ", at risk: out of memory with " + probability_text(risk);
}

std::string in_words(const SizeRow& r) {
  const auto number = [](std::int64_t batch) { return full_number(static_cast<double>(batch)); };
  std::vector<std::string> batches;
  for (const std::int64_t batch : r.batches) batches.push_back(number(batch));
  const std::string compared =
      batches.size() > 1 ? fmt::format(" (the fastest per sample of {})", fmt::join(batches, ", ")) : "";
  return r.plan + fmt::format(", batch {}{}{}{}", number(r.batch), compared, r.proved ? "" : " (not proved)",
                              risk_words(r.risk));
}

/// Says which limit ended the searches.
std::string search_limit(const SizeAnswer& a) {
  constexpr const char* others = "a plain one and those of other sizes";
  if (a.search_seconds > 0)
    return fmt::format("each plan is the best of a search of {:.4g} s, {}; another run may find another one",
                       a.search_seconds, others);
  const bool proved = std::ranges::all_of(a.rows, [](const SizeRow& r) { return !r.good() || r.proved; });
  return proved ? ""
                : fmt::format("a plan that is not proved is the best of a search (--work: {:.3g} M operations), {}",
                              a.work * 1e-6, others);
}

/// A node type that was bounded only: "48 x dgx-a100 (at least 55.1 days and 120,000 USD)".
std::string bound_words(const SizeAnswer& a, const SizeBound& b) {
  if (b.days <= 0) return b.node + " (no plain plan fits on the nodes that were tried)";
  return fmt::format("{} x {} (plain plans take at least {} and {} {})", b.nodes, b.node, days_words(b.days),
                     size_money(b.cost), a.currency.empty() ? "device-hours" : a.currency);
}

/// The node types that were bounded only.
std::string not_searched_lines(const SizeAnswer& a) {
  if (a.not_searched.empty()) return "";
  std::vector<std::string> words;
  for (const SizeBound& b : a.not_searched) words.push_back(bound_words(a, b));
  return wrapped(
      a.unfinished.empty() ? "not searched (--work 50M searches all): " : "bounded only, the most promising first: ",
      words, ",");
}

/// A line for each type of node: the fewest nodes that meet the deadline, and the result of fewer nodes.
std::string fewest_lines(const SizeAnswer& a) {
  std::string text;
  for (const SizeFewest& f : a.fewest) {
    const auto late = std::ranges::find_if(a.rows, [&f](const SizeRow& r) {
      return r.model == f.model && types_in_words(r) == f.node && r.nodes == f.late;
    });
    std::string why = "fewer have no plan";
    if (late != a.rows.end()) {
      why = fmt::format("{}: {}", f.late, late->good() ? days_words(late->end_days) : late->error);
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
    words.push_back(fmt::format("without it {} x {} take {}, with {} GiB a GPU: {}", r->nodes, r->node,
                                days_words(r->days()), gib(r->peak), in_words(*r)));
  return words.empty() ? "" : wrapped(report_label("headroom"), words, ";");
}

/// The parts of the purchase and of a year, and when buying costs as much as renting.
std::string ownership_lines(const SizeAnswer& a) {
  const SizeRow* row = a.cheapest ? &*a.cheapest : a.nearest ? &*a.nearest : nullptr;
  if (!a.purchase || !row || !row->ownership) return "";
  const Ownership& o = *row->ownership;
  std::map<std::string, double> total;
  for (const auto& [part, money] : o.yearly) total[part] = o.years * money;
  return broken_lines(
             report_label("purchase") + sum_in_parts(o.purchase_prices, a.currency) + "\n" + report_label("a year") +
             sum_in_parts(o.yearly, a.currency) + "\n" + report_label(years_words(o.years).c_str()) +
             sum_in_parts(total, a.currency) + "\n" + report_label("training") +
             fmt::format("{} for its share of the years · {:.3g} {} a million tokens{}\n", size_money(o.training),
                         row->tokens > 0 ? o.training / (row->tokens * 1e-6) : o.per_million, a.currency,
                         rent_or_buy(o))) +
         break_even_lines(o);
}

/// Says which network the figures of the table above count.
std::string counted_legend(const SizeAnswer& a) {
  return a.counted_network.empty()
             ? ""
             : fmt::format("  the table counts the network {} unless another one is named\n", a.counted_network);
}

/// The table of prices, deadline and budget at which the cheapest cluster changes.
std::string threshold_table(const SizeAnswer& a) {
  if (a.thresholds.empty()) return "";
  TextTable table{"changes if", ">is now", "", "then the decision among the simulated sizes"};
  for (const SizeThreshold& t : a.thresholds)
    table.rows.push_back(
        {quantity_words(t.quantity), quantity_value(t.quantity, t.value),
         fmt::format("{} {}", t.threshold < t.value ? "below" : "above", quantity_amount(a, t.quantity, t.threshold)),
         t.node.empty() ? "none" : cluster_cell(a, t) + terms_in_words(t.terms)});
  constexpr std::size_t most = 120;  // columns
  return "\n" + table.text("  ", most) + counted_legend(a) +
         (a.purchase ? a.total_years > 0
                           ? fmt::format("  decided by what a cluster costs {} of use\n", purchase_words(a))
                           : "  interest, electricity, staff and space are no part of a purchase price, so they change "
                             "no decision;\n  with --by total-cost they do\n"
                     : "");
}

/// The unit of the price of a choice, whose owner the row names: "a GPU-hour". A purchase is priced by its node or its GPU.
std::string price_unit(const SizeChoice& choice) {
  const std::string& quantity = choice.quantity;
  if (quantity.starts_with("gpu_hour of ")) return "a GPU-hour";
  if (quantity.starts_with("node_hour of ")) return "a node-hour";
  if (!quantity.starts_with("purchase of ")) return quantity_words(quantity);
  return same_name(quantity, "purchase of " + choice.node) ? "a node" : "a GPU";
}

/// Writes an interval of days with one unit for both of its ends, that of the lower one: "2.20 to 2.64 h", "82.6 to 97.1".
std::string range_cell(double low, double high) {
  constexpr double tenth = 0.1, hours_of_day = 24, minutes_of_day = 1440, seconds_of_day = 86400;
  const auto [unit, of_day] = low >= tenth                ? std::pair{"", 1.0}
                              : low * hours_of_day >= 1   ? std::pair{" h", hours_of_day}
                              : low * minutes_of_day >= 1 ? std::pair{" min", minutes_of_day}
                                                          : std::pair{" s", seconds_of_day};
  return fmt::format("{} to {}{}", three_digits(low * of_day), three_digits(high * of_day), unit);
}

/// The ways to pay side by side.
std::string choice_table(const SizeAnswer& a) {
  if (a.choices.size() < 2) return "";
  constexpr double mega = 1e6;
  const bool has_decision = std::ranges::any_of(a.choices, &SizeChoice::decision);
  TextTable table{"", "paid", ">nodes", ">days", ">80 % range", ">in time", ">MW", ">" + a.currency, ">to buy"};
  if (a.total_years > 0) table.add_column("to own");
  table.add_column(has_decision ? "equals *; now" : "misses", false);
  for (const SizeChoice& c : a.choices) {
    std::string last = !c.missed.empty() ? "misses the " + c.missed : "";
    if (c.break_even)
      last += fmt::format("{}{}{} {}; {}", last.empty() ? "" : "; ", c.decision ? "up to " : "",
                          full_number(*c.break_even), price_unit(c), full_number(c.price));
    if (c.used_money > 0)
      last += fmt::format("{}{} for the hours used", last.empty() ? "" : "; ", size_money(c.used_money));
    if (!is_safe_risk(c.risk)) last += fmt::format("{}at risk, {}", last.empty() ? "" : "; ", probability_text(c.risk));
    table.rows.push_back({c.decision ? "*" : "", c.terms, cluster_cell(a, c), days_cell(c.days),
                          c.likely_days ? range_cell(c.likely_days->front(), c.likely_days->back()) : "-",
                          c.on_time ? probability_text(*c.on_time, a.confidence) : "-",
                          c.power > 0 ? fmt::format("{:.3g}", c.power / mega) : "-", size_money(c.money),
                          c.terms == "purchase" ? size_money(c.purchase) : "-"});
    std::vector<std::string>& cells = table.rows.back();
    if (a.total_years > 0) cells.push_back(c.terms == "purchase" ? size_money(c.total) : "-");
    cells.push_back(last);
  }
  constexpr std::size_t most = 120;  // columns
  return "\n" + table.text("  ", most) +
         (has_decision
              ? "  * the verdict's choice. The cost of a purchase is that of owning it for the time of the training\n"
                "  equals *: the price with which the choice costs as much as *; then the price now\n"
              : "  The cost of a purchase is that of owning it for the time of the training\n") +
         (a.total_years > 0 ? "  to own: cost of owning it for the years of depreciation, always in use\n" : "") +
         (std::ranges::any_of(a.choices, [](const SizeChoice& c) { return c.used_money > 0; })
              ? "  A reserved term is paid to its end. Its cost for the hours used is what compares with a purchase\n"
              : "") +
         (std::ranges::any_of(a.rows, [](const SizeRow& r) { return r.wait_days > 0; })
              ? "  days: with the delivery of bought nodes\n"
              : "") +
         (a.counted_network.empty()
              ? ""
              : fmt::format("  nodes: with the network {} unless another one is named\n  {}\n", a.counted_network,
                            a.purchase ? "rents: a rent includes its network"
                                       : "rents: with the cost of owning the network during the training"));
}

/// Says which conditions a first answer misses: "137.7 of 90 days: late"; "": none.
std::string missed_words(const SizeRow& row, const SizeOptions& options) {
  std::vector<std::string> words;
  if (options.days > 0 && row.end_days > options.days)
    words.push_back(fmt::format("{} of {:.4g} days: late", days_cell(row.end_days), options.days));
  else if (row.on_time && *row.on_time < options.confidence)
    words.push_back(fmt::format("in time with a probability of {}, not of {}: late",
                                probability_text(*row.on_time, options.confidence), exact_percent(options.confidence)));
  if (options.budget > 0 && row.cost > options.budget)
    words.push_back(fmt::format("{} of {}: over the budget", size_money(row.cost), size_money(options.budget)));
  return words.empty() ? "" : fmt::format(" ({})", fmt::join(words, "; "));
}

/// Energy and cost of the tokens of each size, and what it costs to own.
std::string token_table(const SizeAnswer& a) {
  const auto any = [&a](const auto& has) { return std::ranges::any_of(a.rows, has); };
  const bool has_money = any([](const SizeRow& r) { return r.good() && r.per_million() > 0; });
  const bool has_energy = any([](const SizeRow& r) { return r.good() && r.paid_energy > 0; });
  if (!has_money && !has_energy) return "";
  const auto owned = std::ranges::find_if(a.rows, [](const SizeRow& r) { return r.ownership.has_value(); });
  TextTable table{"energy and cost of tokens", ">tokens/J"};
  if (has_money) table.add_column(a.currency + " a million");
  if (has_money && owned != a.rows.end()) {
    table.add_column("owned, always in use");
    table.add_column("to buy");
    table.add_column("to own for " + years_words(owned->ownership->years));
  }
  for (const SizeRow& r : a.rows) {
    if (!r.good()) continue;
    const auto figure = [](double v) { return v > 0 ? fmt::format("{:.3g}", v) : std::string("-"); };
    std::vector<std::string>& cells = table.rows.emplace_back();
    cells = {nodes_in_words(r) + terms_in_words(r.terms), figure(r.tokens_per_joule())};
    if (has_money) cells.push_back(figure(r.per_million()));
    if (!has_money || owned == a.rows.end()) continue;
    cells.push_back(r.ownership ? figure(r.ownership->per_million) : "-");
    cells.push_back(r.ownership ? size_money(r.ownership->price()) : "-");
    cells.push_back(r.ownership ? size_money(r.ownership->total()) : "-");
  }
  return "\n" + table.text("  ");
}

}  // namespace

std::string first_size_answer(const std::vector<SizeBound>& bounds, std::size_t types, const SizeRow* row,
                              const SizeOptions& options) {
  const bool one_model =
      std::ranges::all_of(bounds, [&bounds](const SizeBound& b) { return b.model == bounds.front().model; });
  const auto on_model = [one_model](const std::string& model) { return one_model ? "" : model + " on "; };
  const std::string types_words = counted_noun(static_cast<std::int64_t>(types), "node type");
  std::string text = bounds.size() < types
                         ? fmt::format("first answer after bounds of {} of {}: ", bounds.size(), types_words)
                         : fmt::format("answer after bounds of {}: ", types_words);
  if (!row)
    return text +
           fmt::format("no plain plan fits{}; the search goes on", types > 1 ? " on the most promising ones" : "");
  std::string cost;
  if (row->terms == "purchase")
    cost = fmt::format(", {} {}", size_money(row->cost), options.by_total ? "to own" : "to buy");
  else if (row->money > 0)
    cost = fmt::format(", {}{}", size_money(row->cost), terms_in_words(row->terms));
  text += fmt::format("{}{} x {} ({}), {}, {} device-hours{}{}; one plan simulated: {}", on_model(row->model),
                      row->nodes, row->node, counted_noun(row->gpus, "device"), days_words(row->end_days),
                      size_money(row->paid_gpu_hours), cost, missed_words(*row, options), row->plan);
  std::vector<std::string> next;
  for (const SizeBound& b : bounds)
    if (next.size() < 3 && (b.node != row->node || b.model != row->model) && b.days > 0)
      next.push_back(
          fmt::format("{}{} x {} (plain plans at least {})", on_model(b.model), b.nodes, b.node, days_words(b.days)));
  if (!next.empty()) text += fmt::format("; next {}", fmt::join(next, ", "));
  return text + "; the search goes on";
}

std::string live_size_table(const SizeAnswer& a, std::size_t width) {
  constexpr std::size_t most = 4;
  const std::vector<SizeRow> rows = best_rows(a, most);
  if (rows.empty()) return "";
  TextTable table{"so far", "nodes", ">days", ">" + (a.currency.empty() ? "device-hours" : a.currency), "plan"};
  for (const SizeRow& row : rows)
    table.rows.push_back({row.meets                             ? "meets all"
                          : row.end_days > a.days               ? "late"
                          : a.budget > 0 && row.cost > a.budget ? "over budget"
                                                                : "not sure",
                          nodes_in_words(row) + terms_in_words(row.terms), days_cell(row.end_days),
                          size_money(a.currency.empty() ? row.gpu_hours : row.cost), row.plan});
  std::istringstream lines(table.text());
  std::string text;
  for (std::string line; std::getline(lines, line);) text += line.substr(0, width) + "\n";
  return text;
}

std::string size_screen(const SizeAnswer& a) {
  std::string text = fmt::format("{}: in {:.4g} day{}{}{}\n", a.scenario, a.days, a.days == 1 ? "" : "s",
                                 a.confidence > 0 ? " with a probability of " + exact_percent(a.confidence) : "",
                                 a.budget > 0 ? fmt::format(" for {} {}", size_money(a.budget), a.currency) : "");
  if (a.purchase)
    text.insert(text.size() - 1, a.total_years > 0 ? ", bought by its cost " + purchase_words(a) : ", bought");
  if (!a.unfinished.empty())
    text += broken_lines(report_label("unfinished") + a.unfinished + "; this is what was found\n");
  if (const auto& v = a.verdict)
    text += broken_lines(report_label("verdict") + v->decision + "\n" + report_label("why") + v->reason + "\n" +
                         report_label("changes") + v->changes + "\n");
  const auto line = [&](const char* label, const std::optional<SizeRow>& row) {
    if (!row) return;
    text += report_label(label) + cluster_in_words(a, *row) + "\n" + report_label("") + in_words(*row) + "\n";
    if (const auto times = row->doubt.announced(row->step_time))
      text += broken_lines(
          fmt::format("{}its figures are announced, some of them as ranges: by these a step takes {} to {}, "
                      "and not only {}\n",
                      report_label(""), show(Seconds{times->front()}), show(Seconds{times->back()}),
                      show(Seconds{row->step_time})));
  };
  text += network_line(a) + island_lines(a);
  if (a.growth) text += broken_lines(report_label("growing") + a.growth->reason + "\n");
  line("cheapest", a.cheapest);
  if (a.cheapest && a.fastest && nodes_in_words(*a.fastest) != nodes_in_words(*a.cheapest)) line("fastest", a.fastest);
  if (a.largest && a.cheapest && a.largest->model != a.cheapest->model) line("largest", a.largest);
  const char* simulated_sizes = a.unfinished.empty() ? "" : "of the simulated sizes ";
  if (a.nearest)
    text += fmt::format("{}{}meets deadline and budget{}. The nearest:\n", report_label("none"), simulated_sizes,
                        a.purchase ? " by a purchase" : "");
  if (!a.why_none.empty()) text += wrapped(report_label("limit"), {a.why_none}, "");
  const std::string left_out = a.left_out.empty() ? "" : wrapped("left out: ", a.left_out, ",");
  if (!a.cheapest && !a.nearest && a.rows.empty())
    text += report_label("none") + (a.unfinished.empty() && a.not_searched.empty() && !left_out.empty()
                                        ? "of the node types could be judged\n"
                                        : "was searched to its end\n");
  if (!a.cheapest && !a.nearest && !a.rows.empty())
    text += fmt::format("{}{}\n", report_label("none"),
                        a.why_none.empty() ? fmt::format("{}has a plan", simulated_sizes) : "has room at the site");
  line("nearest", a.nearest);
  std::vector<std::string> rooms;
  for (const SiteLimit& limit : a.site_limits) rooms.push_back(room_in_words(limit));
  if (!rooms.empty()) text += wrapped(report_label("site"), rooms, ",");
  if (const auto& row = a.cheapest ? a.cheapest : a.nearest; row && !a.purchase)
    text += rent_lines(row->rents, a.currency, a.days * 86400);
  text += ownership_lines(a) + fewest_lines(a) + headroom_line(a);
  if (a.rows.empty()) return text + not_searched_lines(a) + left_out;
  const bool has_racks = std::ranges::any_of(a.rows, [](const SizeRow& r) { return r.racks > 0; });
  TextTable table{"meets", ">nodes", ">GPUs"};
  if (has_racks) table.add_column("racks");
  for (const char* name : {"days", "in time", "goodput", "MFU", "GPU-hours", "MWh"}) table.add_column(name);
  table.add_column(a.currency);
  table.add_column("plan", false);
  const bool one_model =
      std::ranges::all_of(a.rows, [&a](const SizeRow& r) { return r.model == a.rows.front().model; });
  const bool has_terms = std::ranges::any_of(a.rows, [](const SizeRow& r) {
    return !terms_in_words(r.terms).empty() && r.terms != "on demand" && r.terms != "electricity";
  });
  for (const SizeRow& r : a.rows) {
    const std::string where = (one_model ? "" : r.model + " on ") + nodes_in_words(r);
    if (!r.good()) {
      std::vector<std::string>& cells = table.rows.emplace_back(std::vector<std::string>{"no", where, counted(r.gpus)});
      cells.resize(table.head.size() - 1, "-");
      cells.push_back(r.error);
      continue;
    }
    const char* meets = !r.meets ? "no" : r.pareto ? "best" : "yes";
    std::vector<std::string>& cells = table.rows.emplace_back(std::vector<std::string>{meets, where, counted(r.gpus)});
    if (has_racks) cells.push_back(r.racks > 0 ? counted(r.racks) : "-");
    cells.push_back(days_cell(r.end_days));
    cells.push_back(r.on_time ? probability_text(*r.on_time, a.confidence) : "-");
    cells.push_back(fmt::format("{:.1f} %", r.paid_goodput * 100));
    cells.push_back(fmt::format("{:.1f} %", r.mfu * 100));
    cells.push_back(size_money(r.paid_gpu_hours));
    cells.push_back(r.paid_energy > 0 ? size_money(r.paid_energy / (1e3 * kJoulesOfKwh)) : "-");
    cells.push_back(a.currency.empty() ? "-" : size_money(r.cost));
    cells.push_back((has_terms ? r.terms + ": " : "") + in_words(r));
  }
  constexpr std::size_t most = 120;  // columns
  text += "\n" + table.text("  ", most) +
          "  meets: whether it meets deadline and budget (best: also, no other is both faster and cheaper)\n"
          "  in time: probability that a measured training ends by the deadline; -: not known\n" +
          (has_terms ? "  plan: the way to pay that costs least of those that meet both, and the plan; days and " +
                           a.currency + " are of this way\n"
                     : "") +
          (std::ranges::any_of(a.rows, [](const SizeRow& r) { return r.wait_days > 0; })
               ? "  days: with the delivery of bought nodes\n"
               : "") +
          network_legend(a);
  text += token_table(a) + network_table(a) + island_table(a) + choice_table(a) + threshold_table(a);
  if (const std::string limit = search_limit(a); !limit.empty()) text += wrapped("  ", {limit}, "");
  return text + not_searched_lines(a) + left_out;
}

}  // namespace trainyard
