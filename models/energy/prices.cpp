#include "models/energy/prices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr double kMostMoney = 1e9;  // for any price; a higher one is surely a mistake

/// Returns prices whose amounts such as 300k or 1.2M are plain numbers.
Node with_plain_amounts(Node node) {
  if (node.kind == Node::Kind::scalar && !find_number(node.scalar))
    if (const std::optional<double> amount = find_count(node.scalar)) node.scalar = fmt::format("{}", *amount);
  for (auto& [key, child] : node.fields) child = with_plain_amounts(std::move(child));
  for (Node& item : node.items) item = with_plain_amounts(std::move(item));
  return node;
}

/// Calls `read_value` with the fields of a map and each of its names that has a value.
template <class ReadValue>
void read_by_name(Fields& fields, const Key& key, const ReadValue& read_value) {
  fields.read_map(key, [&](Fields& named) {
    for (const auto& [name, child] : fields.child(key)->fields)
      if (named.has(name)) read_value(named, name);
  });
}

constexpr const char* kGpuHourWords =
    "Rent of one GPU for an hour, by name of the GPU or of its node, for example {a100-sxm4-80gb: 1.5, "
    "h100-sxm5-80gb: 2.5}.";
constexpr const char* kNodeHourWords =
    "Rent of one node for an hour, by name, in place of that of its GPUs, for example "
    "{p5.48xlarge: 40}.";

void read_rents(std::vector<Prices::Rent>& all, Fields& fields, const Key& key, double Prices::Rent::*member) {
  read_by_name(fields, key, [&](Fields& rents, const std::string& name) {
    if (std::ranges::any_of(all, [&](const auto& r) { return same_name(r.name, name); }))
      fail(rents.place_of(name),
           fmt::format("{}: {} has both an hour of a GPU and of a node; leave one of both out", fields.what(), name));
    all.push_back({name, 0, 0});
    all.back().*member = rents.number(name, 0, kMostMoney);
  });
}

void read_offer_rents(Prices::Offer& offer, Fields& fields) {
  read_rents(offer.rents, fields, {"gpu_hour", kGpuHourWords}, &Prices::Rent::gpu_hour);
  read_rents(offer.rents, fields, {"node_hour", kNodeHourWords}, &Prices::Rent::node_hour);
  if (offer.rents.empty())
    fail(fields.place(), fields.what() + ": expected gpu_hour or node_hour, by names of nodes or GPUs");
}

/// Reads the rents of reserved terms and of spot nodes.
void read_offers(Prices& prices, Fields& fields) {
  constexpr double most_months = 120;
  const std::vector<Node>* terms = fields.list(
      {"reserved", "Rents of reserved terms, a list of {months: 12, gpu_hour: {NAME: 1.7}}. Default: none."});
  for (std::size_t i = 0; terms && i < terms->size(); ++i) {
    Fields term((*terms)[i], fmt::format("prices.reserved.{}", i));
    Prices::Offer& offer = prices.offers.emplace_back();
    offer.months =
        term.number({"months", "Length of the reserved term in months of 730 h, for example 12."}, 0.01, most_months);
    offer.idle = term.number(
        {"idle", "Share of the rent that is paid for unused hours of the term, for example 0.5. Default: 1."}, 0, 1, 1);
    read_offer_rents(offer, term);
    term.finish();
  }
  sort_stably(prices.offers, [](const Prices::Offer& a, const Prices::Offer& b) { return a.months < b.months; });
  fields.read_map({"spot", "Rents of nodes that may be taken away. Default: none."}, [&prices](Fields& spot) {
    Prices::Offer& offer = prices.offers.emplace_back();
    offer.interruption =
        spot.seconds({"interruption", "Mean time between interruptions of one node, for example 60 h."});
    if (offer.interruption.value <= 0) spot.refuse("interruption", "more than 0 expected");
    offer.restart = spot.seconds({"restart",
                                  "Time from an interruption until the job runs again, for example 5 min, if the "
                                  "scenario has no faults.restart. "
                                  "Default: 0 s."},
                                 Seconds{});
    read_offer_rents(offer, spot);
  });
}

