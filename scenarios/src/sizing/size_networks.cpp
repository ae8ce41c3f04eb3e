// The networks between the nodes of a cluster, with their costs and the step time on each.
#include "scenarios/src/sizing/size_networks.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <set>

#include "scenarios/src/sizing/size_growth.hpp"
#include "scenarios/src/sizing/size_payments.hpp"
#include "sim/process/job.hpp"

namespace trainyard {
namespace {

constexpr double kYear = kHoursOfYear * 3600;  ///< s
class NetworkComparison {
 public:
  NetworkComparison(SizeAnswer& answer, const SizeQuestion& question, const NetworkSearch& search = {})
      : answer_(answer),
        question_(question),
        search_(search),
        type_(read_question_switch(question)),
        prices_(question.prices(), type_),
        own_rows_(answer.rows) {
    networks_.switch_name = type_.name;
    networks_.switch_ports = type_.ports;
    networks_.unpriced = prices_.missing();
  }

  void compare() {
    const std::vector<SizeRow> clusters = compared_clusters();
    for (std::size_t i = 0; i < clusters.size(); ++i) {
      if (i < kClustersOfNetworks)
        for (const std::string& kind : question_.options().networks) add_row(clusters[i], kind);
      else
        add_possible(clusters[i]);
      choose();
    }
    if (question_.options().tries_spines) try_spines(clusters);
    search_plans();
    drop_beaten_networks(networks_.rows, question_.options().networks);
    // Another cluster may be the cheapest if all count the same network. Then its networks are compared, too.
    while (const SizeNetwork* counted = counted_network()) {
      count(counted->network);
      const SizeRow* missing = answer_.cheapest ? own_row_not_compared(*answer_.cheapest) : nullptr;
      if (!missing) break;
      for (const std::string& kind : question_.options().networks) add_row(*missing, kind);
      choose();
    }
    sort_networks(networks_.rows, clusters);
    if (clusters.empty())
      networks_.reason = "no cluster of several nodes that switches join was found";
    else
      networks_.reason =
          network_reason(answer_, networks_, full_of_choice()) +
          (answer_.counted_network.empty() ? "; all other figures are those without --network"
                                           : fmt::format("; all other figures count {}", answer_.counted_network)) +
          kept_fabrics();
    answer_.networks = std::move(networks_);
  }

  SizeRow row_on(const SizeRow& cluster, const std::string& kind) {
    return is_joined(cluster) ? joined(cluster, kind).row : cluster;
  }

 private:
  SizeAnswer& answer_;
  const SizeQuestion& question_;
  const NetworkSearch search_;
  const QuestionSwitch type_;
  const NetworkPrices prices_;
  const std::vector<SizeRow> own_rows_;  // rows that count the network of the question
  SizeNetworks networks_;

  /// A cluster whose plan was simulated on a network.
  struct JoinedCluster {
    SizeNetwork network;
    SizeRow row;
  };
  std::map<std::string, JoinedCluster> joined_;  // indexed by name_of
  std::set<std::string> searched_;               // names of those for which a plan was searched

  static std::string name_of(const ClusterName& row, const std::string& kind) {
    return fmt::format("{} on {}, {}", row.model, nodes_in_words(row), kind);
  }

  /// Returns true if switches join the nodes of a cluster.
  bool is_joined(const SizeRow& row) const { return row.good() && JoinedNodes(row, question_).are_joined(); }

  /// Returns a cluster before its plan is simulated on a network.
  static JoinedCluster begun(const SizeRow& cluster, const std::string& kind) {
    JoinedCluster joined{{}, cluster};
    static_cast<ClusterName&>(joined.network) = cluster;
    joined.network.network = kind;
    joined.network.terms.clear();
    joined.network.gpus = cluster.gpus;
    return joined;
  }

