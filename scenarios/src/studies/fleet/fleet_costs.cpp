// The cost and the energy of a fleet.
#include <fmt/format.h>

#include <algorithm>

#include "models/energy/energy.hpp"
#include "scenarios/src/running/bought_network.hpp"
#include "scenarios/src/running/node_power.hpp"
#include "scenarios/src/studies/fleet/fleet.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr double kSecondsOfFleetHour = 3600;

/// Returns the step of a training on the fewest of its nodes.
const FleetStep& first_step(const FleetAnswer& a, std::size_t training) {
  return *std::ranges::find(a.steps, a.groups[training].training, &FleetStep::training);
}

/// Adds cost and energy of the tokens of each training, over its arrivals of the shown run.
void add_token_costs(FleetAnswer& a) {
  std::vector<double> joules(a.groups.size(), 0);
  double all_tokens = 0;
  for (const FleetRow& row : a.rows)
    joules[row.training] += row.outcome.node_seconds.on_nodes() * first_step(a, row.training).watts_a_node;
  for (std::size_t i = 0; i < a.groups.size(); ++i) {
    FleetGroup& group = a.groups[i];
    const double tokens = group.arrivals * first_step(a, i).tokens;
    if (tokens > 0) group.per_million = 1e6 * group.money / tokens;
    if (joules[i] > 0) group.tokens_per_joule = tokens / joules[i];
    all_tokens += tokens;
  }
  if (a.ownership && all_tokens > 0)
    a.ownership->per_million =
        1e6 * a.ownership->year() * a.horizon / (kHoursOfYear * kSecondsOfFleetHour) / all_tokens;
}

/// Adds the cost of the cluster by each way to pay. The trainings of the shown run share the least cost by their
/// node-hours, so that idle nodes, spares and repairs are paid, too.
void add_costs(const FleetFile& file, double watt_seconds, FleetAnswer& a) {
  const Prices& prices = file.prices;
  const NodeType& node = file.cluster.node;
  const double hours = a.horizon / kSecondsOfFleetHour;
  if ((prices.kwh > 0 || prices.purchase.kwh > 0) && watt_seconds <= 0)
    fail(prices.place, fmt::format("prices: the power of {} is not stated", node.gpu.name));
  const double electricity = prices.kwh * watt_seconds / kJoulesOfKwh;
  const double rent = prices.gpu_hour(node.name, node.gpu.name, node.gpus) * node.gpus * a.nodes;
  a.currency = prices.currency;
  const auto add = [&](const std::string& terms, double money) {
    a.costs.push_back({terms, money, money / (a.nodes * hours)});
  };
  if (rent > 0 || electricity > 0) add("on demand", rent * hours + electricity);
  for (const Prices::Offer& offer : prices.offers)
    if (const auto hour = Prices::gpu_hour_among(offer.rents, node.name, node.gpu.name, node.gpus);
        hour && offer.months > 0)
      add(offer.name(), reserved_hours(offer, hours).cost * *hour * node.gpus * a.nodes + electricity);
  if (prices.purchase.has_price(node.name, node.gpu.name)) {
    const double pue = file.site.pue;
    const Watts most = prices.purchase.kw_month > 0 ? provided_power(node, Catalog()) : node.most_power();
    const std::vector<BoughtNodes> bought{{node.name, node.gpu.name, a.nodes, node.gpus, node.hcas, most.value}};
    const double watts = watt_seconds / a.horizon / pue;
    const int bought_gpus = std::max(0, a.nodes - prices.purchase.number_owned(node.name)) * node.gpus;
    Ownership owned = cost_of_ownership(prices.purchase, bought, watts, pue,
                                        prices.gpu_hour(node.name, node.gpu.name, node.gpus) * bought_gpus);
    ClusterSpec cluster = file.cluster;
    cluster.nodes = a.nodes;
    set_fabric_network(cluster, prices.purchase, owned);
    add("purchase", owned.year() * hours / kHoursOfYear);
    a.costs.back().years = owned.years;
    a.costs.back().total = owned.total();
    for (const Prices::Offer& offer : prices.offers)
      if (const auto hour = Prices::gpu_hour_among(offer.rents, node.name, node.gpu.name, node.gpus);
          hour && *hour > 0 && offer.months > 0 && bought_gpus > 0)
        owned.add_rent(offer.name(), *hour * bought_gpus * kHoursOfYear * offer.idle,
                       *hour * bought_gpus * kHoursOfYear);
    a.ownership = std::move(owned);
  }
  if (a.costs.empty()) fail(prices.place, fmt::format("prices: {} has neither a rent nor a purchase price", node.name));
  sort_stably(a.costs, [](const FleetCost& x, const FleetCost& y) { return x.money < y.money; });
  double node_seconds = 0;
  for (const FleetRow& row : a.rows) node_seconds += row.outcome.node_seconds.on_nodes();
  for (FleetRow& row : a.rows) {
    if (node_seconds > 0) row.money = a.costs.front().money * row.outcome.node_seconds.on_nodes() / node_seconds;
    a.groups[row.training].money += row.money;
  }
}

}  // namespace

void add_fleet_costs(const FleetFile& file, double watt_seconds, FleetAnswer& a) {
  if (file.prices.is_given()) add_costs(file, watt_seconds, a);
  add_token_costs(a);
}

}  // namespace trainyard