void read_parts(Prices::Parts& parts, Fields& fields) {
  read_by_name(
      fields,
      {"switch",
       "Price of one switch, by name, for `topo design` and `size --network`, for example {quantum-2: 30000}."},
      [&parts](Fields& switches, const std::string& name) {
        parts.switches.emplace_back(name, switches.number(name, 0, kMostMoney));
      });
  fields.read_map(
      {"cable",
       "Prices of cables by material, each and for a metre, for example {copper: 100, copper_metre: 40, optical: 700, "
       "optical_metre: 5}."},
      [&parts](Fields& cable) {
        parts.copper = cable.number("copper", 0, kMostMoney, 0);
        parts.copper_metre = cable.number("copper_metre", 0, kMostMoney, 0);
        parts.optical = cable.number("optical", 0, kMostMoney, 0);
        parts.optical_metre = cable.number("optical_metre", 0, kMostMoney, 0);
        parts.cables = true;
      });
}

/// Reads the number of owned pieces, and the fabric of nodes if one is stated.
int read_owned(Purchase& purchase, Fields& named, const std::string& name) {
  const Node* value = named.child(name);
  if (!value || value->kind != Node::Kind::map || value->find("value") || Purchase::is_network_part(name))
    return named.integer<int>(name, 0);
  Fields owned(*value, named.path(name));
  const int count = owned.integer<int>({"nodes", "Number of nodes of this type that one owns, for example 64."}, 0);
  const Node& fabric =
      owned.required_child({"fabric", "Fabric that these nodes keep, as in cluster.fabric, for example leaf-spine."});
  const Node& links =
      owned.required_child({"links",
                            "Cables between this fabric and that of bought nodes, as in cluster.nodes.N.links, for "
                            "example {count: 8, rate: 400 Gbit/s, latency: 1 us}."});
  for (const char* key : {"fabric", "links"})
    if (!owned.has(key)) owned.refuse(key, "null, but nodes that keep their fabric need it");
  purchase.owned_fabrics.push_back({name, fabric, links});
  owned.finish();
  return count;
}

/// Reads money, or a map from quantities to money: `300000`, `{1: 300000, 64: 280000}`.
Purchase::Steps read_steps(Fields& fields, const Key& key) {
  const Node* node = fields.child_unless_null(key);
  if (!node) return {};
  if (node->kind != Node::Kind::map || node->find("value")) return {{1, fields.number(key, 0, kMostMoney)}};
  Fields map(*node, fields.path(key));
  Purchase::Steps steps;
  for (const auto& [name, child] : node->fields) {
    double quantity = 0;
    try {
      quantity = parse_number(name);
    } catch (const UserError&) {
    }
    if (!(quantity >= 1) || (!steps.empty() && quantity <= steps.back().first))
      fail(child.place,
           fmt::format("{}: {}: expected ascending quantities, such as {{1: 300000, 64: 280000}}", map.what(), name));
    steps.emplace_back(quantity, map.number(name, 0, kMostMoney));
  }
  map.finish();
  if (steps.empty() || steps.front().first != 1)
    fail(node->place, fmt::format("{}: expected a price from 1 on, such as {{1: 300000, 64: 280000}}", map.what()));
  return steps;
}

/// Reads prices of cables by their length: `{3 m: 100, 30 m: 900}`.
std::vector<std::pair<double, double>> read_cable_lengths(Fields& fields, const Key& key) {
  std::vector<std::pair<double, double>> lengths;
  read_by_name(fields, key, [&lengths](Fields& map, const std::string& name) {
    const std::optional<double> metres =
        name.ends_with(" m") ? find_number(name.substr(0, name.size() - 2)) : std::nullopt;
    if (!metres || !(*metres > 0) || (!lengths.empty() && *metres <= lengths.back().first))
      fail(map.place_of(name),
           fmt::format("{}: {}: expected ascending lengths, such as {{3 m: 100, 30 m: 900}}", map.what(), name));
    lengths.emplace_back(*metres, map.number(name, 0, kMostMoney));
  });
  return lengths;
}

std::vector<std::pair<std::string, Purchase::Steps>> read_named_steps(Fields& fields, const Key& key) {
  std::vector<std::pair<std::string, Purchase::Steps>> all;
  read_by_name(fields, key,
               [&all](Fields& named, const std::string& name) { all.emplace_back(name, read_steps(named, name)); });
  return all;
}

