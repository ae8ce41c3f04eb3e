// The costs of owning a cluster, beside its rent.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/energy/prices.hpp"

namespace trainyard {
namespace {

double sum(const std::map<std::string, double>& parts) {
  double total = 0;
  for (const auto& [name, money] : parts) total += money;
  return total;
}

double money_of(const std::map<std::string, double>& parts, const char* name) {
  const auto found = parts.find(name);
  return found == parts.end() ? 0 : found->second;
}

/// Returns the yearly payment that pays back a loan of 1 in `years` years.
double annuity(double interest, double years) {
  return interest > 0 ? interest / -std::expm1(-years * std::log1p(interest)) : 1 / years;
}

}  // namespace

double Purchase::yearly_share() const { return annuity(interest, years) + staff + space; }

double Ownership::price() const { return sum(purchase_prices); }
std::string years_words(double years) { return fmt::format("{:.3g} year{}", years, years == 1 ? "" : "s"); }

std::vector<std::string> Ownership::left_out() const {
  std::vector<std::string> all;
  for (const auto& [part, price] : purchase_prices)
    if (part.find(", ") != std::string::npos) all.push_back(part);
  return all;
}
double Ownership::year() const { return sum(yearly); }

std::vector<std::pair<std::string, double>> Ownership::parts_of_total() const {
  return {{"nodes", money_of(purchase_prices, "nodes")},
          {"network", money_of(purchase_prices, "switches") + money_of(purchase_prices, "cables")},
          {"storage", money_of(purchase_prices, "storage")},
          {"interest", years * money_of(yearly, "interest")},
          {"power", years * money_of(yearly, "electricity")},
          {"cooling", years * money_of(yearly, "cooling")},
          {"staff", years * money_of(yearly, "staff")},
          {"space", years * money_of(yearly, "space")}};
}

std::optional<double> Ownership::price_of_year(double money) const {
  if (yearly_share <= 0) return std::nullopt;
  const double needed = price() + (money - year()) / yearly_share;
  return needed > 0 ? std::optional(needed) : std::nullopt;
}

std::optional<double> Ownership::node_price_of_year(double money) const {
  const std::optional<double> needed = price_of_year(money);
  const double nodes = needed.value_or(0) - (price() - money_of(purchase_prices, "nodes"));
  return needed && nodes > 0 && bought_nodes > 0 ? std::optional(nodes / bought_nodes) : std::nullopt;
}

void Ownership::set_network(const Purchase& purchase, double price_of_switches, double price_of_cables) {
  const double old_price = price(), old_year = year();
  if (old_price == 0) return;
  std::erase_if(purchase_prices, [](const auto& part) { return part.first.find(", ") != std::string::npos; });
  purchase_prices["switches"] = price_of_switches;
  purchase_prices["cables"] = price_of_cables;
  const double new_price = price();
  yearly["depreciation"] = new_price / purchase.years;
  if (purchase.interest > 0)
    yearly["interest"] = new_price * annuity(purchase.interest, purchase.years) - new_price / purchase.years;
  yearly["staff"] = new_price * purchase.staff;
  yearly["space"] += (new_price - old_price) * purchase.space;
  training *= year() / old_year;
  per_million *= year() / old_year;
}

namespace {

/// Returns the least use at which owning costs no more than a rent. Owning costs `fixed + u * energy` at a use of u, a rent
/// `unused + u * (used - unused)`. No value: it costs more even at full use.
std::optional<double> least_use(const Ownership& o, const YearlyRent& rent) {
  const double energy = o.yearly.at("electricity") + o.yearly.at("cooling"), fixed = o.year() - energy;
  const double slope = rent.used - rent.unused - energy;
  if (o.year() > rent.used) return std::nullopt;
  return slope > 0 ? std::max(0.0, (fixed - rent.unused) / slope) : 0;  // else it costs less at any use
}

}  // namespace

std::optional<BreakEven> break_even(const Ownership& o) {
  std::optional<BreakEven> least;
  for (const YearlyRent& rent : o.rents) {
    const std::optional<double> use = least_use(o, rent);
    if (!use) return std::nullopt;
    if (!least || *use > least->use) least = BreakEven{*use, rent.terms};
  }
  return least;
}

std::vector<RentComparison> compare_rents(const Ownership& o) {
  std::vector<YearlyRent> rents = o.rents;
  const double unused = o.owned_unused;
  if (o.spot_year > 0) rents.push_back({"spot", unused, o.spot_year});
  std::vector<RentComparison> all;
  for (const YearlyRent& rent : rents) {
    RentComparison& compared = all.emplace_back(RentComparison{rent.terms, rent.used, least_use(o, rent), {}, {}, {}});
    if (const auto years = o.break_even_years(rent)) compared.months = *years * kMonthsOfYear;
    compared.price = o.price_of_year(rent.used);
    compared.node = o.node_price_of_year(rent.used);
  }
  return all;
}

void Ownership::add_rent(const std::string& terms, double unused, double used) {
  rents.push_back({terms, unused + owned_unused, used + owned_unused + owned_in_use});
}

const YearlyRent* least_rent(const Ownership& o) {
  const auto least = std::ranges::min_element(o.rents, {}, &YearlyRent::used);
  return least == o.rents.end() ? nullptr : &*least;
}

std::optional<double> Ownership::break_even_years() const {
  const YearlyRent* rent = least_rent(*this);
  return rent ? break_even_years(*rent) : std::nullopt;
}

std::optional<double> Ownership::break_even_years(const YearlyRent& rent) const {
  const double running = year() - yearly.at("depreciation") - yearly.at("interest"), saved = rent.used - running;
  if (saved <= interest * price()) return std::nullopt;
  return interest > 0 ? -std::log1p(-interest * price() / saved) / std::log1p(interest) : price() / saved;
}

SwitchCount full_bisection_network(int hosts, int ports, const Place& place) {
  const auto divided = [](int a, int b) { return (a + b - 1) / b; };
  if (hosts <= ports) return {1, hosts};
  const int half = ports / 2, leaves = divided(hosts, half);
  if (leaves <= ports) return {leaves + divided(leaves * half, ports), hosts + leaves * half};
  if (hosts > static_cast<double>(half) * half * ports)
    fail(place,
         fmt::format(
             "prices.purchase.switch_ports: three tiers of switches of {} ports join at most {:.0f} ports, not {}",
             ports, static_cast<double>(half) * half * ports, hosts));
  const int links = leaves * half;
  return {2 * leaves + divided(links, ports), hosts + 2 * links};
}

Ownership cost_of_ownership(const Purchase& purchase, const std::vector<BoughtNodes>& types, double watts, double pue,
                            double rent_hour) {
  constexpr double watts_a_kilowatt = 1000;
  Ownership all;
  int nodes = 0, bought_nodes = 0, adapters = 0;
  double price_of_nodes = 0, most_watts = 0, owned_watts = 0;
  for (const BoughtNodes& type : types) {
    if (type.count == 0) continue;
    const int owned_nodes = std::min(type.count, purchase.number_owned(type.node)), missing = type.count - owned_nodes;
    if (missing > 0) price_of_nodes += missing * purchase.node_price(type.node, type.gpu, type.gpus, missing);
    all.delivery = std::max(all.delivery, purchase.delivery(type.node, type.gpu, type.count).value);
    all.owned_nodes += owned_nodes;
    bought_nodes += missing;
    nodes += type.count;
    adapters += type.count * type.adapters;
    most_watts += type.count * type.watts;
    owned_watts += owned_nodes * type.watts;
  }
  all.purchase_prices["nodes"] = price_of_nodes;
  const bool network =
      bought_nodes > 0 && nodes > 1 && adapters > 0 && !(purchase.network_switch.empty() && purchase.cable.empty());
  const SwitchCount count =
      network ? full_bisection_network(adapters, purchase.switch_ports, purchase.place) : SwitchCount{};
  all.purchase_prices["switches"] = purchase.price_of_switches(count.switches);
  all.purchase_prices["cables"] = purchase.price_of_cables(count.cables);
  all.purchase_prices["storage"] = bought_nodes > 0 ? purchase.price_of_storage(nodes) : 0;
  const double price = all.price();
  all.interest = purchase.interest;
  all.years = purchase.years;
  all.yearly_share = purchase.yearly_share();
  all.bought_nodes = bought_nodes;
  all.yearly["depreciation"] = price / purchase.years;
  all.yearly["interest"] = price * annuity(purchase.interest, purchase.years) - price / purchase.years;
  if (purchase.interest == 0) all.yearly["interest"] = 0;
  all.yearly["electricity"] = watts / watts_a_kilowatt * kHoursOfYear * purchase.kwh;
  all.yearly["cooling"] = all.yearly["electricity"] * (pue - 1);
  all.yearly["staff"] = price * purchase.staff;
  const double kilowatt_year = kMonthsOfYear * purchase.kw_month / watts_a_kilowatt;
  all.yearly["space"] = price * purchase.space + most_watts * kilowatt_year;
  // The nodes draw power in proportion to their most, or each as much if that is not known.
  const double owned_share = nodes == 0       ? 0
                             : most_watts > 0 ? owned_watts / most_watts
                                              : static_cast<double>(all.owned_nodes) / nodes;
  all.owned_in_use = owned_share * (all.yearly["electricity"] + all.yearly["cooling"]);
  all.owned_unused = owned_watts * kilowatt_year;
  if (rent_hour > 0) all.add_rent("on demand", 0, rent_hour * kHoursOfYear);
  return all;
}

}  // namespace trainyard