  /// Returns the clusters in time, the cheapest first. A cluster may miss the budget: a cheaper network may save it.
  std::vector<SizeRow> compared_clusters() const {
    std::vector<SizeRow> all;
    const auto& best = answer_.cheapest ? answer_.cheapest : answer_.nearest;
    const auto counts = [&](const SizeRow& row) { return best && row.model == best->model && is_joined(row); };
    for (const SizeRow& row : own_rows_)
      if (counts(row) && meets_deadline(answer_, row)) all.push_back(row);
    std::ranges::stable_sort(
        all, [&](const SizeRow& a, const SizeRow& b) { return size_cost(answer_, a) < size_cost(answer_, b); });
    if (!networks_.unpriced.empty() && all.size() > kClustersOfNetworks) all.resize(kClustersOfNetworks);
    if (all.empty() && best && counts(*best)) all.push_back(*best);
    return all;
  }

  /// Returns the row with the network of the question if the networks of its cluster were not compared, but could be.
  const SizeRow* own_row_not_compared(const SizeRow& cluster) const {
    const auto is_same = [&](const ClusterName& other) { return other.has_nodes_of(cluster); };
    if (std::ranges::any_of(networks_.rows, is_same) || !is_joined(cluster)) return nullptr;
    const auto found = std::ranges::find_if(own_rows_, is_same);
    return found == own_rows_.end() ? nullptr : &*found;
  }

  /// States the fabrics that owned nodes keep beside the networks of the table; "": there are none.
  std::string kept_fabrics() const {
    std::set<std::string> fabrics;
    for (const SizeNetwork& row : networks_.rows)
      if (const int cables = JoinedNodes(row, question_).border_cables(); cables > 0)
        fabrics.insert(fmt::format(
            "the {} x {} that are owned keep their fabric, which {} with that of the bought nodes", row.beside_nodes,
            row.beside, counted_noun(cables, "cable") + (cables == 1 ? " joins" : " join")));
    return fabrics.empty() ? "" : fmt::format("; {}", fmt::join(fabrics, "; "));
  }

  /// Adds a cluster with a network to the table.
  SizeNetwork& add_row(const SizeRow& cluster, const std::string& kind) {
    SizeNetwork row = joined(cluster, kind).network;
    const SizeNetwork& full = joined(cluster, kFullNetwork).network;
    if (row.good() && full.good()) row.loss = row.step_time / full.step_time - 1;
    for (const SizeNetwork& other : networks_.rows)
      if (other.good() && row.good() && other.has_nodes_of(row) && other.fabric == row.fabric)
        row.error = fmt::format("the same switches and cables as {}", other.network);
    return networks_.rows.emplace_back(std::move(row));
  }

  /// Returns the least cost that a cluster can have with a network: with its own step time, which is that of the question's
  /// network. No value: it has no such network.
  std::optional<double> cost_with(const SizeRow& cluster, const std::string& kind) const try {
    JoinedCluster joined = begun(cluster, kind);
    const JoinedNodes nodes(cluster, question_);
    take_design(nodes.design(kind, type_.ports), nodes, joined);
    const std::optional<Payment> payment = best_payment(answer_, joined.row);
    return payment ? std::optional(payment->cost) : std::nullopt;
  } catch (const UserError&) {
    return std::nullopt;
  }

  /// Returns true if a cluster may cost less with a network than the choice does.
  bool may_win(const SizeRow& cluster, const std::string& kind) const {
    const std::optional<double> cost = cost_with(cluster, kind);
    const SizeNetwork* best = networks_.choice();
    return cost && (!best || *cost < *best->cost);
  }

  /// Adds the networks with which a cluster could cost less than the choice.
  void add_possible(const SizeRow& cluster) {
    for (const std::string& kind : question_.options().networks)
      if (may_win(cluster, kind)) {
        add_row(cluster, kind);
        choose();
      }
  }

  /// Tries numbers of leaves and spines on the cluster of the choice, without rails, and with them if rails are compared. If
  /// there is no choice yet, tries the cheapest clusters until there is one.
  void try_spines(const std::vector<SizeRow>& clusters) {
    const bool has_rails = std::ranges::any_of(question_.options().networks, [](const std::string& kind) {
      return kind.starts_with("rail-") || kind.ends_with("on rails");
    });
    for (std::size_t i = 0; i < clusters.size() && i < kClustersOfNetworks && networks_.unpriced.empty(); ++i) {
      const SizeNetwork* choice = networks_.choice();
      const SizeRow cluster = choice ? own_row(*choice) : clusters[i];
      const NetworkRequest request = JoinedNodes(cluster, question_).request(type_.ports);
      if (request.ports < request.nodes * request.adapters) try_spines(cluster, efficient_networks(request, false));
      if (request.adapters > 1 && has_rails) try_spines(cluster, efficient_networks(request, true));
      if (networks_.choice()) return;
    }
  }