/// Reads a time, or a list of batches `[{nodes: 32, after: 30 d}, {after: 90 d}]`: the last one brings all further nodes.
std::vector<Purchase::Batch> read_batches(Fields& named, const std::string& name) {
  const Node* node = named.child(name);
  if (node->kind != Node::Kind::list) return {{0, named.seconds(name)}};
  std::vector<Purchase::Batch> batches;
  for (const Node& item : *named.list(name)) {
    Fields fields(item, fmt::format("{}.{}", named.path(name), batches.size()));
    if (!batches.empty() && batches.back().nodes == 0)
      fail(item.place,
           fmt::format("{}: the batch before brings all further nodes; expected its number of nodes", fields.what()));
    Purchase::Batch batch;
    batch.nodes = fields.integer<int>(
        {"nodes", "Number of nodes of the batch, for example 32. Default: all further ones, in the last batch."}, 1, 0);
    batch.after = fields.seconds({"after", "Time from today until the batch is there, for example 30 d."});
    fields.finish();
    if (!batches.empty() && batch.after <= batches.back().after)
      fail(item.place, fmt::format("{}: expected a later time than that of the batch before", fields.what()));
    batches.push_back(batch);
  }
  if (!batches.empty() && batches.back().nodes > 0)
    fail(named.list(name)->back().place,
         fmt::format(
             "{}.{}: the last batch brings all further nodes; expected no number of nodes (--gpus limits a cluster)",
             named.path(name), batches.size() - 1));
  return batches;
}

void read_purchase(Purchase& purchase, Fields& prices) {
  const Node* map = prices.child_unless_null({"purchase", "Prices of a cluster that is bought, and its yearly costs."});
  if (!map) return;
  constexpr double most_years = 50, most_share = 1;
  Fields fields(*map, "prices.purchase");
  purchase.place = map->place;
  purchase.nodes = read_named_steps(
      fields,
      {"node", "Price of one node, by name, for example {dgx-a100: 150000}; {1: 300000, 64: 280000} by quantity."});
  purchase.gpus = read_named_steps(
      fields, {"gpu", "Price of one GPU with its share of the node, by name, for example {h100-sxm5-80gb: 40000}."});
  purchase.network_switch = read_steps(fields, {"switch", "Price of one switch, for example 30000, also by quantity."});
  purchase.switch_ports =
      fields.integer<int>({"switch_ports", "Ports of such a switch, for example 128. Default: 64."}, 2, 64);
  purchase.cable =
      read_steps(fields, {"cable", "Price of one cable with its transceivers, for example 1000, also by quantity."});
  purchase.cables_by_length =
      read_cable_lengths(fields, {"cables",
                                  "Price of one cable by its length, for `size --network`, for example {3 m: 100, 30 "
                                  "m: 900}: a cable takes the next length that is long enough. Default: cable."});
  if (!purchase.cables_by_length.empty() && purchase.cable.empty())
    fields.refuse("cables", "expected cable, too: the price of a cable in answers that know no lengths");
  purchase.storage = read_steps(
      fields, {"storage",
               "Price of the storage, for example 1000000, also by the nodes of the cluster: {1: 500000, 64: 2000000}. "
               "Default: 0."});
  purchase.years = fields.number({"years", "Years of depreciation, for example 5. Default: 4."}, 0.1, most_years, 4);
  purchase.interest =
      fields.number({"interest", "Interest of a year, for example 0.06. Default: 0."}, 0, most_share, 0);
  purchase.kwh = fields.number({"kwh", "Price of a kWh at the site, for example 0.1. Default: 0."}, 0, kMostMoney, 0);
  purchase.staff = fields.number(
      {"staff", "A year's staff, as a share of the purchase price, for example 0.03. Default: 0."}, 0, most_share, 0);
  purchase.space = fields.number(
      {"space", "A year's space, as a share of the purchase price, for example 0.02. Default: 0."}, 0, most_share, 0);
  purchase.kw_month = fields.number(
      {"kw_month", "Price of space for one kW of the nodes' most power, per month, for example 150. Default: 0."}, 0,
      kMostMoney, 0);
  read_by_name(fields,
               {"owned",
                "Number of nodes that one owns already, by type of node; switch and cable: number of those; storage: 1 "
                "if it is there. {nodes: 64, fabric: leaf-spine, links: {count: 8, rate: 400 Gbit/s, latency: 1 us}}: "
                "the nodes keep their own fabric, which these cables join with that of bought nodes. Default: none."},
               [&purchase](Fields& named, const std::string& name) {
                 const int count = read_owned(purchase, named, name);
                 if (name == "switch") purchase.owned_switches = count;
                 if (name == "cable") purchase.owned_cables = count;
                 if (name == "storage") purchase.owns_storage = count > 0;
                 if (!Purchase::is_network_part(name)) purchase.owned_nodes.emplace_back(name, count);
               });
  read_by_name(fields,
               {"delivery",
                "Time until bought nodes are delivered, by node or GPU; or a list of batches, such as [{nodes: 32, "
                "after: 30 d}, {after: 90 d}]. Default: 0 s."},
               [&purchase](Fields& named, const std::string& name) {
                 purchase.deliveries.emplace_back(name, read_batches(named, name));
               });
  fields.finish();
  if (!purchase.has_prices()) fail(map->place, "prices.purchase: expected node or gpu, by names of nodes or GPUs");
}

}  // namespace

