#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/energy/prices.hpp"
#include "models/reading/document.hpp"
#include "scenarios/src/sizing/size_nodes.hpp"
#include "scenarios/src/studies/measured/step_doubt.hpp"
#include "scenarios/src/studies/sweeps/study_shard.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// The nodes that train a model, by their types and numbers, and the way to pay for them.
struct ClusterName {
  std::string model = {}, node = {};
  int nodes = 0;
  std::string network = {};  ///< kind of network that its figures count ("2:1"); empty: that of the question
  std::string terms = {};    ///< way to pay; empty: there are no prices
  std::string beside = {};   ///< type of owned nodes in the same job; empty: there are none
  int beside_nodes = 0;      ///< number of these nodes
  /// Returns true if both train the same model on the same types of nodes, beside the same owned ones: they differ in their
  /// number of nodes at most.
  bool has_types_of(const ClusterName& other) const {
    return model == other.model && node == other.node && beside == other.beside && beside_nodes == other.beside_nodes;
  }
  /// Returns true if both train the same model on the same nodes.
  bool has_nodes_of(const ClusterName& other) const { return has_types_of(other) && nodes == other.nodes; }
  int all_nodes() const { return nodes + beside_nodes; }
};

/// A part of a training, on the nodes that are delivered by then.
struct SizePhase {
  int nodes = 0;                        ///< nodes that train
  double begin_days = 0, end_days = 0;  ///< days from today on
  double share = 0;                     ///< part of the training that it does
  double alone_days = 0;                ///< days that the whole training takes on these nodes
  double alone_energy = 0;              ///< energy of the whole training on these nodes, J; 0: unknown
  double alone_money = 0;               ///< cost of owning these nodes for that time; 0: they have no price
  double step_time = 0;                 ///< s
  std::string plan;                     ///< the plan in words
  std::string scenario;                 ///< the whole training on these nodes, as `run` takes it
};

/// A model on a number of nodes of one type, with the best plan found there. Nodes of another type that are owned already
/// may train in the same job. `terms` are those by which it is judged (see best_payment).
struct SizeRow : ClusterName {
  int gpus = 0;  ///< devices of all nodes of the job
  /// Parts of the training before all of its nodes are delivered, on those that are there; empty: it waits for all of them.
  std::vector<SizePhase> phases;
  std::int64_t batch = 0;             ///< samples of a step
  std::vector<std::int64_t> batches;  ///< batches that were compared by their time per sample; empty: a single one
  std::string error;                  ///< why the training is impossible; empty: it is possible
  bool too_large = false;             ///< no plan fits into the GPUs' memory
  bool refused = false;  ///< there is no plan at all: the batch does not divide, or the reader refuses all plans
  std::string plan;      ///< description of the plan in words
  bool proved = false;   ///< no plan of the space is faster
  double headroom = 0;   ///< share of a GPU's memory that plans must leave free
  double peak = 0;       ///< peak memory of the fullest GPU, bytes
  std::vector<double> memory_interval = {};  ///< 80 % interval of the memory of the fullest GPU, bytes
  double risk = 0;                           ///< probability that a GPU runs out of memory
  bool meets = false;                        ///< true: it meets deadline and budget
  double cost = 0;                           ///< cost of the training, or purchase price, or device-hours
  double end_days = 0, wait_days = 0;  ///< days until the training ends, and those until all its nodes are delivered
  double paid_goodput = 1, paid_gpu_hours = 0;  ///< goodput and device-hours on these terms
  double paid_energy = 0;  ///< energy of the site on these terms, with that of spot interruptions, J; 0: unknown
  bool pareto = false;     ///< no row is both faster and cheaper; without prices, fewer GPU-hours are cheaper
  double parameters = 0, tokens = 0, steps = 0;  ///< `tokens` and `steps`: those of the whole training
  StepDoubt doubt;                               ///< doubt of the step time
  std::optional<double> on_time;   ///< probability that it meets the deadline. No value: the step has no interval
  double step_time = 0, time = 0;  ///< s; `time`: time of the training with failures and checkpoints
  double mfu = 0, goodput = 1;
  double gpu_hours = 0, energy = 0;    ///< `energy`: of the site, J; 0: unknown
  int racks = 0, nodes_of_rack = 0;    ///< racks of its nodes, and most nodes of a rack; 0: the site does not say
  std::string rack_limit;              ///< key of `site` that limits the nodes of a rack: "rack_units"
  double money = 0;                    ///< cost in SizeAnswer::currency; 0: no prices
  std::optional<Ownership> ownership;  ///< No value: its nodes have no purchase price
  std::vector<RentCost> rents;  ///< the training by each kind of rent; empty: there are only rents on demand, or none
  /// Part of its cost for its network: the price of switches and cables if clusters are bought, else the cost of owning
  /// them during the training.
  double network_cost = 0;
  Node document;  ///< the scenario with that plan
  bool good() const { return error.empty(); }
  double days() const { return time / kSecondsOfDay; }
  double samples() const { return steps * static_cast<double>(batch); }
  double tokens_per_joule() const { return paid_energy > 0 ? tokens / paid_energy : 0; }
  /// Returns the cost of a million tokens on the terms by which it is judged; of a purchase, that of owning the cluster
  /// for the time of the training. 0: there are no prices.
  double per_million() const;
};