  /// Tries these networks, or evenly spread ones of a long list and the neighbours of the choice among them. Another number
  /// of switches or another oversubscription may be faster or slower, so no tried network tells about the others.
  void try_spines(const SizeRow& cluster, const std::vector<std::string>& kinds) {
    const std::size_t stride = (kinds.size() + kMostSpines - 1) / kMostSpines;
    for (std::size_t i = 0; i < kinds.size(); i += stride) try_network(cluster, kinds[i]);
    const SizeNetwork* choice = networks_.choice();
    const auto place = choice ? std::ranges::find(kinds, choice->network) : kinds.end();
    if (stride < 2 || place == kinds.end()) return;
    const auto middle = static_cast<std::size_t>(place - kinds.begin());
    for (std::size_t i = middle - std::min(middle, stride - 1); i < std::min(kinds.size(), middle + stride); ++i)
      try_network(cluster, kinds[i]);
  }

  /// Adds a cluster with a network to the table, unless a network of the table costs no more and loses no time.
  void try_network(const SizeRow& cluster, const std::string& kind) {
    const std::optional<double> cost = cost_with(cluster, kind);
    const bool is_useless = std::ranges::any_of(networks_.rows, [&](const SizeNetwork& row) {
      if (!row.has_nodes_of(cluster) || !row.good()) return false;
      return row.network == kind || (row.cost && cost && *row.cost <= *cost && row.loss && *row.loss <= 0);
    });
    if (!cost || is_useless) return;
    if (!add_row(cluster, kind).good()) networks_.rows.pop_back();
    choose();
  }

  /// Returns the row of a network's cluster with the network of the question.
  const SizeRow& own_row(const SizeNetwork& network) const {
    return *std::ranges::find_if(own_rows_, [&](const SizeRow& row) { return network.has_nodes_of(row); });
  }

  /// Searches a plan for each network that loses time with the plan of its cluster, as long as it could be the choice.
  void search_plans() {
    constexpr double least_loss = 0.005;
    for (int searches = 0; search_ && searches < kSearchesOfNetworks; ++searches) {
      SizeNetwork* next = nullptr;
      for (SizeNetwork& row : networks_.rows) {
        if (!row.good() || !row.cost || row.loss.value_or(0) < least_loss || searched_.contains(name_in_table(row)))
          continue;
        const bool has_room = row.missed.find("racks") == std::string::npos;
        const bool is_promising = row.chosen || (has_room && may_win(own_row(row), row.network));
        if (is_promising && (!next || *row.cost < *next->cost)) next = &row;
      }
      if (!next) return;
      const std::string name = name_in_table(*next);
      searched_.insert(name);
      JoinedCluster& cluster = joined_.at(name);
      std::optional<SizeRow> found = search_(cluster.row, cluster.network.fabric);
      if (!found || !found->good() || found->step_time >= cluster.row.step_time) continue;
      const double full = next->step_time / (1 + *next->loss);
      cluster = with_plan(*found, cluster.network.network, cluster.row.phases);
      cluster.network.has_own_plan = found->plan != next->plan;
      *next = cluster.network;
      next->loss = next->step_time / full - 1;
      choose();
    }
  }

  /// Simulates the plan of a cluster on one network, or finds what was simulated before.
  const JoinedCluster& joined(const SizeRow& cluster, const std::string& kind) {
    const auto [place, is_new] = joined_.try_emplace(name_of(cluster, kind));
    if (is_new) place->second = simulated(cluster, kind);
    return place->second;
  }