std::optional<std::pair<std::string, double>> Prices::Parts::switch_named(const std::string& name) const {
  for (const auto& priced : switches)
    if (same_name(priced.first, name)) return priced;
  return std::nullopt;
}

double Purchase::price_of(const Steps& steps, double count) {
  double unit_price = 0;
  for (const auto& [from, price] : steps)
    if (count >= from) unit_price = price;
  return unit_price * count;
}

double Purchase::price_of_switches(double needed) const {
  return price_of(network_switch, std::max(0.0, needed - owned_switches));
}

double Purchase::price_of_cables(double needed) const { return price_of(cable, std::max(0.0, needed - owned_cables)); }

double Purchase::price_of_storage(int all_nodes) const {
  return owns_storage || all_nodes == 0 ? 0 : price_of(storage, all_nodes) / all_nodes;
}

double Purchase::price_of_length(double metres) const {
  for (const auto& [length, price] : cables_by_length)
    if (length >= metres) return price;
  fail(place, fmt::format("prices.purchase.cables: no price for a cable of {} m; expected one for {} m or more",
                          exact(metres), exact(metres)));
}

bool Purchase::has_price(const std::string& node, const std::string& gpu) const {
  return std::ranges::any_of(nodes, [&](const auto& each) { return same_name(each.first, node); }) ||
         std::ranges::any_of(gpus, [&](const auto& each) { return same_name(each.first, gpu); });
}

double Purchase::node_price(const std::string& node, const std::string& gpu, int gpus_a_node, int count) const {
  for (const auto& [name, steps] : nodes)
    if (same_name(name, node)) return price_of(steps, count) / count;
  for (const auto& [name, steps] : gpus)
    if (same_name(name, gpu)) return price_of(steps, 1.0 * count * gpus_a_node) / count;
  std::vector<std::string> names;
  for (const auto& [name, steps] : nodes) names.push_back(name);
  for (const auto& [name, steps] : gpus) names.push_back(name);
  fail(place, fmt::format("prices.purchase: none of {} or of {}{}", node, gpu, hint("", names)));
}

const Purchase::OwnedFabric* Purchase::owned_fabric(const std::string& node) const {
  const auto found = std::ranges::find_if(owned_fabrics, [&](const auto& each) { return same_name(each.node, node); });
  return found == owned_fabrics.end() ? nullptr : &*found;
}

int Purchase::number_owned(const std::string& node) const {
  for (const auto& [name, count] : owned_nodes)
    if (same_name(name, node)) return count;
  return 0;
}

Seconds Purchase::delivery(const std::string& node, const std::string& gpu, int count) const {
  return arrivals(node, gpu, count).back().after;
}

