#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/reading/document.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// Prices of a cluster that is bought, and the costs of each year in addition. Money is in the currency of the prices.
struct Purchase {
  /// Price of one, by the quantity from which it applies. The quantities ascend, and the first is 1.
  using Steps = std::vector<std::pair<double, double>>;
  std::vector<std::pair<std::string, Steps>> nodes, gpus;  ///< each name with its steps; a node's price comes first
  Steps network_switch, cable;                             ///< empty: the network is not priced
  /// Prices of cables of up to so many metres. The lengths ascend. Empty: all cables cost `cable`.
  std::vector<std::pair<double, double>> cables_by_length;
  int switch_ports = 0;                                  ///< ports of a switch
  Steps storage;                                         ///< price of the storage, by the nodes of the cluster
  double years = 4;                                      ///< years of depreciation, after which it is worth nothing
  double interest = 0;                                   ///< interest of a year, as a share
  double kwh = 0;                                        ///< price of a kWh at the site
  double staff = 0, space = 0;                           ///< a year's cost, as a share of the purchase price
  double kw_month = 0;                                   ///< price of space for one kW of the nodes, per month
  std::vector<std::pair<std::string, int>> owned_nodes;  ///< number of nodes that are owned already, by their type
  /// The fabric that joins the owned nodes of a type, and the cables between it and that of bought nodes, as a scenario
  /// states them (cluster.nodes).
  struct OwnedFabric {
    std::string node;
    Node fabric, links;
  };
  std::vector<OwnedFabric> owned_fabrics;
  int owned_switches = 0, owned_cables = 0;  ///< switches of `switch_ports` and cables that are owned already
  bool owns_storage = false;                 ///< the storage is there already
  /// Nodes that are delivered together. Those of the last batch are all further ones.
  struct Batch {
    int nodes = 0;
    Seconds after;
  };
  std::vector<std::pair<std::string, std::vector<Batch>>> deliveries;  ///< batches of bought nodes, by node or GPU
  Place place;

  /// Returns the price of `count` pieces at the price that applies from this quantity on.
  static double price_of(const Steps&, double count);
  /// Return the price of the switches and cables that a network needs beside the owned ones.
  double price_of_switches(double needed) const;
  double price_of_cables(double needed) const;
  /// Returns the price of the storage of a cluster of so many nodes. 0: it is owned, or has no price.
  double price_of_storage(int all_nodes) const;
  /// Names the keys of `owned` that are no types of nodes: switch, cable, storage.
  static bool is_network_part(const std::string& key) { return key == "switch" || key == "cable" || key == "storage"; }
  /// Returns the price of a cable of so many metres by `cables_by_length`. Throws UserError if all lengths are shorter.
  double price_of_length(double metres) const;
  /// Returns the cost of a year of what is bought, as a share of its price: depreciation, interest, staff and space.
  double yearly_share() const;
  bool has_prices() const { return years > 0 && !(nodes.empty() && gpus.empty()); }
  bool has_price(const std::string& node, const std::string& gpu) const;
  /// Returns the price of one node if `count` nodes are bought. Throws UserError, with the known names, if it has none.
  double node_price(const std::string& node, const std::string& gpu, int gpus_a_node, int count) const;
  /// Returns the fabric of the owned nodes of a type; null: none is stated.
  const OwnedFabric* owned_fabric(const std::string& node) const;
  /// Returns the number of nodes of a type that are owned already: they cost no purchase price.
  int number_owned(const std::string& node) const;
  /// Returns the time until `count` nodes are there: 0 if so many are owned already, or if no delivery is stated.
  Seconds delivery(const std::string& node, const std::string& gpu, int count) const;
  /// Returns how many of `count` nodes are there from which time on: the owned ones at 0 s, then those of each batch. The
  /// last number is `count`.
  std::vector<Batch> arrivals(const std::string& node, const std::string& gpu, int count) const;
};

/// Nodes of one type that are bought.
struct BoughtNodes {
  std::string node, gpu;
  int count = 0, gpus = 0, adapters = 0;  ///< number of nodes; GPUs and adapters of each
  double watts = 0;                       ///< most power of a node, without cooling
};

/// The rent of a cluster for a year, on demand or for a reserved term.
/// Nodes that are owned already have no rent; what they cost in use is part of it, as it is of owning the cluster.
struct YearlyRent {
  std::string terms;
  double unused = 0, used = 0;  ///< rent if the cluster is never used, and if it is always used
};

/// Writes years of depreciation: "1 year", "2.5 years".
std::string years_words(double years);

