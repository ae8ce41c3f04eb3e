// Compares the ways to pay for the evaluated clusters, and finds the prices at which they cost equally much.
#include "scenarios/src/sizing/size_choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "models/energy/energy.hpp"
#include "models/hardware/node.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr double kHoursOfChoiceDay = 24;

double used_hours(const SizeWay& way) { return way.days * kHoursOfChoiceDay; }

/// A way with its choice, and the part of its compared cost that is in proportion to the price of the choice.
struct PricedWay {
  SizeWay way;
  SizeChoice choice;
  double purchase_part = 0, money_part = 0;

  double cost(bool by_purchase) const { return by_purchase ? choice.purchase : choice.money; }
  double part(bool by_purchase) const { return by_purchase ? purchase_part : money_part; }
};

/// Returns the value of the price of `varied` at which two choices cost equally much, if no other price changes. No
/// value: there is none above 0.
std::optional<double> equal_cost_price(const SizeChoice& varied, const PricedWay& a, const PricedWay& b,
                                       bool by_purchase) {
  const auto part = [&](const PricedWay& each) {
    return each.choice.quantity == varied.quantity ? each.part(by_purchase) : 0;
  };
  if (varied.quantity.empty() || part(a) == part(b)) return std::nullopt;
  const double price = varied.price * (1 + (b.cost(by_purchase) - a.cost(by_purchase)) / (part(a) - part(b)));
  return price > 0 ? std::optional<double>(price) : std::nullopt;
}

/// Collects the best choice for each node type and way to pay.
class ChoiceList {
 public:
  ChoiceList(const SizeAnswer& answer, const Prices& prices)
      : answer_(answer), prices_(prices), size_prices_(answer, prices) {}

  std::vector<PricedWay> list(const std::string& model) {
    for (const auto* rows : {&answer_.rows, &answer_.other_networks})
      for (const SizeRow& row : *rows) {
        if (row.model != model) continue;
        // In a question of a purchase, a rent includes its network.
        if (rows == &answer_.rows || !answer_.purchase)
          for (const SizeWay& way : rents_of(answer_, row)) add(way);
        if (const std::optional<SizeWay> way = purchase_of(answer_, row)) add(*way);
      }
    sort_stably(best_, [](const PricedWay& a, const PricedWay& b) {
      if (a.choice.missed.empty() != b.choice.missed.empty()) return a.choice.missed.empty();
      return a.choice.money < b.choice.money;
    });
    return std::move(best_);
  }

 private:
  const SizeAnswer& answer_;
  const Prices& prices_;
  SizePrices size_prices_;
  std::vector<PricedWay> best_;

  /// Takes the way if no other of its kind is better.
  void add(const SizeWay& way) {
    const auto rank = [this](const SizeWay& w) {
      const bool is_late = w.needed_days() > answer_.days;
      return std::tuple(!meets_all(answer_, w), is_late, is_late ? w.end() : w.cost);
    };
    const auto other = std::ranges::find_if(best_, [&way](const PricedWay& listed) {
      return listed.way.row->node == way.row->node && listed.way.terms == way.terms;
    });
    if (other == best_.end())
      best_.push_back(priced(way));
    else if (rank(way) < rank(other->way))
      *other = priced(way);
  }

  PricedWay priced(const SizeWay& way) {
    PricedWay priced{way, choice_of_way(answer_, way)};
    SizeChoice& choice = priced.choice;
    const PricePart part = size_prices_.main_part(way);
    choice.quantity = part.quantity;
    choice.price = part.price;
    priced.money_part = part.part;
    if (const Prices::Offer* offer = size_prices_.offer(way); offer && offer->months > 0 && !part.quantity.empty()) {
      const double share = used_hours(way) / reserved_hours(*offer, used_hours(way)).cost;
      if (share < 1) choice.used_money = way.cost - part.part * (1 - share);
    }
    if (way.terms != kPurchase) return priced;
    const Ownership& o = *way.row->ownership;
    priced.purchase_part = part.part;
    priced.money_part = 0;
    if (part.quantity.empty() || o.year() <= 0) return priced;
    const Purchase& purchase = prices_.purchase;
    const double share_of_year =
        (o.yearly.at("depreciation") + o.yearly.at("interest")) / choice.purchase + purchase.staff + purchase.space;
    priced.money_part = o.training / o.year() * share_of_year * part.part;
    return priced;
  }
};

}  // namespace

const std::string& SizePrices::gpu_name(const std::string& node) {
  const auto [found, is_new] = gpu_names_.try_emplace(node);
  if (is_new) found->second = read_node(catalog_.resolve("node", Node::scalar_node(node)), catalog_).gpu.name;
  return found->second;
}

const Prices::Offer* SizePrices::offer(const SizeWay& way) const {
  const auto found =
      std::ranges::find_if(prices_.offers, [&way](const Prices::Offer& each) { return each.name() == way.terms; });
  return found == prices_.offers.end() ? nullptr : &*found;
}

/// The cost of owning the network during the training, which rents have beside them.
double SizePrices::network_part(const SizeWay& way) {
  return way.row->days() > 0 ? way.row->network_cost * way.days / way.row->days() : 0;
}