std::vector<Purchase::Batch> Purchase::arrivals(const std::string& node, const std::string& gpu, int count) const {
  std::vector<Batch> all;
  int delivered = std::min(count, number_owned(node));
  if (delivered > 0) all.push_back({delivered, Seconds{}});
  const std::vector<Batch>* batches = nullptr;
  for (const std::string& wanted : {node, gpu})
    for (const auto& [name, listed] : deliveries)
      if (!batches && same_name(name, wanted)) batches = &listed;
  for (std::size_t i = 0; batches && i < batches->size() && delivered < count; ++i) {
    const bool is_last = i + 1 == batches->size();
    delivered = is_last ? count : std::min(count, delivered + (*batches)[i].nodes);
    all.push_back({delivered, (*batches)[i].after});
  }
  if (delivered < count) all.push_back({count, Seconds{}});
  if (all.empty()) all.push_back({});
  if (all.size() > 1 && all[1].after.value <= 0) all.erase(all.begin());
  return all;
}

std::string Prices::Offer::name() const {
  return months > 0 ? fmt::format("reserved {:g} month{}", months, months == 1 ? "" : "s") : "spot";
}

std::optional<double> Prices::gpu_hour_among(const std::vector<Rent>& rents, const std::string& node,
                                             const std::string& gpu, int gpus_a_node) {
  for (const std::string& name : {node, gpu})
    for (const Rent& rent : rents)
      if (same_name(rent.name, name)) return rent.node_hour > 0 ? rent.node_hour / gpus_a_node : rent.gpu_hour;
  return std::nullopt;
}

ReservedHours reserved_hours(const Prices::Offer& offer, double used_hours) {
  const double term = offer.months * kHoursOfMonth;
  const double paid = term > 0 ? std::ceil(used_hours / term - 1e-9) * term : used_hours;
  return {paid, used_hours + offer.idle * std::max(0.0, paid - used_hours)};
}

const RentCost* least_rent(const std::vector<RentCost>& rents, double most_time) {
  const RentCost* least = nullptr;
  for (const RentCost& rent : rents)
    if (rent.error.empty() && rent.time <= most_time && (!least || rent.training < least->training)) least = &rent;
  return least;
}

double Prices::gpu_hour(const std::string& node, const std::string& gpu, int gpus_a_node) const {
  if (const std::optional<double> hour = gpu_hour_among(rents, node, gpu, gpus_a_node)) return *hour;
  if ((kwh > 0 && rents.empty()) || purchase.has_price(node, gpu)) return 0;
  std::vector<std::string> names;
  for (const Rent& rent : rents) names.push_back(rent.name);
  fail(place, fmt::format("prices: none of {} or of {}{}", node, gpu, hint("", names)));
}

Prices read_prices(const Node& stated, const std::optional<double>& site_kwh) {
  const Node node = with_plain_amounts(stated);
  Fields fields(node, "prices");
  Prices prices;
  prices.place = node.place;
  fields.text("name", "");
  fields.text("description", "");
  fields.child("sources");
  prices.source =
      fields.text({"source", "Origin of all figures that state none themselves, for example a quote and its day."}, "");
  prices.currency = fields.text({"currency", "Currency of all prices, for example EUR. Default: USD."}, "USD");
  read_rents(prices.rents, fields, {"gpu_hour", kGpuHourWords}, &Prices::Rent::gpu_hour);
  read_rents(prices.rents, fields, {"node_hour", kNodeHourWords}, &Prices::Rent::node_hour);
  read_offers(prices, fields);
  prices.kwh =
      fields.number({"kwh", "Price of a kWh in addition to rents, for example 0.1. Default: 0."}, 0, kMostMoney, 0);
  read_parts(prices.parts, fields);
  read_purchase(prices.purchase, fields);
  fields.finish();
  if (site_kwh) prices.purchase.kwh = *site_kwh;
  if (site_kwh && prices.kwh > 0) prices.kwh = *site_kwh;
  if (prices.rents.empty() && !prices.offers.empty())
    fail(node.place, "prices: reserved and spot are compared with rents on demand; expected gpu_hour or node_hour");
  if (prices.rents.empty() && prices.kwh == 0 && !prices.parts.is_given() && !prices.purchase.has_prices())
    fail(node.place,
         "prices: expected gpu_hour or node_hour, by names of nodes or GPUs, kwh, switch, cable or purchase");
  return prices;
}

}  // namespace trainyard