/// The fewest nodes of a type that were evaluated and meet the deadline.
struct SizeFewest : ClusterName {
  int unit = 1;  ///< `nodes` is a multiple of it
  int late = 0;  ///< the largest smaller number that was evaluated and is late; 0: no smaller number has a plan
};

/// A lower bound of one node type, by its plain plans: one tensor rank or those of a node, one sample a micro-batch. Its number of
/// nodes is the last one that was bounded; 0: none could be.
struct SizeBound : ClusterName {
  double days = 0;       ///< no plain plan on these nodes ends earlier, without failures; 0: none fits
  double cost = 0;       ///< no plain plan costs less: price of the nodes, rents on demand, or device-hours
  bool in_time = false;  ///< `days` meets the deadline
};

/// A value of a price, of the deadline or of the budget beyond which another cluster is the cheapest. The name is that of
/// the cheapest cluster beyond the threshold; node empty: none of the evaluated ones.
struct SizeThreshold : ClusterName {
  std::string quantity;  ///< "gpu_hour of h100-sxm5-80gb", "deadline", "tokens", "power of the site in kW"
  /// "more than" or "fewer than" the stated nodes: such a number, which was not simulated, may be the decision. Else empty.
  std::string number;
  double value = 0, threshold = 0;  ///< the value in the question, and the value beyond which the decision changes
};

/// Numbers of nodes of a type that were not simulated, though one of them may be a decision. `nodes`: the one to simulate
/// next.
struct SizeGap : ClusterName {
  int from = 0;  ///< the simulated number below, or above: the fewest in time, or the last that follow without a gap
  int most = 0;  ///< the largest number of the gap; 0: the gap is below `from`
  double least_cost = 0;  ///< no number of the gap costs less; 0: not known
  int efficient = 0;      ///< simulated number whose node-days bound those of the gap; 0: `from`
  bool is_above() const { return most > 0; }
  const char* words() const { return is_above() ? "more than" : "fewer than"; }
};

