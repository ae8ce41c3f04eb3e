// Compares the ways to pay for the evaluated clusters, and finds the prices at which they cost equally much.
#include "scenarios/src/sizing/size_choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "models/energy/energy.hpp"
#include "models/hardware/node.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr double kHoursOfChoiceDay = 24;

double used_hours(const Payment& payment) { return payment.days * kHoursOfChoiceDay; }

/// A way with its choice, and the part of its compared cost that is in proportion to the price of the choice.
struct PricedPayment {
  Payment payment;
  SizeChoice choice;
  double purchase_part = 0, money_part = 0;

  double cost(bool by_purchase) const { return by_purchase ? payment.cost : choice.money; }
  double part(bool by_purchase) const { return by_purchase ? purchase_part : money_part; }
};

/// Returns the value of the price of `varied` at which two choices cost equally much, if no other price changes. No
/// value: there is none above 0.
std::optional<double> equal_cost_price(const SizeChoice& varied, const PricedPayment& a, const PricedPayment& b,
                                       bool by_purchase) {
  const auto part = [&](const PricedPayment& each) {
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

  std::vector<PricedPayment> list(const std::string& model) {
    for (const auto* rows : {&answer_.rows, &answer_.other_networks})
      for (const SizeRow& row : *rows) {
        if (row.model != model) continue;
        // In a question of a purchase, a rent includes its network.
        if (rows == &answer_.rows || !answer_.purchase)
          for (const Payment& payment : rents_of(answer_, row)) add(payment);
        if (const std::optional<Payment> payment = purchase_of(answer_, row)) add(*payment);
      }
    sort_stably(best_, [](const PricedPayment& a, const PricedPayment& b) {
      if (a.choice.missed.empty() != b.choice.missed.empty()) return a.choice.missed.empty();
      return a.choice.money < b.choice.money;
    });
    return std::move(best_);
  }

 private:
  const SizeAnswer& answer_;
  const Prices& prices_;
  SizePrices size_prices_;
  std::vector<PricedPayment> best_;

  /// Takes the way if no other of its kind is better.
  void add(const Payment& payment) {
    const auto rank = [this](const Payment& w) {
      const bool is_late = w.needed_days() > answer_.days;
      return std::tuple(!meets_all(answer_, w), is_late, is_late ? w.end() : w.cost);
    };
    const auto other = std::ranges::find_if(best_, [&payment](const PricedPayment& listed) {
      return listed.payment.row->node == payment.row->node && listed.payment.row->beside == payment.row->beside &&
             listed.payment.terms == payment.terms;
    });
    if (other == best_.end())
      best_.push_back(priced(payment));
    else if (rank(payment) < rank(other->payment))
      *other = priced(payment);
  }

  PricedPayment priced(const Payment& payment) {
    PricedPayment priced{payment, choice_of_payment(answer_, payment)};
    SizeChoice& choice = priced.choice;
    const PricePart part = size_prices_.main_part(payment);
    choice.quantity = part.quantity;
    choice.price = part.price;
    priced.money_part = part.part;
    if (const Prices::Offer* offer = size_prices_.offer(payment);
        offer && offer->months > 0 && !part.quantity.empty()) {
      const double share = used_hours(payment) / reserved_hours(*offer, used_hours(payment)).cost;
      if (share < 1) choice.used_money = payment.cost - part.part * (1 - share);
    }
    if (payment.terms != kPurchase) return priced;
    const Ownership& o = *payment.row->ownership;
    priced.purchase_part = part.part * size_prices_.cost_of_price();
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

const NodeType& SizePrices::type(const std::string& node) {
  const auto found = types_.find(node);
  return found != types_.end()
             ? found->second
             : types_.emplace(node, read_node(catalog_.resolve("node", Node::scalar_node(node)), catalog_))
                   .first->second;
}

const Prices::Offer* SizePrices::offer(const Payment& payment) const {
  const auto found = std::ranges::find_if(
      prices_.offers, [&payment](const Prices::Offer& each) { return each.name() == payment.terms; });
  return found == prices_.offers.end() ? nullptr : &*found;
}

double SizePrices::network_part(const Payment& payment) {
  return payment.row->days() > 0 ? payment.row->network_cost * payment.days / payment.row->days() : 0;
}

PricePart SizePrices::nodes_part(const Payment& payment, bool by_quantity) {
  const SizeRow& row = *payment.row;
  const Ownership& o = *row.ownership;
  const double nodes_price = o.purchase_prices.at("nodes"), bought_nodes = bought_nodes_of(row);
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
    take(purchase.gpus, gpu_name(row.node), bought_nodes * type(row.node).gpus);
  return part;
}

PricePart SizePrices::main_part(const Payment& payment) {
  if (payment.terms.empty()) return {};
  if (payment.terms == kPurchase) return nodes_part(payment, true);
  if (payment.terms == "electricity")
    return {"kwh", prices_.kwh, payment.cost - (answer_.purchase ? 0 : network_part(payment))};
  const Prices::Offer* listed_offer = offer(payment);
  const double hours = listed_offer ? reserved_hours(*listed_offer, used_hours(payment)).cost : used_hours(payment);
  for (const std::string& name : {payment.row->node, gpu_name(payment.row->node)})
    for (const Prices::Rent& rent : listed_offer ? listed_offer->rents : prices_.rents) {
      if (!same_name(rent.name, name)) continue;
      const bool is_node_rent = rent.node_hour > 0;
      const double price = is_node_rent ? rent.node_hour : rent.gpu_hour;
      return {fmt::format("{} of {}{}", is_node_rent ? "node_hour" : "gpu_hour", rent.name,
                          listed_offer ? " (" + payment.terms + ")" : ""),
              price, hours * price * (is_node_rent ? payment.row->nodes : payment.row->gpus)};
    }
  return {};
}

std::vector<PricePart> SizePrices::parts(const Payment& payment) {
  std::vector<PricePart> all;
  const auto add = [&all](PricePart part) {
    if (!part.quantity.empty() && part.price > 0 && part.part != 0) all.push_back(std::move(part));
  };
  if (payment.terms == kPurchase) {
    for (PricePart& part : purchase_parts(payment)) add(std::move(part));
    return all;
  }
  const PricePart rent = main_part(payment);
  add(rent);
  if (payment.terms != "electricity" && !payment.terms.empty())
    add({"kwh", prices_.kwh, payment.cost - rent.part - network_part(payment)});
  return all;
}

std::vector<PricePart> SizePrices::purchase_parts(const Payment& payment) {
  std::vector<PricePart> all{nodes_part(payment, false)};
  const auto add = [&all](PricePart part) { all.push_back(std::move(part)); };
  const Purchase& purchase = prices_.purchase;
  const auto& bought = payment.row->ownership->purchase_prices;
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
  for (PricePart& part : all) part.part *= cost_of_price();
  if (answer_.total_years <= 0) return all;
  constexpr double percents = 100;
  const Ownership& o = *payment.row->ownership;
  const double years = answer_.total_years, price = o.price();
  add({"kwh at the site", purchase.kwh, years * (o.yearly.at("electricity") + o.yearly.at("cooling"))});
  add({"staff in %", percents * purchase.staff, years * price * purchase.staff});
  add({"space in %", percents * purchase.space, years * price * purchase.space});
  add({"kw_month", purchase.kw_month, years * (o.yearly.at("space") - price * purchase.space)});
  return all;
}

std::string late_delivery(const SizeAnswer& answer, const SizeChoice& choice) {
  for (const SizeRow& row : answer.rows)
    if (row.has_nodes_of(choice) && row.ownership && choice.terms == kPurchase)
      if (const double days = row.ownership->delivery / kSecondsOfDay; days >= answer.days && row.phases.empty())
        return fmt::format(", since it is delivered after {}", days_words(days));
  return "";
}

int bought_nodes_of(const SizeRow& row) { return row.nodes + row.beside_nodes - row.ownership->owned_nodes; }

SizeChoice choice_of_payment(const SizeAnswer& answer, const Payment& payment) {
  const SizeRow& row = *payment.row;
  SizeChoice choice;
  static_cast<ClusterName&>(choice) = row;
  choice.terms = payment.terms;
  choice.gpus = row.gpus;
  choice.days = payment.end();
  choice.on_time = payment.on_time(answer);
  if (row.doubt.exists()) {
    const StepRange range = DoubtModel::shipped().range(row.doubt, kLikely);
    choice.likely_days = {payment.end_at(range.low), payment.end_at(range.high)};
  }
  const double time = payment.grows ? (payment.end() - row.phases.front().begin_days) : payment.days;
  if (time > 0) choice.power = payment.energy / (time * kSecondsOfDay);
  choice.risk = row.risk;
  choice.missed = missed_by(answer, payment);
  choice.money = payment.cost;
  choice.tokens = row.tokens;
  if (payment.energy > 0) choice.tokens_per_joule = row.tokens / payment.energy;
  if (payment.terms != kPurchase) return choice;
  choice.money = row.ownership->training;
  choice.purchase = row.ownership->price();
  choice.total = row.ownership->total();
  return choice;
}

std::vector<SizeChoice> size_choices(const SizeAnswer& answer, const Prices& prices, const std::string& model,
                                     const Payment* decision) {
  std::vector<PricedPayment> all = ChoiceList(answer, prices).list(model);
  const auto decided =
      std::ranges::find_if(all, [&](const PricedPayment& each) { return decision && each.payment.is_same(*decision); });
  std::vector<SizeChoice> choices;
  for (PricedPayment& each : all) {
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
  for (PricedPayment& each : all) choices.push_back(std::move(each.choice));
  return choices;
}

}  // namespace trainyard