/// Purchase price of a cluster, and the cost of a year of it.
struct Ownership {
  std::map<std::string, double> purchase_prices;  ///< purchase price by part
  std::map<std::string, double> yearly;           ///< cost of a year in use by part
  std::vector<YearlyRent> rents;  ///< rents of the same GPUs: on demand, then reserved terms; empty: they have none
  double spot_year = 0;           ///< rent of the same GPUs for a year on spot nodes; 0: they have none
  double interest = 0;            ///< interest of a year, as a share
  double years = 4;               ///< years of depreciation
  double yearly_share = 0;        ///< cost of a year as a share of the purchase price (Purchase::yearly_share)
  std::string whole_nodes = {};   ///< "a dgx-a100 of 8 GPUs, of which the cluster has 1"; "": no node has idle GPUs
  int bought_nodes = 0;           ///< number of the nodes that are bought
  int owned_nodes = 0;            ///< number of the nodes that were owned before: the purchase prices are of the others
  double owned_in_use = 0;        ///< yearly cost of the power of the nodes that were owned before, if they are in use
  double owned_unused = 0;        ///< yearly cost of their space by `kw_month`
  double delivery = 0;            ///< time until all nodes are delivered, s
  double training = 0;            ///< cost of the time that the training takes; 0: the scenario gives no length
  double per_million = 0;         ///< cost of a million tokens or samples, if the cluster is always in use

  double price() const;
  double year() const;
  /// Returns the cost of owning it for the years of depreciation, always in use.
  double total() const { return years * year(); }
  /// Lists the parts of `total`: nodes, network and storage, which are depreciated, then interest, power, cooling, staff
  /// and space.
  std::vector<std::pair<std::string, double>> parts_of_total() const;
  /// Returns the purchase price at which a year costs so much. No value: the use alone costs more.
  std::optional<double> price_of_year(double money) const;
  /// Returns the price of a bought node at that purchase price, if the other parts cost as much as now. No value: no node
  /// is bought, or the other parts alone cost more.
  std::optional<double> node_price_of_year(double money) const;
  /// Adds a rent of the bought nodes for a year, which the costs of the owned ones are added to.
  void add_rent(const std::string& terms, double unused, double used);
  /// Replaces the prices of switches and cables, and the costs of a year and of the training that follow from them. If
  /// all nodes are owned already, no network is bought, and nothing changes.
  void set_network(const Purchase&, double price_of_switches, double price_of_cables);
  /// Names a part that has no price, so that it is not counted: "cables, which have no price".
  void leave_out(const std::string& part) { purchase_prices[part] = 0; }
  /// Lists these parts.
  std::vector<std::string> left_out() const;
  /// Years of full use after which its price and running costs equal a rent of the same time, both discounted by the
  /// interest. No value: never.
  std::optional<double> break_even_years(const YearlyRent&) const;
  /// Years of full use after which they equal the least rent. No value: never, or there is no rent.
  std::optional<double> break_even_years() const;
};

/// The least share of the hours, up to all, in which a bought cluster must be in use so that owning it costs no more than
/// any rent, and the rent that is the last to cost as much.
struct BreakEven {
  double use = 0;
  std::string terms;
};
/// Electricity is paid while the cluster is in use, a reserved term also while it is not. No value: a rent costs less at
/// full use, or there is none.
std::optional<BreakEven> break_even(const Ownership&);
/// Returns the rent that costs least at full use. Null: there is none.
const YearlyRent* least_rent(const Ownership&);

/// Values at which owning a cluster costs as much as one rent. Each is changed by itself.
struct RentComparison {
  std::string terms;             ///< "on demand", "reserved 12 months", "spot"
  double year = 0;               ///< rent of a year at full use
  std::optional<double> use;     ///< least share of the hours in use. No value: it costs more even at full use
  std::optional<double> price;   ///< purchase price of the cluster, always in use. No value: its use alone costs more
  std::optional<double> node;    ///< price of a bought node at that purchase price. No value: none, or less than 0
  std::optional<double> months;  ///< months of full use, both discounted by the interest. No value: never
};
/// Compares owning with every rent, those of spot nodes among them, which are taken away.
std::vector<RentComparison> compare_rents(const Ownership&);

/// Numbers of switches and cables of a network.
struct SwitchCount {
  int switches = 0, cables = 0;
};
/// Returns the smallest number of switches of `ports` ports that join `hosts` ports without oversubscription, as a
/// folded Clos network of at most three tiers (Al-Fares et al. 2008), and its cables. Throws UserError at `place` if
/// three tiers are not enough.
SwitchCount full_bisection_network(int hosts, int ports, const Place& place);

/// Computes the costs of owning the cluster. Nodes that are owned already cost no purchase price; if others are bought,
/// the network is bought for all nodes. `watts`: mean power of the devices in use, without cooling; `pue`: power usage
/// effectiveness of the site; `rent_hour`: rent of the bought nodes for an hour. The caller sets `training` and
/// `per_million`.
Ownership cost_of_ownership(const Purchase&, const std::vector<BoughtNodes>&, double watts, double pue,
                            double rent_hour);