/// A cluster and a way to pay for it: "on demand", "reserved 12 months", "spot", "electricity" or "purchase". Money is in
/// the currency of the prices.
struct SizeChoice : ClusterName {
  int gpus = 0;
  double days = 0;  ///< days until the training ends, including the delivery of bought nodes
  std::optional<std::array<double, 2>> likely_days;  ///< 80 % interval. No value: the step has no interval
  std::optional<double> on_time;                     ///< probability that it meets the deadline. No value: likewise
  double money = 0;  ///< cost of the training; of a purchase, the cost of owning it for the time of the training
  double tokens = 0, tokens_per_joule = 0;  ///< tokens of the training; 0 a joule: the energy is not known
  double per_million() const { return tokens > 0 ? 1e6 * money / tokens : 0; }  ///< cost of a million tokens
  double purchase = 0;  ///< purchase price; 0: nothing is bought
  double total = 0;     ///< cost of owning it for the years of depreciation, always in use; 0: nothing is bought
  /// Cost of the hours of a reserved term that the training uses; 0: no other hours are paid.
  double used_money = 0;
  double power = 0;      ///< mean power of the site, W; 0: unknown
  double risk = 0;       ///< probability that a GPU runs out of memory
  std::string missed;    ///< conditions that it misses: "deadline", "budget", "deadline and budget"; empty: none
  std::string quantity;  ///< name of the price that its cost depends on; empty: it depends on none
  double price = 0;      ///< value of that price
  std::optional<double> break_even;  ///< price at which it costs as much as the decision. No value: at none
  bool decision = false;             ///< true: the verdict takes this choice
};

/// The decision in sentences.
struct SizeVerdict {
  std::string decision, reason, changes;  ///< changes: conditions that would change the decision
  /// Probability that the decision costs less than the next choice. No value: no doubt of a step moves the order.
  std::optional<double> sure_order;
};

/// Cables of one length in a network.
struct SizeCables {
  bool optical = false;  ///< false: copper
  double length = 0;     ///< m, as sold
  std::int64_t count = 0;
  std::optional<double> price = {};  ///< price of one. No value: it has none
  std::int64_t owned = 0;            ///< number of those that are owned already
};

/// A network between the nodes of a cluster ("nonblocking", "2:1", "16 leaves and 4 spines", "rail-only"), with the
/// cluster's plan simulated on it. `terms` is empty if the nodes are bought, or have no price.
struct SizeNetwork : ClusterName {
  int gpus = 0;
  std::string error = {};                            ///< reason why there is no such network; empty: there is one
  std::string fabric = {};                           ///< as the scenario's `cluster.fabric` takes it
  std::int64_t switches = 0, ports = 0, cables = 0;  ///< ports: those of switches that have a cable
  std::int64_t spines = 0;                           ///< switches that have no port to a node
  std::int64_t rails = 0;                            ///< adapters of a node, each on leaves of its own; 0: no rails
  double oversubscription = 1;                       ///< cables from a leaf to nodes over those to spines
  int racks = 0;                                     ///< racks of nodes and switches; 0: the site does not say
  std::string plan = {};                             ///< the plan on this network, in words
  bool has_own_plan = false;                         ///< another plan than that of the cluster was found for it
  int nodes_of_rack = 0;                             ///< most nodes of a rack in the plan of the cables
  std::vector<SizeCables> by_length = {};            ///< the cables, the shortest first
  std::int64_t owned_switches = 0;                   ///< switches that are owned already
  std::optional<double> price_of_switches = {};      ///< price of the bought switches. No value: they have no price
  std::optional<double> price_of_cables = {};        ///< price of the bought cables. No value: they have no price
  std::optional<double> network_cost = {};           ///< cost of switches and cables. No value: they have no price
  std::optional<double> cost = {};                   ///< cost of nodes and network. No value: likewise
  double step_time = 0;                              ///< s
  std::optional<double> loss = {};  ///< step time over that on the nonblocking network, less 1. No value: there is none
  double days = 0;                  ///< days until the training ends, including the delivery of bought nodes
  std::optional<double> on_time = {};  ///< probability that it meets the deadline. No value: the step has no interval
  std::string missed = {};             ///< conditions that it misses: "deadline", "budget", "deadline and budget"
  bool chosen = false;                 ///< true: it costs least of those that meet all conditions
  bool good() const { return error.empty(); }
};

/// Networks for the best clusters of an answer.
struct SizeNetworks {
  std::string switch_name;  ///< type of switch in the catalog; empty: one of `switch_ports` ports
  int switch_ports = 0;
  std::string unpriced;           ///< prices that are missing; empty: none
  std::string reason;             ///< the choice and its reason, or why there is none
  std::vector<SizeNetwork> rows;  ///< clusters, each with all kinds of network
  Node document;                  ///< the scenario of the chosen network
  const SizeNetwork* choice() const;
  /// Returns the row of a cluster with a kind of network. Null: the table has none.
  const SizeNetwork* find(const SizeRow& cluster, const std::string& kind) const;
};