  JoinedCluster simulated(const SizeRow& cluster, const std::string& kind) {
    end_if_interrupted();
    if (question_.options().progress)
      question_.options().progress(fmt::format("networks: {} on {}", kind, nodes_in_words(cluster)));
    JoinedCluster joined = begun(cluster, kind);
    SizeNetwork& network = joined.network;
    const JoinedNodes nodes(cluster, question_);
    NetworkDesign design;
    try {
      design = nodes.design(kind, type_.ports);
      network.fabric = design.fabric(type_.keys);
      Node document = cluster.document;
      set_field(document, path_of_fabric(document, cluster.node), network.fabric);
      question_.take_answer(std::move(document), joined.row);
    } catch (const UserError& e) {
      network.error = e.what();
      joined.row = cluster;
      return joined;
    }
    take_design(design, nodes, joined);
    take_phases(joined.row, phases_on_network(question_, network, cluster.phases));
    judge(joined);
    return joined;
  }

  /// Returns a cluster whose plan was searched on a network, with the costs of this network. Its phases have the plans that
  /// they had before.
  JoinedCluster with_plan(const SizeRow& row, const std::string& kind, const std::vector<SizePhase>& phases) const {
    JoinedCluster joined = begun(row, kind);
    const JoinedNodes nodes(row, question_);
    const NetworkDesign design = nodes.design(kind, type_.ports);
    joined.network.fabric = design.fabric(type_.keys);
    take_design(design, nodes, joined);
    take_phases(joined.row, phases);
    judge(joined);
    return joined;
  }

  /// Takes the parts of a network and their costs.
  void take_design(const NetworkDesign& design, const JoinedNodes& nodes, JoinedCluster& joined) const {
    SizeNetwork& network = joined.network;
    joined.row.network = network.network;
    network.switches = design.switches;
    network.spines = design.spines();
    network.rails = design.rails;
    network.oversubscription = design.oversubscription();
    network.ports = design.ports();
    network.cables = design.cables();
    network.nodes_of_rack = nodes.nodes_of_rack();
    network.by_length = nodes.cables(design);
    add_cables(network);
    add_costs(joined.row, network);
    const Site& site = question_.site();
    if (joined.row.racks > 0 && site.rack_units > 0 && type_.rack_units > 0)
      network.racks = joined.row.racks + nodes.racks_of_switches(network.switches, type_);
  }

  /// Takes time and cost of a cluster on a network, and the conditions that it misses.
  void judge(JoinedCluster& joined) const {
    SizeNetwork& network = joined.network;
    network.step_time = joined.row.step_time;
    network.plan = joined.row.plan;
    const std::optional<Payment> payment = best_payment(answer_, joined.row);
    if (!payment) {
      network.days = joined.row.days();
      return;
    }
    network.days = payment->end();
    network.on_time = payment->on_time(answer_);
    network.missed = missed_by(answer_, *payment);
    if (const int racks = question_.site().racks; racks > 0 && network.racks > racks)
      network.missed += network.missed.empty() ? "racks" : " and racks";
    if (network.network_cost) network.cost = payment->cost;
    if (network.network_cost && !answer_.purchase) *network.network_cost *= payment->days / joined.row.days();
    network.terms = payment->terms == kPurchase ? "" : payment->terms;
  }

  /// Prices the cables, and finds the switches and cables that are owned.
  void add_cables(SizeNetwork& network) const {
    for (SizeCables& cables : network.by_length)
      cables.price = prices_.of_cable(cables, static_cast<double>(network.cables));
    const Purchase& purchase = question_.prices().purchase;
    if (!networks_.unpriced.empty()) return;
    if (type_.ports == purchase.switch_ports)
      network.owned_switches = std::min<std::int64_t>(network.switches, purchase.owned_switches);
    std::int64_t owned_cables = purchase.owned_cables;  // the shortest ones are the owned ones
    for (SizeCables& cables : network.by_length) owned_cables -= cables.owned = std::min(cables.count, owned_cables);
  }

