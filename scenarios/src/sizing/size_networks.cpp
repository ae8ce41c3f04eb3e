// The networks between the nodes of a cluster, with their costs and the step time on each.
#include "scenarios/src/sizing/size_networks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/hardware/network_switch.hpp"
#include "sim/process/job.hpp"
#include "topologies/analysis/network_design.hpp"

namespace trainyard {
namespace {

constexpr const char* kFullNetwork = "nonblocking";  ///< the network to which the others are compared
/// Ports of a switch if the question states none: those of NVIDIA's Quantum-2 (catalog, switches).
constexpr int kPortsOfSwitch = 64;
constexpr double kYear = kHoursOfYear * 3600;  ///< s

const Node* fabric_of(const Node& document) {
  const Node* cluster = document.find("cluster");
  const Node* fabric = cluster ? cluster->find("fabric") : nullptr;
  return fabric && fabric->kind == Node::Kind::map ? fabric : nullptr;
}

/// The switches of a question, and the keys of its fabric that hold for any network.
struct QuestionSwitch {
  std::string name;  // empty: no type of switch is named
  int ports = kPortsOfSwitch;
  std::vector<std::string> keys;  // "switch: quantum-2"
};

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
    all.ports = read_network_switch(question.catalog().resolve("switch", Node::scalar_node(all.name, place))).ports;
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

/// The prices of switches and cables of a question.
class NetworkPrices {
 public:
  NetworkPrices(const Prices& prices, const QuestionSwitch& type) : prices_(prices), type_(type) {}

  std::optional<double> of_switches(double count) const {
    for (const auto& [name, price] : prices_.parts.switches)
      if (!type_.name.empty() && same_name(name, type_.name)) return price * count;
    const Purchase& purchase = prices_.purchase;
    if (purchase.network_switch.empty() || purchase.switch_ports != type_.ports) return std::nullopt;
    return Purchase::price_of(purchase.network_switch, count);
  }
  std::optional<double> of_cables(double count) const {
    if (prices_.purchase.cable.empty()) return std::nullopt;
    return Purchase::price_of(prices_.purchase.cable, count);
  }
  /// Names the prices that are missing; "": none.
  std::string missing() const {
    std::vector<std::string> words;
    if (!of_switches(1))
      words.push_back(type_.name.empty() ? "prices.purchase.switch"
                                         : fmt::format("prices.switch.{} (or prices.purchase.switch with switch_ports: "
                                                       "{})",
                                                       type_.name, type_.ports));
    if (!of_cables(1)) words.emplace_back("prices.purchase.cable");
    return fmt::format("{}", fmt::join(words, " and "));
  }

 private:
  const Prices& prices_;
  const QuestionSwitch& type_;
};

class NetworkComparison {
 public:
  NetworkComparison(SizeAnswer& answer, const SizeQuestion& question)
      : answer_(answer), question_(question), type_(read_question_switch(question)), prices_(question.prices(), type_) {
    networks_.switch_name = type_.name;
    networks_.switch_ports = type_.ports;
    networks_.unpriced = prices_.missing();
  }

  void compare() {
    const std::vector<SizeRow> clusters = compared_clusters();
    for (const SizeRow& cluster : clusters) compare_on(cluster);
    choose();
    if (clusters.empty())
      networks_.reason = "no cluster of several nodes that switches join was found";
    else
      networks_.reason = reason();
    add_to_verdict();
    answer_.networks = std::move(networks_);
  }

 private:
  SizeAnswer& answer_;
  const SizeQuestion& question_;
  const QuestionSwitch type_;
  const NetworkPrices prices_;
  SizeNetworks networks_;
  std::vector<SizeNetwork> full_networks_;  // the nonblocking network of each cluster
  Node full_document_;                      // scenario of the last one
  std::vector<Node> documents_;             // scenarios of all rows

  NodeType type_of(const SizeRow& row) const {
    return read_node(question_.catalog().resolve("node", Node::scalar_node(row.node)), question_.catalog());
  }

  /// Returns the clusters in time, the cheapest first. A cluster may miss the budget: a cheaper network may save it.
  std::vector<SizeRow> compared_clusters() const {
    std::vector<SizeRow> all;
    const auto& best = answer_.cheapest ? answer_.cheapest : answer_.nearest;
    const auto is_joined = [&](const SizeRow& row) {
      return row.good() && row.nodes > 1 && best && row.model == best->model && type_of(row).fabric.empty();
    };
    for (const SizeRow& row : answer_.rows)
      if (is_joined(row) && meets_deadline(answer_, row)) all.push_back(row);
    std::stable_sort(all.begin(), all.end(),
                     [&](const SizeRow& a, const SizeRow& b) { return size_cost(answer_, a) < size_cost(answer_, b); });
    if (all.size() > kClustersOfNetworks) all.resize(kClustersOfNetworks);
    if (all.empty() && best && is_joined(*best)) all.push_back(*best);
    return all;
  }

  void compare_on(const SizeRow& cluster) {
    full_networks_.push_back(network(cluster, kFullNetwork).first);
    const SizeNetwork& full = full_networks_.back();
    for (const std::string& kind : question_.options().networks) {
      auto [row, document] = kind == kFullNetwork ? std::pair(full, full_document_) : network(cluster, kind);
      if (row.good() && full.good()) row.loss = row.step_time / full.step_time - 1;
      networks_.rows.push_back(std::move(row));
      documents_.push_back(std::move(document));
    }
  }