/// The ways to train on nodes that are owned and on bought ones of another type.
enum class IslandKind : std::uint8_t {
  owned_alone,   ///< the owned nodes train, and nothing is bought
  more_owned,    ///< the owned nodes and bought ones of the same type train
  bought_alone,  ///< the bought nodes train; the owned ones are left to other work
  one_job,       ///< both train one model in one job
  two_jobs       ///< each type trains a model of its own on a part of the tokens, and both end at the same time
};
const char* name_of(IslandKind);

/// One of these ways. Figures are those of `run` of its scenarios.
struct SizeIsland {
  IslandKind kind = IslandKind::owned_alone;
  std::string node;                       ///< type of the nodes beside the owned ones; empty: there are none
  int nodes = 0;                          ///< number of these nodes
  int bought_nodes = 0, bought_gpus = 0;  ///< nodes and devices to buy
  int gpus = 0;                           ///< devices that train
  std::string error;                      ///< why there is no training; empty: there is one
  std::string plan;                       ///< the plan in words; of two jobs, that of the nodes beside the owned ones
  double step_time = 0;                   ///< s; of two jobs, that of the nodes beside the owned ones
  double owned_step_time = 0;             ///< step of the job on the owned nodes, s; 0: there is no such job
  double owned_share = 0;                 ///< part of the samples that the job on the owned nodes trains on
  double samples_per_s = 0;               ///< samples a second of all jobs
  std::optional<double>
      of_two_jobs;     ///< samples per second over those of two jobs on the same nodes. No value: not known
  double days = 0;     ///< days until the last job ends, including the delivery of bought nodes
  double cost = 0;     ///< purchase price
  std::string missed;  ///< conditions that it misses: "deadline", "budget", "deadline and budget"; empty: none
  std::vector<std::string> scenarios;  ///< its jobs as `run` takes them, that of the owned nodes first
  bool good() const { return error.empty(); }
};

/// Nodes that are owned, and what could be bought beside them.
struct SizeIslands {
  std::string node;              ///< type of the owned nodes
  int nodes = 0, gpus = 0;       ///< their number, and that of their devices
  std::string reason;            ///< the cheapest way to train one model, and the others, in figures
  std::vector<SizeIsland> rows;  ///< ways to train, by the type that is bought
};

/// A training that begins on the first delivered nodes, and goes on with more as they are delivered.
struct SizeGrowth {
  std::string node;               ///< type of the nodes
  int nodes = 0;                  ///< their number after the last delivery
  double end_days = 0;            ///< days until the training ends
  double full_days = 0;           ///< days until it ends if it waits for all nodes
  std::string reason;             ///< both in a sentence
  std::vector<SizePhase> phases;  ///< in the order of time
};