  /// Adds the costs of a network to its row and to that of its cluster. If clusters are bought, that is its price.
  /// Otherwise it is the cost of owning the network during the training, beside the rent of the nodes.
  void add_costs(SizeRow& cluster, SizeNetwork& network) const {
    network.price_of_switches = prices_.of_switches(static_cast<double>(network.switches - network.owned_switches));
    double cables = 0;
    for (const SizeCables& each : network.by_length)
      if (each.price) cables += *each.price * static_cast<double>(each.count - each.owned);
    if (!networks_.unpriced.empty()) return;
    network.price_of_cables = cables;
    const Purchase& purchase = question_.prices().purchase;
    if (cluster.ownership) cluster.ownership->set_network(purchase, *network.price_of_switches, cables);
    if (answer_.purchase) {
      if (!cluster.ownership) return;
      if (cluster.ownership->owned_nodes >= cluster.all_nodes()) {  // they have a network
        network.price_of_switches.reset();
        network.price_of_cables.reset();
        for (SizeCables& each : network.by_length) each.price.reset();
      }
      const auto& parts = cluster.ownership->purchase_prices;
      cluster.network_cost = parts.at("switches") + parts.at("cables");
      network.network_cost = cluster.network_cost;
      return;
    }
    const double per_second = (*network.price_of_switches + cables) * purchase.yearly_share() / kYear;
    network.network_cost = per_second * cluster.time;
    network.cost = network.network_cost;  // without rents
    if (cluster.money <= 0) return;
    cluster.network_cost = *network.network_cost;
    cluster.money += *network.network_cost;
    for (RentCost& rent : cluster.rents) rent.training += per_second * rent.time;
  }

  void choose() {
    SizeNetwork* best = nullptr;
    for (SizeNetwork& row : networks_.rows) {
      row.chosen = false;
      if (row.good() && row.cost && row.missed.empty() && (!best || *row.cost < *best->cost)) best = &row;
    }
    if (!best) return;
    best->chosen = true;
    networks_.document = joined_.at(name_in_table(*best)).row.document;
  }

  static std::string name_in_table(const SizeNetwork& network) { return name_of(network, network.network); }

  /// Returns the network that all figures count: the choice, else the cheapest one in time. Null: neither exists.
  const SizeNetwork* counted_network() const {
    if (const SizeNetwork* best = networks_.choice()) return best;
    const SizeNetwork* least = nullptr;
    for (const SizeNetwork& row : networks_.rows)
      if (row.good() && row.cost && row.missed == "budget" && (!least || *row.cost < *least->cost)) least = &row;
    return least;
  }

  /// Judges all clusters again, with this network between their nodes.
  void count(const std::string& kind) {
    std::vector<SizeRow> rows, others;
    for (const SizeRow& row : own_rows_) rows.push_back(is_joined(row) ? joined(row, kind).row : row);
    for (const SizeNetwork& network : networks_.rows)
      if (network.good() && network.network != kind) others.push_back(joined_.at(name_in_table(network)).row);
    answer_.rows = std::move(rows);
    answer_.other_networks = std::move(others);
    answer_.counted_network = kind;
    answer_.networks = networks_;
    judge_sizes(answer_, question_.prices());
    keep_fewest();
  }

  /// Keeps the fewest nodes that meet the deadline only if they do so on the counted network.
  void keep_fewest() {
    std::erase_if(answer_.fewest, [this](const SizeFewest& fewest) {
      return std::ranges::none_of(
          answer_.rows, [&](const SizeRow& row) { return row.has_nodes_of(fewest) && meets_deadline(answer_, row); });
    });
  }

  /// Returns the nonblocking network of the choice's cluster. Null: there is no choice, or no such network.
  const SizeNetwork* full_of_choice() {
    const SizeNetwork* best = networks_.choice();
    if (!best) return nullptr;
    SizeNetwork of_cluster = *best;
    of_cluster.network = kFullNetwork;
    const auto found = joined_.find(name_in_table(of_cluster));
    return found == joined_.end() || !found->second.network.good() ? nullptr : &found->second.network;
  }
};

}  // namespace

void check_networks(const SizeQuestion& question) {
  for (const std::string& kind : question.options().networks) read_network_kind(kind, "--network");
  if (!question.options().networks.empty()) read_question_switch(question);
}

void compare_networks(SizeAnswer& answer, const SizeQuestion& question, const NetworkSearch& search) {
  NetworkComparison(answer, question, search).compare();
}

SizeRow row_on_network(const SizeRow& row, const std::string& kind, SizeAnswer answer, const SizeQuestion& question) {
  return NetworkComparison(answer, question).row_on(row, kind);
}

}  // namespace trainyard
