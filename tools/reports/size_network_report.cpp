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
  const std::int64_t bought_switches = network->switches - network->owned_switches;
  TextTable table{"part", ">length", ">count", ">price of one", ">price"};
  table.rows.push_back({"switch", "", count_words(network->switches, network->owned_switches),
                        network->price_of_switches && bought_switches > 0
                            ? size_money(*network->price_of_switches / static_cast<double>(bought_switches))
                            : "-",
                        money(network->price_of_switches)});
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
  return fmt::format("\n  parts of {} on {} x {}, with {} in a rack\n", network->network, network->nodes, network->node,
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
      words.push_back(fmt::format("{}{} x {}", words.size() == 1 ? "except those of " : "", r.nodes, r.node));
  return wrapped("  ", words, ",");
}

std::string network_table(const SizeAnswer& a) {
  if (!a.networks || a.networks->rows.empty()) return "";
  const SizeNetworks& all = *a.networks;
  const bool priced = all.unpriced.empty();
  TextTable table{"", "network", ">nodes", ">switches", ">spines", ">cables"};
  const bool has_racks = std::ranges::any_of(all.rows, [](const SizeNetwork& n) { return n.racks > 0; });
  if (has_racks) table.add_column("racks");
  if (priced) {
    table.add_column(a.currency);
    table.add_column("in all");
  }
  for (const char* title : {"step", "loss", "days"}) table.add_column(title);
  table.add_column("misses", false);
  for (const SizeNetwork& n : all.rows) {
    table.rows.push_back(
        {n.chosen ? "*" : "", n.network,
         fmt::format("{} x {}{}", n.nodes, n.node, n.terms == a.plain_terms ? "" : terms_in_words(n.terms))});
    std::vector<std::string>& cells = table.rows.back();
    if (!n.good()) {
      cells.resize(table.head.size() - 1, "-");
      cells.push_back(n.error);
      continue;
    }
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
                         "  switches: {}{} ports each. spines: those without a node. loss: step time over "
                         "that on nonblocking, less 1\n",
                         type, all.switch_ports);
  if (std::ranges::any_of(all.rows, &SizeNetwork::has_own_plan))
    text += "  ~: with a plan that was searched for this network; the others have the plan of their cluster\n";
  if (priced)
    text += a.purchase ? fmt::format("  * the choice. {}: price of switches and cables. in all: {}\n", a.currency,
                                     a.total_years > 0 ? "what the cluster costs " + purchase_words(a)
                                                       : "with nodes and storage")
                       : fmt::format(
                             "  * the choice. {}: cost of owning switches and cables during the training. in all: "
                             "with the rent of the nodes\n",
                             a.currency);
  return text + cable_table(a);
}

}  // namespace trainyard