struct SizeAnswer {
  std::string scenario, currency;  ///< currency empty: no prices
  double days = 0, budget = 0;     ///< deadline and budget; budget 0: none
  double work = 0;                 ///< limit of work of each search, operations; 0: no limit
  double confidence = 0;           ///< least probability of meeting the deadline; 0: the predicted time meets it
  double search_seconds = 0;       ///< limit of wall time of each search, s; 0: none. Else the answer may vary
  std::string unfinished;          ///< place at which a signal ended the search; empty: the answer is complete
  std::vector<SizeRow> rows;       ///< sorted by model, node type and number of nodes
  /// Kind of network that all figures count, except those of clusters that have no such network. Empty: figures count
  /// the network of the question.
  std::string counted_network;
  std::vector<SizeRow> other_networks;  ///< clusters on the compared networks that are not counted
  bool purchase = false;                ///< clusters are bought: cost and budget are purchase prices
  /// Years of use for which the cost of owning a bought cluster is its cost, which decides. 0: the purchase price decides.
  double total_years = 0;
  std::string plain_terms = "on demand";  ///< way to pay for rows without a list of rents; or "electricity"
  std::vector<SizeGap> gaps;              ///< sizes that were not simulated; empty: none, or they were not looked for
  std::vector<SizeThreshold> thresholds;  ///< grouped by quantity; empty: there is no cheapest cluster
  /// The best choice for each node type and way to pay, those that meet deadline and budget first, the cheapest first.
  /// Empty: there are no prices.
  std::vector<SizeChoice> choices;
  std::optional<SizeVerdict> verdict;  ///< No value: no cluster was evaluated to its end
  std::vector<SizeFewest> fewest;      ///< one per node type that needs more than one unit
  std::vector<SiteLimit> site_limits;  ///< one per node type; empty: the site has no limits
  std::string why_none;               ///< why no cluster meets deadline and budget; empty: one does, or none has a plan
  std::vector<std::string> left_out;  ///< node types that were not considered, and why
  std::vector<SizeBound> not_searched;  ///< node types that were bounded only, the most promising first
  /// The cluster of the decision, and the fastest one of its model that meets deadline and budget.
  std::optional<SizeRow> cheapest, fastest;
  std::optional<SizeRow> nearest;  ///< if no row does: the fastest, if possible within the budget
  std::optional<SizeRow> largest;  ///< `cheapest` again, since the decision takes the largest model
  /// The best plan that fits without headroom on the nodes of `cheapest` (else `nearest`). No value: it is not faster.
  std::optional<SizeRow> without_headroom;
  std::optional<SizeNetworks> networks;  ///< No value: the question does not ask for networks
  std::vector<SizeIslands> islands;      ///< one per type of owned nodes; empty: none count, or nothing is bought
  std::optional<SizeGrowth> growth;      ///< No value: nothing is bought, or all nodes are delivered at once
};

struct SizeOptions {
  /// Names of node types, or of chips, which mean all node types that have them. Empty: all types of the catalog that
  /// can train the model and, if prices are given, have a price (TPUs: only if prices are given).
  std::vector<std::string> node_types;
  std::vector<std::string> models;  ///< models instead of the scenario's
  int gpus = 0;                     ///< number of GPUs, rounded up to whole nodes; 0: as many as the deadline needs
  double days = 0, budget = 0;
  bool purchase = false;  ///< clusters are bought: the cheapest one has the least purchase price
  bool by_total = false;  ///< the cost of owning a bought cluster for the years of depreciation decides, not its price
  double confidence = 0;  ///< least probability of meeting the deadline, 0.5 to 0.99; 0: the predicted time meets it
  int unit = 0;           ///< numbers of nodes are multiples of it; 0: of 1
  double batch_tolerance = 0;  ///< share by which the batch may differ, to take less time per sample
  /// Tokens of training per parameter (Hoffmann et al. 2022: 20); 0: the scenario's tokens.
  double tokens_per_parameter = 0;
  /// Limit of work of the plan search of one cluster, operations (see PlanSearchOptions::work); 0: kWorkOfCluster.
  double work = 0;
  double search_seconds = 0;          ///< limit of wall time instead of work, s; 0: no such limit
  std::vector<std::string> networks;  ///< kinds of network to compare (see NetworkKind); empty: none
  bool tries_spines = false;          ///< also other numbers of spines than those of these kinds
  std::string network_switch;         ///< type of switch; empty: that of the scenario's fabric, or of the prices
  std::filesystem::path journal;      ///< file of results, to resume the search
  StudyShard shard = {};              ///< share of the pairs of model and node type; the model varies slowest
  std::optional<double> headroom;  ///< share of a GPU's memory that plans must leave free; no value: `default_headroom`
  std::function<void(const std::string&)> progress;
  /// Receives a first answer, before any cluster is searched: the bounds of some node types, the most promising first, the
  /// number of all node types, and a cluster with one simulated plan (null: none was found). Called once more if the bounds
  /// of all types lead to a better one. Not called if there is a single node type.
  std::function<void(const std::vector<SizeBound>&, std::size_t all_types, const SizeRow*)> first_answer;
  /// Receives the answer so far whenever a cluster was searched. Its rows are not sorted.
  std::function<void(const SizeAnswer&)> searched;
};

