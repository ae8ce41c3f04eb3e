// The switch of a question, the prices of the parts of a network, and the compared networks in words and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "models/hardware/node_parts.hpp"
#include "scenarios/src/answer/csv_cell.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/sizing/size_networks.hpp"
#include "scenarios/src/sizing/size_payments.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

const Node* fabric_of(const Node& document) {
  const Node* cluster = document.find("cluster");
  const Node* fabric = cluster ? cluster->find("fabric") : nullptr;
  return fabric && fabric->kind == Node::Kind::map ? fabric : nullptr;
}

JsonFields<SizeCables> size_cables_fields() {
  using C = SizeCables;
  return JsonFields<C>()
      .value("optical", "", &C::optical, "true: optical; false: copper")
      .value("length_m", "m", &C::length, "length of the cable, as sold")
      .value("count", "", &C::count, "number of such cables")
      .value("price", "money", &C::price, "price of one")
      .when(&C::price, "if cables have a price")
      .value("owned", "", &C::owned, "number of those that are owned already")
      .when(&C::owned, "with prices.purchase.owned");
}

JsonFields<SizeNetwork> size_network_fields() {
  using N = SizeNetwork;
  const auto is_good = [](const N& n) { return n.good(); };
  const auto has_cost = [](const N& n) { return n.cost.has_value(); };
  const char *if_possible = "if there is such a network", *with_prices = "with prices of switches and cables";
  return JsonFields<N>()
      .value(
          "network", "", &N::network,
          "kind of network: nonblocking, N:1 or N leaves and M spines, both also on rails, rail-optimized or rail-only")
      .value("model", "", &N::model, "name of the model")
      .value("node", "", &N::node, "name of the node type")
      .value("nodes", "", &N::nodes, "number of nodes")
      .value("beside", "", &N::beside, "type of owned nodes that train in the same job")
      .value("beside_nodes", "", &N::beside_nodes, "number of these nodes")
      .when_since(
          "beside", [](const N& n) { return !n.beside.empty(); }, "if there are such nodes")
      .value("gpus", "", &N::gpus, "number of devices of all nodes")
      .value("chosen", "", &N::chosen, "whether it costs least of those that meet deadline and budget")
      .value("missed", "", &N::missed, "conditions that it misses: deadline, budget, or both; empty: none")
      .value("terms", "", &N::terms, "way to pay for the nodes")
      .when(&N::terms, "without --purchase, with prices of rents")
      .value("error", "", &N::error, "why there is no such network")
      .when([](const N& n) { return !n.good(); }, "if there is none")
      .value("fabric", "", &N::fabric, "the network as `cluster.fabric` of a scenario takes it")
      .value("switches", "", &N::switches, "number of switches")
      .value("spines", "", &N::spines, "number of those that have no port to a node")
      .value("rails", "", &N::rails, "number of rails, one for each adapter of a node; 0: leaves take whole nodes")
      .value("oversubscription", "", &N::oversubscription, "cables from a leaf to nodes over those to spines")
      .value("ports", "", &N::ports, "ports of switches that have a cable")
      .value("cables", "", &N::cables, "number of cables, to nodes and between switches")
      .value("nodes_of_rack", "", &N::nodes_of_rack, "most nodes of a rack in the plan of the cables")
      .list("by_length", &N::by_length, size_cables_fields(), "the cables by their length")
      .when_since("fabric", is_good, if_possible)
      .value("owned_switches", "", &N::owned_switches, "number of switches that are owned already")
      .when(&N::owned_switches, "with prices.purchase.owned")
      .value("price_of_switches", "money", &N::price_of_switches, "price of the bought switches")
      .when(&N::price_of_switches, "if switches have a price")
      .value("price_of_cables", "money", &N::price_of_cables, "price of the bought cables")
      .when(&N::price_of_cables, with_prices)
      .value("network_cost", "money", &N::network_cost,
             "price of switches and cables; without --purchase, the cost of owning them during the training")
      .value("cost", "money", &N::cost,
             "purchase price of nodes, storage and network; without --purchase, rents and network during the training")
      .when_since("network_cost", has_cost, with_prices)
      .value("step_time_s", "s", &N::step_time, "time of one step on this network")
      .value("plan", "", &N::plan, "the plan in words")
      .value("has_own_plan", "", &N::has_own_plan,
             "another plan than on the cluster's own network is faster on this one")
      .when_since("step_time_s", is_good, if_possible)
      .value("racks", "", &N::racks, "racks of nodes and switches")
      .when(&N::racks, "if the site says what a rack takes")
      .value("loss", "share", &N::loss, "step time over that on the nonblocking network, less 1")
      .when(&N::loss, "if both are possible")
      .value("days", "d", &N::days, "days until the training ends, including the delivery of bought nodes")
      .when(is_good, if_possible)
      .value("on_time_probability", "share", &N::on_time, "probability that the training ends by the deadline")
      .when(&N::on_time, "if the stack is one that can be measured");
}
}  // namespace

