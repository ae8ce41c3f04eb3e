// The networks of an answer of `trainyard size` on a screen.
#include <fmt/format.h>

#include <algorithm>

#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/reports/size_cells.hpp"

namespace trainyard {
namespace {

/// The switches and cables of the counted network, with their prices, which sum to its price.
std::string cable_table(const SizeAnswer& a) {
  const SizeRow* row = a.cheapest ? &*a.cheapest : a.nearest ? &*a.nearest : nullptr;
  const SizeNetwork* network = a.networks->choice();
  if (!network && row) network = a.networks->find(*row, a.counted_network);
  if (!network || network->by_length.empty()) return "";
  const auto money = [](const std::optional<double>& amount) { return amount ? size_money(*amount) : "-"; };
  const auto count_words = [](std::int64_t count, std::int64_t owned) {
    return counted(count) + (owned > 0 ? fmt::format(", {} of them owned", owned) : "");
  };
  TextTable table{"part", ">length", ">count", ">price of one", ">price"};
  const std::int64_t bought = network->switches - network->owned_switches;
  std::optional<double> of_one;
  if (network->price_of_switches && bought > 0) of_one = *network->price_of_switches / static_cast<double>(bought);
  std::int64_t owned = network->owned_switches;  // the leaves are the owned ones first
  for (const auto& [part, count] :
       {std::pair{"leaf switch", network->switches - network->spines}, {"spine switch", network->spines}}) {
    if (count == 0) continue;
    const std::int64_t owned_here = std::min(owned, count);
    owned -= owned_here;
    std::optional<double> price;
    if (of_one) price = *of_one * static_cast<double>(count - owned_here);
    table.rows.push_back({part, "", count_words(count, owned_here), money(of_one), money(price)});
  }
  std::optional<double> sum = network->price_of_switches;
  for (const SizeCables& cables : network->by_length) {
    std::optional<double> price;
    if (cables.price) price = *cables.price * static_cast<double>(cables.count - cables.owned);
    table.rows.push_back({cables.optical ? "optical cable" : "copper cable", fmt::format("{} m", exact(cables.length)),
                          count_words(cables.count, cables.owned), money(cables.price), money(price)});
    if (sum && price)
      *sum += *price;
    else
      sum.reset();
  }
  if (sum) table.rows.push_back({"sum", "", "", "", money(sum)});
  return fmt::format("\n  parts of {} on {}, with {} in a rack\n", network->network, nodes_in_words(*network),
                     counted_noun(network->nodes_of_rack, "node")) +
         table.text("  ");
}

}  // namespace

std::string network_line(const SizeAnswer& a) {
  return a.networks ? broken_lines(report_label("network") + a.networks->reason + "\n") : "";
}

std::string network_legend(const SizeAnswer& a) {
  if (a.counted_network.empty()) return "";
  std::vector<std::string> words{fmt::format("all figures count the network {}", a.counted_network)};
  for (const SizeRow& r : a.rows)
    if (r.good() && r.network.empty())
      words.push_back((words.size() == 1 ? "except those of " : "") + nodes_in_words(r));
  return wrapped("  ", words, ",");
}

std::string network_table(const SizeAnswer& a) {
  if (!a.networks || a.networks->rows.empty()) return "";
  const SizeNetworks& all = *a.networks;
  const bool priced = all.unpriced.empty();
  const auto cluster = [&a](const SizeNetwork& n) {
    return nodes_in_words(n) + (n.terms == a.plain_terms ? "" : terms_in_words(n.terms));
  };
  const bool is_one =
      std::ranges::all_of(all.rows, [&](const SizeNetwork& n) { return cluster(n) == cluster(all.rows.front()); });
  TextTable table{"", is_one ? "network of " + cluster(all.rows.front()) : "network"};
  if (!is_one) table.add_column("nodes");
  for (const char* title : {"ratio", "switches", "spines", "cables"}) table.add_column(title);
  const bool has_racks = std::ranges::any_of(all.rows, [](const SizeNetwork& n) { return n.racks > 0; });
  if (has_racks) table.add_column("racks");
  if (priced) {
    table.add_column(a.currency);
    table.add_column("in all");
  }
  for (const char* title : {"step", "loss", "days"}) table.add_column(title);
  table.add_column("misses", false);
  for (const SizeNetwork& n : all.rows) {
    std::vector<std::string>& cells = table.rows.emplace_back(std::vector<std::string>{n.chosen ? "*" : "", n.network});
    if (!is_one) cells.push_back(cluster(n));
    if (!n.good()) {
      cells.resize(table.head.size() - 1, "-");
      cells.push_back(n.error);
      continue;
    }
    cells.push_back(fmt::format("{:.3g}:1", n.oversubscription));
    for (const std::int64_t count : {n.switches, n.spines, n.cables}) cells.push_back(counted(count));
    if (has_racks) cells.push_back(n.racks > 0 ? counted(n.racks) : "-");
    if (priced) {
      cells.push_back(n.network_cost ? size_money(*n.network_cost) : "-");
      cells.push_back(n.cost ? with_commas(*n.cost) : "-");
    }
    cells.push_back(fmt::format("{:.4g} s{}", n.step_time, n.has_own_plan ? " ~" : ""));
    cells.push_back(n.loss ? signed_percent(*n.loss, 2) : "-");
    cells.push_back(days_cell(n.days));
    cells.push_back(n.missed);
  }
  constexpr std::size_t most = 120;  // columns
  const std::string type = all.switch_name.empty() ? "" : all.switch_name + ", ";
  std::string text = "\n" + table.text("  ", most) +
                     fmt::format(
                         "  switches: {}{} ports each. spines: those without a node\n  ratio: cables from a leaf to "
                         "nodes over those to spines. loss: step time over that on nonblocking, less 1\n",
                         type, all.switch_ports);
  if (const auto rails = std::ranges::find_if(all.rows, [](const SizeNetwork& n) { return n.rails > 0; });
      rails != all.rows.end())
    text += fmt::format("  rails: {}, one for each adapter of a node, with leaves of its own\n", rails->rails);
  if (std::ranges::any_of(all.rows, &SizeNetwork::has_own_plan))
    text += "  ~: with a plan that was searched for this network; the others have the plan of their cluster\n";
  if (priced)
    text += a.purchase ? fmt::format("  * the choice. {}: price of switches and cables. in all: {}\n", a.currency,
                                     a.total_years > 0 ? "what the cluster costs " + purchase_words(a)
                                                       : "with nodes and storage")
                       : fmt::format(
                             "  * the choice. {}: cost of owning switches and cables during the training. in all: with "
                             "the rent of the nodes\n",
                             a.currency);
  return text + cable_table(a);
}

}  // namespace trainyard