/// Prices that the user states. The program itself has none; scenarios/prices-*.yml are examples.
struct Prices {
  std::string currency;
  /// Price of an hour of one GPU or of a whole node.
  struct Rent {
    std::string name;                    ///< type of node, instance of a cloud, or GPU
    double gpu_hour = 0, node_hour = 0;  ///< one of the two is stated
  };
  std::vector<Rent> rents;  ///< rents on demand: hours are paid as they are used
  /// Rents of a reservation or of spot nodes, in place of those on demand.
  struct Offer {
    std::vector<Rent> rents;
    double months = 0;         ///< length of the reserved term; 0: hours are paid as they are used
    double idle = 1;           ///< share of the rent that is paid for unused hours of the term
    Seconds interruption;      ///< mean time between interruptions of one node; 0: nodes are not interrupted
    Seconds restart;           ///< time from an interruption until the job runs again, if the scenario states none
    std::string name() const;  ///< "reserved 12 months", "spot"
  };
  std::vector<Offer> offers;  ///< reserved terms by their length, then spot
  /// Prices of the parts of a network: each switch by its name, each cable, and each metre of cable.
  struct Parts {
    std::vector<std::pair<std::string, double>> switches;
    double copper = 0, copper_metre = 0, optical = 0, optical_metre = 0;
    bool cables = false;  ///< are cables priced?
    bool is_given() const { return cables || !switches.empty(); }
    /// Returns the name and the price of a type of switch. No value: it has no price.
    std::optional<std::pair<std::string, double>> switch_named(const std::string& name) const;
  } parts;
  double kwh = 0;      ///< price of a kWh of electricity, paid in addition to rents; 0: rents include it
  std::string source;  ///< origin of all figures that state none; empty: it is not stated
  Purchase purchase;
  Place place;

  bool is_given() const { return !currency.empty(); }
  /// Returns the price of an hour of one GPU: the rent of the node's name, else that of the GPU's name. 0: there are no
  /// rents, but electricity or a purchase is paid. Throws UserError at `place`, with the names of all rents, if none
  /// fits.
  double gpu_hour(const std::string& node, const std::string& gpu, int gpus_a_node) const;
  /// Returns the price of an hour of one GPU among such rents. No value: none of them names the node or the GPU.
  static std::optional<double> gpu_hour_among(const std::vector<Rent>&, const std::string& node, const std::string& gpu,
                                              int gpus_a_node);
};

/// Reads `{currency, source, gpu_hour: {NAME: money}, node_hour: {NAME: money}, kwh, switch: {NAME: money}, cable: {copper,
/// copper_metre, optical, optical_metre}, reserved: [{months, gpu_hour, node_hour, idle}, …], spot: {gpu_hour,
/// node_hour, interruption, restart}, purchase: {node or gpu: {NAME: price}, switch, switch_ports, cable, cables: {LENGTH:
/// money}, storage, years, interest, kwh, staff, space, kw_month, owned: {NAME: nodes}, delivery: {NAME: time}}}`. A
/// price of a purchase is money, or a map from quantities to money (of the storage, from numbers of nodes). A delivery is a time, or a list of batches `{nodes,
/// after}`. `check_price_names` checks the names. Each figure may
/// be `{value, source, unverified}`, with texts of sources in `sources`, as in the catalog.
/// `site_kwh`: a site's own price of a kWh, for a purchase, and for rents if electricity is paid in addition to them.
/// Throws UserError with the place for a negative price, and if nothing is priced.
Prices read_prices(const Node&, const std::optional<double>& site_kwh = {});

/// Cost of the whole training by one kind of rent.
struct RentCost {
  std::string terms;      ///< "on demand", "reserved 12 months", "spot"
  std::string error;      ///< reason why the training has no such cost; empty: it has one
  double training = 0;    ///< cost of the whole training, including unused hours of the term and electricity
  double time = 0;        ///< time of the training with its failures and interruptions, s
  double goodput = 1;     ///< useful share of that time
  double paid_hours = 0;  ///< hours of the cluster that are reserved, or used
  double energy = 0;      ///< energy of the site in that time, J; 0: the power of the devices is not stated
};
/// Number of hours in a year of 365 days, and in a month, its twelfth.
constexpr double kHoursOfYear = 8760, kMonthsOfYear = 12;
constexpr double kHoursOfMonth = kHoursOfYear / kMonthsOfYear;
/// Returns the hours of reserved terms that cover this time, and their cost in hours of full price.
struct ReservedHours {
  double paid = 0, cost = 0;
};
ReservedHours reserved_hours(const Prices::Offer&, double used_hours);
/// Returns the least cost among those that are possible and take at most `most_time` s. Null: there is none.
const RentCost* least_rent(const std::vector<RentCost>&, double most_time);

/// Cost of training, in the prices' currency.
struct Money {
  std::string currency;
  double step = 0;         ///< cost of one step; with a length of the training, its share of `training`
  double per_million = 0;  ///< cost of a million tokens, or of a million samples if the network has no tokens
  bool of_tokens = true;   ///< `per_million` counts tokens; false: samples
  double training = 0;     ///< cost of the whole training, including failures; 0: its length is not given
  std::optional<Ownership> ownership;  ///< No value: no purchase is priced
  std::vector<RentCost> rents;  ///< on demand, reserved and spot; empty: no length of the training, or no such prices
  double per_million_answers = 0;  ///< cost of a million answers of a post-training loop; 0: there is no loop
};

}  // namespace trainyard