/// Returns up to `most` of the rows that have a plan: those that meet all conditions, the cheapest first, then the others,
/// the soonest first. Their figures are those of the way to pay by which they are judged.
std::vector<SizeRow> best_rows(const SizeAnswer&, std::size_t most);

/// If neither node types nor limits are named, no further node type is searched once so many clusters were searched.
constexpr std::size_t kClustersOfQuestion = 24;

/// The amount of work that takes roughly ten seconds on one processor.
constexpr double kWorkOfCluster = 5e7;

/// Returns the cost of the way to pay by which a row is judged; 0: there is none.
double size_cost(const SizeAnswer&, const SizeRow&);
/// Returns true if some way to pay for the row meets the deadline, with the requested probability.
bool meets_deadline(const SizeAnswer&, const SizeRow&);
/// Sorts the rows of the answer, marks those that meet deadline and budget, and makes the one decision of the answer: the
/// cheapest way to pay for a cluster that meets both, or the nearest. All other parts of the answer are about it:
/// `cheapest`, `thresholds`, `choices` and `verdict`.
void judge_sizes(SizeAnswer&, const Prices&);

std::string nodes_in_words(int nodes, const std::string& node, int beside_nodes, const std::string& beside);
/// Names the nodes of a cluster: "48 x dgx-h100", "16 x dgx-b200 beside 64 x dgx-h100".
template <class Cluster>
std::string nodes_in_words(const Cluster& c) {
  const std::string words = nodes_in_words(c.nodes, c.node, c.beside_nodes, c.beside);
  if constexpr (requires { c.number; })
    return c.number.empty() ? words : "perhaps " + c.number + " " + words;
  else
    return words;
}
/// Names the types of a cluster's nodes: "dgx-h100", "dgx-b200 beside dgx-h100".
std::string types_in_words(const SizeRow&);

/// Writes money with its currency: "12.72 million USD".
std::string money_words(double money, const std::string& currency);
/// Writes a price or a limit of the question in full, with separators from 10,000 on: "2.535", "350,400".
std::string full_number(double value);
/// Names the network of a cluster if it is not the one that all figures count: " with the network rail-only". Else "".
std::string network_words(const SizeAnswer&, const std::string& network);
/// Writes days with a tenth, and less than a tenth of a day in hours, minutes or seconds: "82.6 days", "17.3 min".
std::string days_words(double days);
/// Writes days for a column whose head says days: "82.6", "17.3 min".
std::string days_cell(double days);
/// Names the quantity of a threshold or choice in words: "hourly rent of h100-sxm5-80gb".
std::string quantity_words(const std::string& quantity);
/// Writes a value of this quantity without its unit: "95.79", "2T".
std::string quantity_value(const std::string& quantity, double value);
/// Writes a value of this quantity with its unit: "95.79 days", "578,889 USD", "93.95 % of the simulated".
std::string quantity_amount(const SizeAnswer&, const std::string& quantity, double value);
const JsonFields<SizeAnswer>& size_fields();
/// Names the cost that decides among purchases: "to buy", "to own for 4 years".
std::string purchase_words(const SizeAnswer&);
/// Returns the table of networks as CSV, with the keys of the JSON as columns.
std::string size_networks_csv(const SizeNetworks&);
/// Writes a row as text, for the journal.
std::string to_text(const SizeRow&);
SizeRow size_row_from_text(const std::string&);

/// Finds the clusters that train a scenario's model on its tokens in time. For each node type it finds the fewest nodes
/// that meet the deadline and lists the numbers evaluated on the way (`find_fewest_nodes`). The scenario's plan gives
/// batch, lengths and `training`, and its `faults` the failures. Of its cluster only the fabric matters. Throws
/// UserError.
SizeAnswer size_clusters(const Node& document, const std::string& name, const SizeOptions&);

}  // namespace trainyard