  /// Simulates the plan of a cluster on one network. Returns its row and its scenario.
  std::pair<SizeNetwork, Node> network(const SizeRow& cluster, const std::string& kind) {
    end_if_interrupted();
    if (question_.options().progress)
      question_.options().progress(fmt::format("networks: {} on {} x {}", kind, cluster.nodes, cluster.node));
    SizeNetwork row{kind, cluster.model, cluster.node, cluster.nodes, cluster.gpus};
    SizeRow trained = cluster;
    try {
      const NetworkDesign design =
          design_network(read_network_kind(kind, "--network"), {cluster.nodes, type_of(cluster).hcas, type_.ports});
      row.fabric = design.fabric(type_.keys);
      row.switches = design.switches;
      row.ports = design.ports();
      row.cables = design.cables();
      Node document = cluster.document;
      set_field(document, "cluster.fabric", row.fabric);
      question_.take_answer(std::move(document), trained);
      row.step_time = trained.step_time;
      row.days = days_to_end(answer_, trained);
      row.on_time = on_time_probability(answer_, trained, trained.days(), delivery_days(answer_, trained));
      add_costs(trained, row);
      row.missed = missed_by(trained, row);
    } catch (const UserError& e) {
      row.error = e.what();
    }
    if (kind == kFullNetwork) full_document_ = trained.document;
    return {std::move(row), std::move(trained.document)};
  }

  /// Adds the costs of a network: its price if clusters are bought, else the cost of owning it during the training,
  /// beside the rent of the nodes.
  void add_costs(const SizeRow& trained, SizeNetwork& row) const {
    const std::optional<double> switches = prices_.of_switches(static_cast<double>(row.switches)),
                                cables = prices_.of_cables(static_cast<double>(row.cables));
    if (!switches || !cables) return;
    double price = *switches + *cables;
    if (answer_.purchase) {
      if (!trained.ownership) return;
      const auto& parts = trained.ownership->purchase_prices;
      row.cost = trained.ownership->price() - parts.at("switches") - parts.at("cables") + price;
    } else {
      price *= question_.prices().purchase.yearly_share() * trained.time / kYear;
      row.cost = size_cost(answer_, trained) + price;
    }
    row.network_cost = price;
  }

  std::string missed_by(const SizeRow& trained, const SizeNetwork& row) const {
    const bool late = !meets_deadline(answer_, trained),
               expensive = answer_.budget > 0 && row.cost && *row.cost > answer_.budget;
    return late ? (expensive ? "deadline and budget" : "deadline") : expensive ? "budget" : "";
  }

  void choose() {
    SizeNetwork* best = nullptr;
    for (SizeNetwork& row : networks_.rows)
      if (row.good() && row.cost && row.missed.empty() && (!best || *row.cost < *best->cost)) best = &row;
    if (!best) return;
    best->chosen = true;
    networks_.document = documents_[static_cast<std::size_t>(best - networks_.rows.data())];
  }

  /// Adds to the verdict of a purchase what its clusters cost with the chosen network: the verdict before it counts the
  /// network of the question.
  void add_to_verdict() {
    const SizeNetwork* best = networks_.choice();
    if (!best || !answer_.purchase || !answer_.verdict) return;
    const auto& judged = answer_.cheapest;
    const bool is_same = judged && judged->node == best->node && judged->nodes == best->nodes &&
                         money_words(size_cost(answer_, *judged), "") == money_words(*best->cost, "");
    if (!is_same)
      answer_.verdict->decision +=
          fmt::format(" With the network {}, {} x {} cost {} and meet {}.", best->network, best->nodes, best->node,
                      money_words(*best->cost, answer_.currency), conditions());
  }

  std::string conditions() const { return answer_.budget > 0 ? "deadline and budget" : "the deadline"; }
  std::string money(double amount) const { return with_commas(amount) + " " + answer_.currency; }

  /// States the choice with its figures: beside the nonblocking network of its cluster, else beside the next choice.
  std::string reason() const {
    if (!networks_.unpriced.empty())
      return fmt::format("no choice without {}: the table has parts and loss only", networks_.unpriced);
    const SizeNetwork* best = networks_.choice();
    if (!best) return "no network of the table meets " + conditions();
    std::string text = fmt::format("{} on {} x {} costs {}, the least that meets {}", best->network, best->nodes,
                                   best->node, money(*best->cost), conditions());
    if (best->network != kFullNetwork) {
      const auto full = std::ranges::find_if(full_networks_, [&](const SizeNetwork& other) {
        return other.node == best->node && other.nodes == best->nodes;
      });
      if (full == full_networks_.end() || !full->good()) return text;
      const double saved = *full->cost - *best->cost;
      return text + fmt::format("; a step takes {:.4g} s, {} against the {:.4g} s of nonblocking, which costs {} {}",
                                best->step_time, signed_percent(best->step_time / full->step_time - 1, 2),
                                full->step_time, money(std::abs(saved)), saved < 0 ? "less" : "more");
    }
    const SizeNetwork* next = nullptr;
    for (const SizeNetwork& row : networks_.rows)
      if (&row != best && row.good() && row.missed.empty() && (!next || *row.cost < *next->cost)) next = &row;
    if (!next) return text + "; no other network of the table meets " + conditions();
    return text + fmt::format("; the next, {} on {} x {}, costs {}", next->network, next->nodes, next->node,
                              money(*next->cost));
  }
};

}  // namespace

const SizeNetwork* SizeNetworks::choice() const {
  const auto found = std::ranges::find_if(rows, &SizeNetwork::chosen);
  return found == rows.end() ? nullptr : &*found;
}

void check_networks(const SizeQuestion& question) {
  for (const std::string& kind : question.options().networks) read_network_kind(kind, "--network");
  if (!question.options().networks.empty()) read_question_switch(question);
}

void compare_networks(SizeAnswer& answer, const SizeQuestion& question) {
  NetworkComparison(answer, question).compare();
}

}  // namespace trainyard