PricePart SizePrices::nodes_part(const SizeWay& way, bool by_quantity) {
  const SizeRow& row = *way.row;
  const Ownership& o = *row.ownership;
  const double nodes_price = o.purchase_prices.at("nodes"), bought_nodes = row.nodes - o.owned_nodes;
  PricePart part;
  if (nodes_price <= 0 || bought_nodes <= 0) return part;
  const auto take = [&](const auto& names, const std::string& wanted, double pieces) {
    for (const auto& [name, steps] : names) {
      if (!same_name(name, wanted)) continue;
      if (by_quantity || steps.size() == 1) part = {"purchase of " + name, nodes_price / pieces, nodes_price};
      return true;
    }
    return false;
  };
  const Purchase& purchase = prices_.purchase;
  if (!take(purchase.nodes, row.node, bought_nodes))
    take(purchase.gpus, gpu_name(row.node), bought_nodes * row.gpus / row.nodes);
  return part;
}

PricePart SizePrices::main_part(const SizeWay& way) {
  if (way.terms.empty()) return {};
  if (way.terms == kPurchase) return nodes_part(way, true);
  if (way.terms == "electricity") return {"kwh", prices_.kwh, way.cost - (answer_.purchase ? 0 : network_part(way))};
  const Prices::Offer* listed_offer = offer(way);
  const double hours = listed_offer ? reserved_hours(*listed_offer, used_hours(way)).cost : used_hours(way);
  for (const std::string& name : {way.row->node, gpu_name(way.row->node)})
    for (const Prices::Rent& rent : listed_offer ? listed_offer->rents : prices_.rents) {
      if (!same_name(rent.name, name)) continue;
      const bool is_node_rent = rent.node_hour > 0;
      const double price = is_node_rent ? rent.node_hour : rent.gpu_hour;
      return {fmt::format("{} of {}{}", is_node_rent ? "node_hour" : "gpu_hour", rent.name,
                          listed_offer ? " (" + way.terms + ")" : ""),
              price, hours * price * (is_node_rent ? way.row->nodes : way.row->gpus)};
    }
  return {};
}

std::vector<PricePart> SizePrices::parts(const SizeWay& way) {
  std::vector<PricePart> all;
  const auto add = [&all](PricePart part) {
    if (!part.quantity.empty() && part.price > 0 && part.part != 0) all.push_back(std::move(part));
  };
  if (way.terms == kPurchase) {
    add(nodes_part(way, false));
    const Purchase& purchase = prices_.purchase;
    const auto& bought = way.row->ownership->purchase_prices;
    const bool counts_network = !answer_.counted_network.empty() && answer_.networks;
    const std::string switch_name = counts_network ? answer_.networks->switch_name : "";
    const auto named_switch = switch_name.empty() ? std::nullopt : prices_.parts.switch_named(switch_name);
    if (named_switch)
      add({"purchase of a switch " + named_switch->first, named_switch->second, bought.at("switches")});
    else if (purchase.network_switch.size() == 1)
      add({"purchase of a switch", purchase.network_switch.front().second, bought.at("switches")});
    const bool is_one_price = answer_.counted_network.empty() || purchase.cables_by_length.empty();
    if (purchase.cable.size() == 1 && is_one_price)
      add({"purchase of a cable", purchase.cable.front().second, bought.at("cables")});
    return all;
  }
  const PricePart rent = main_part(way);
  add(rent);
  if (way.terms != "electricity" && !way.terms.empty())
    add({"kwh", prices_.kwh, way.cost - rent.part - network_part(way)});
  return all;
}

SizeChoice choice_of_way(const SizeAnswer& answer, const SizeWay& way) {
  const SizeRow& row = *way.row;
  SizeChoice choice;
  choice.model = row.model;
  choice.node = row.node;
  choice.terms = way.terms;
  choice.nodes = row.nodes;
  choice.gpus = row.gpus;
  choice.network = row.network;
  choice.days = way.end();
  choice.on_time = way.on_time(answer);
  if (row.doubt.exists()) {
    const StepRange range = DoubtModel::shipped().range(row.doubt, kLikely);
    choice.likely_days = {way.wait + way.days * range.low, way.wait + way.days * range.high};
  }
  if (row.time > 0) choice.power = row.energy / row.time;
  choice.risk = row.risk;
  choice.missed = missed_by(answer, way);
  choice.money = way.cost;
  if (way.terms != kPurchase) return choice;
  choice.money = row.ownership->training;
  choice.purchase = way.cost;
  return choice;
}

std::vector<SizeChoice> size_choices(const SizeAnswer& answer, const Prices& prices, const std::string& model,
                                     const SizeWay* decision) {
  std::vector<PricedWay> all = ChoiceList(answer, prices).list(model);
  const auto decided =
      std::ranges::find_if(all, [&](const PricedWay& each) { return decision && each.way.is_same(*decision); });
  std::vector<SizeChoice> choices;
  for (PricedWay& each : all) {
    SizeChoice& choice = each.choice;
    if (decided != all.end() && &each == &*decided) {
      choice.decision = true;
      for (const SizeThreshold& t : answer.thresholds)
        if (t.quantity == choice.quantity && t.threshold > t.value && !t.node.empty()) choice.break_even = t.threshold;
    } else if (decided != all.end() && (choice.missed.empty() || choice.missed == "budget")) {
      const bool by_purchase = answer.purchase && choice.terms == kPurchase;
      choice.break_even = equal_cost_price(choice, *decided, each, by_purchase);
    }
  }
  for (PricedWay& each : all) choices.push_back(std::move(each.choice));
  return choices;
}

}  // namespace trainyard