QuestionSwitch read_question_switch(const SizeQuestion& question) {
  QuestionSwitch all;
  all.name = question.options().network_switch;
  Place place = Place::named("--switch");
  const Node* fabric = fabric_of(question.document());
  const Node* stated = fabric ? fabric->find("switch") : nullptr;
  if (all.name.empty() && stated && stated->kind == Node::Kind::scalar) {
    all.name = stated->scalar;
    place = stated->place;
  }
  const int priced_ports = question.prices().purchase.switch_ports;
  if (!all.name.empty()) {
    const NetworkSwitch type =
        read_network_switch(question.catalog().resolve("switch", Node::scalar_node(all.name, place)));
    all.ports = type.ports;
    all.rack_units = type.rack_units;
    all.keys.push_back("switch: " + all.name);
  } else if (priced_ports > 0) {
    all.ports = priced_ports;
  }
  for (const char* key : {"switch_latency", "distance", "sharp"})
    if (const Node* value = fabric ? fabric->find(key) : nullptr; value && value->kind == Node::Kind::scalar)
      if (std::string_view(key) != "switch_latency" || question.options().network_switch.empty())
        all.keys.push_back(fmt::format("{}: {}", key, value->scalar));
  return all;
}

std::optional<double> NetworkPrices::of_switches(double count) const {
  if (const auto named = prices_.parts.switch_named(type_.name); named && !type_.name.empty())
    return named->second * count;
  const Purchase& purchase = prices_.purchase;
  if (purchase.network_switch.empty() || purchase.switch_ports != type_.ports) return std::nullopt;
  return Purchase::price_of(purchase.network_switch, count);
}

std::optional<double> NetworkPrices::of_cable(const SizeCables& cable, double count) const {
  const Purchase& purchase = prices_.purchase;
  if (!purchase.cables_by_length.empty()) return purchase.price_of_length(cable.length);
  const double bought = std::max(1.0, count - purchase.owned_cables);
  if (!purchase.cable.empty()) return Purchase::price_of(purchase.cable, bought) / bought;
  const Prices::Parts& parts = prices_.parts;
  if (!parts.cables) return std::nullopt;
  return cable.optical ? parts.optical + parts.optical_metre * cable.length
                       : parts.copper + parts.copper_metre * cable.length;
}

std::string NetworkPrices::missing() const {
  std::vector<std::string> words;
  if (!of_switches(1))
    words.push_back(type_.name.empty()
                        ? "prices.purchase.switch"
                        : fmt::format("prices.switch.{} (or prices.purchase.switch with switch_ports: {})", type_.name,
                                      type_.ports));
  if (prices_.purchase.cable.empty() && !prices_.parts.cables) words.emplace_back("prices.purchase.cable");
  return fmt::format("{}", fmt::join(words, " and "));
}

const SizeNetwork* SizeNetworks::choice() const {
  const auto found = std::ranges::find_if(rows, &SizeNetwork::chosen);
  return found == rows.end() ? nullptr : &*found;
}

const SizeNetwork* SizeNetworks::find(const SizeRow& cluster, const std::string& kind) const {
  const auto found = std::ranges::find_if(
      rows, [&](const SizeNetwork& each) { return each.network == kind && each.has_nodes_of(cluster); });
  return found == rows.end() ? nullptr : &*found;
}

JsonFields<SizeNetworks> size_networks_fields() {
  using N = SizeNetworks;
  return JsonFields<N>()
      .value("switch", "", &N::switch_name, "type of switch")
      .when(&N::switch_name, "if the question names one")
      .value("switch_ports", "", &N::switch_ports, "number of ports of a switch")
      .value("unpriced", "", &N::unpriced, "prices that are missing")
      .when(&N::unpriced, "if networks have no price")
      .value("reason", "", &N::reason, "the choice with its figures, or why there is none")
      .list("rows", &N::rows, size_network_fields(), "the compared networks, by cluster");
}

std::string network_reason(const SizeAnswer& answer, const SizeNetworks& networks, const SizeNetwork* full) {
  const std::string conditions = answer.budget > 0 ? "deadline and budget" : "the deadline";
  const auto money = [&](double amount) { return with_commas(amount) + " " + answer.currency; };
  const auto cluster = [&](const SizeNetwork& n) {
    const bool is_plain = n.terms.empty() || n.terms == answer.plain_terms;
    return nodes_in_words(n) + (is_plain ? "" : " (" + n.terms + ")");
  };
  if (!networks.unpriced.empty())
    return fmt::format("no choice without {}: the table has parts and loss only", networks.unpriced);
  const SizeNetwork* best = networks.choice();
  if (!best) {
    std::set<std::string> missed;
    for (const SizeNetwork& row : networks.rows)
      if (row.good()) missed.insert(row.missed);
    return fmt::format("no network of the table meets all conditions{}",
                       missed.empty() ? "" : fmt::format(": each misses the {}", fmt::join(missed, " or the ")));
  }
  const auto cheapest = [&](auto&& counts) {
    const SizeNetwork* least = nullptr;
    for (const SizeNetwork& row : networks.rows)
      if (counts(row) && row.good() && row.cost && row.missed.empty() && (!least || *row.cost < *least->cost))
        least = &row;
    return least;
  };
  // A cluster without a network, such as a single node, may cost less.
  const bool is_decision = answer.cheapest && answer.cheapest->has_nodes_of(*best);
  std::string text = fmt::format("{} on {} costs {}, the least {}that meets {}", best->network, cluster(*best),
                                 money(*best->cost), is_decision ? "" : "of these networks ", conditions);
  if (best->network == kFullNetwork) {
    const SizeNetwork* next = cheapest([&](const SizeNetwork& row) { return &row != best; });
    if (!next) return text + "; no other network of the table meets " + conditions;
    return text + fmt::format("; the next, {} on {}, costs {}", next->network, cluster(*next), money(*next->cost));
  }
  if (!full) return text;
  const double saved = *full->cost - *best->cost;
  text += fmt::format("; a step takes {:.4g} s, {} against the {:.4g} s of nonblocking, which costs {} {}",
                      best->step_time, signed_percent(best->step_time / full->step_time - 1, 2), full->step_time,
                      money(std::abs(saved)), saved < 0 ? "less" : "more");
  const SizeNetwork* of_full = cheapest([](const SizeNetwork& row) { return row.network == kFullNetwork; });
  if (!of_full) return text + "; the table has no nonblocking network that meets " + conditions;
  if (cluster(*of_full) != cluster(*best))
    return text +
           fmt::format("; with nonblocking, {} would be the choice for {}", cluster(*of_full), money(*of_full->cost));
  if (of_full->plan != best->plan)
    return text + fmt::format("; its plan is another one than that of nonblocking ({})", of_full->plan);
  return text + "; nodes and plan are those of nonblocking";
}

std::string size_networks_csv(const SizeNetworks& networks) {
  const JsonFields<SizeNetwork> fields = size_network_fields();
  std::vector<std::string> keys;
  for (const FieldRow& field : fields.rows())
    if (!field.path.starts_with("by_length")) keys.push_back(field.path);
  std::string text = fmt::format("{}\n", fmt::join(keys, ","));
  for (const SizeNetwork& row : networks.rows) text += csv_line(fields.json(row), keys);
  return text;
}

void drop_beaten_networks(std::vector<SizeNetwork>& networks, const std::vector<std::string>& requested) {
  const std::vector<SizeNetwork> all = networks;
  const auto beats = [](const SizeNetwork& a, const SizeNetwork& b) {
    return a.good() && a.cost && b.cost && a.has_nodes_of(b) && *a.cost <= *b.cost && a.step_time <= b.step_time &&
           (*a.cost < *b.cost || a.step_time < b.step_time);
  };
  std::erase_if(networks, [&](const SizeNetwork& row) {
    const bool is_tried = !row.chosen && std::ranges::count(requested, row.network) == 0;
    return is_tried && std::ranges::any_of(all, [&](const SizeNetwork& other) { return beats(other, row); });
  });
}

void sort_networks(std::vector<SizeNetwork>& networks, const std::vector<SizeRow>& clusters) {
  const auto place = [&clusters](const SizeNetwork& row) {
    return std::ranges::find_if(clusters, [&row](const SizeRow& each) { return row.has_nodes_of(each); }) -
           clusters.begin();
  };
  sort_stably(networks, [&place](const SizeNetwork& a, const SizeNetwork& b) { return place(a) < place(b); });
}

}  // namespace trainyard
