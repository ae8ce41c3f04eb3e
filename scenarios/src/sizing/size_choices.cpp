// Compares the ways to pay for the evaluated clusters, and finds the prices at which they cost equally much.
#include "scenarios/src/sizing/size_choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/energy/energy.hpp"
#include "models/hardware/node.hpp"
#include "models/reading/catalog.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

/// Collects the best choice for each node type and way to pay.
class ChoiceList {
 public:
  ChoiceList(const SizeAnswer& answer, const Prices& prices) : answer_(answer), prices_(prices) {}

  std::vector<PricedChoice> list(const std::string& model) {
    for (const SizeRow& row : answer_.rows) {
      if (!row.good() || row.model != model) continue;
      add_rents(row);
      if (row.ownership) add_purchase(row, *row.ownership);
    }
    // Purchases may take another one of the compared networks. All rents are compared on the counted network.
    for (const SizeRow& row : answer_.other_networks)
      if (answer_.purchase && row.model == model && row.ownership) add_purchase(row, *row.ownership);
    sort_stably(best_, [](const PricedChoice& a, const PricedChoice& b) {
      if (a.choice.missed.empty() != b.choice.missed.empty()) return a.choice.missed.empty();
      return a.choice.money < b.choice.money;
    });
    return std::move(best_);
  }

 private:
  const SizeAnswer& answer_;
  const Prices& prices_;
  const Catalog catalog_;
  std::map<std::string, std::string> gpu_names_;  // indexed by node type
  std::vector<PricedChoice> best_;

  const std::string& gpu_name(const std::string& node) {
    const auto [found, is_new] = gpu_names_.try_emplace(node);
    if (is_new) found->second = read_node(catalog_.resolve("node", Node::scalar_node(node)), catalog_).gpu.name;
    return found->second;
  }

  void add_rents(const SizeRow& row) {
    std::vector<RentCost> rents = row.rents;
    if (rents.empty() && row.money > 0) {
      RentCost& rent = rents.emplace_back();
      rent.terms = prices_.rents.empty() ? "electricity" : "on demand";
      rent.training = row.money;
      rent.time = row.time;
    }
    for (const RentCost& rent : rents) {
      if (!rent.error.empty()) continue;
      PricedChoice priced{choice_of_row(answer_, row, rent.time / kSecondsOfDay, 0), &row};
      priced.choice.terms = rent.terms;
      priced.choice.money = rent.training;
      take_rent(rent, priced);
      add(std::move(priced), rent.training);
    }
  }

  /// Sets the name of the rent that a choice pays, and its part of the costs.
  void take_rent(const RentCost& rent, PricedChoice& priced) {
    SizeChoice& choice = priced.choice;
    if (rent.terms == "electricity") {
      choice.quantity = "kwh";
      choice.price = prices_.kwh;
      priced.money_part = choice.money - (answer_.purchase ? 0 : priced.row->network_cost);
      return;
    }
    const auto offer =
        std::find_if(prices_.offers.begin(), prices_.offers.end(),
                     [&rent](const Prices::Offer& listed_offer) { return listed_offer.name() == rent.terms; });
    const bool is_offer = offer != prices_.offers.end();
    constexpr double hour = 3600;
    const double hours = is_offer ? reserved_hours(*offer, rent.time / hour).cost : rent.time / hour;
    for (const std::string& name : {choice.node, gpu_name(choice.node)})
      for (const Prices::Rent& listed_rent : is_offer ? offer->rents : prices_.rents) {
        if (!same_name(listed_rent.name, name)) continue;
        const bool is_node_rent = listed_rent.node_hour > 0;
        choice.quantity = fmt::format("{} of {}{}", is_node_rent ? "node_hour" : "gpu_hour", listed_rent.name,
                                      is_offer ? " (" + rent.terms + ")" : "");
        choice.price = is_node_rent ? listed_rent.node_hour : listed_rent.gpu_hour;
        priced.money_part = hours * choice.price * (is_node_rent ? choice.nodes : choice.gpus);
        return;
      }
  }

  void add_purchase(const SizeRow& row, const Ownership& o) {
    PricedChoice priced{choice_of_row(answer_, row, row.days(), o.delivery / kSecondsOfDay), &row};
    SizeChoice& choice = priced.choice;
    choice.terms = kPurchase;
    choice.money = o.training;
    choice.purchase = o.price();
    const double nodes_price = o.purchase_prices.at("nodes"), bought_nodes = row.nodes - o.owned_nodes;
    if (nodes_price > 0 && bought_nodes > 0) {
      const Purchase& purchase = prices_.purchase;
      const auto take = [&](const auto& names, const std::string& wanted, double pieces) {
        for (const auto& [name, steps] : names)
          if (choice.quantity.empty() && same_name(name, wanted)) {
            choice.quantity = "purchase of " + name;
            choice.price = nodes_price / pieces;
          }
      };
      take(purchase.nodes, row.node, bought_nodes);
      take(purchase.gpus, gpu_name(row.node), bought_nodes * row.gpus / row.nodes);
      priced.purchase_part = nodes_price;
      const double share_of_year =
          (o.yearly.at("depreciation") + o.yearly.at("interest")) / choice.purchase + purchase.staff + purchase.space;
      if (o.year() > 0) priced.money_part = o.training / o.year() * share_of_year * nodes_price;
    }
    add(std::move(priced), choice.purchase);
  }

  /// Compares the expense with the budget, and takes the choice if no other of its kind is better.
  void add(PricedChoice priced, double expense) {
    SizeChoice& choice = priced.choice;
    if (answer_.budget > 0 && expense > answer_.budget)
      choice.missed += choice.missed.empty() ? "budget" : " and budget";
    const auto other = std::find_if(best_.begin(), best_.end(), [&choice](const PricedChoice& listed) {
      return listed.choice.node == choice.node && listed.choice.terms == choice.terms;
    });
    if (other == best_.end())
      best_.push_back(std::move(priced));
    else if (is_better(priced, *other))
      *other = std::move(priced);
  }

  bool is_better(const PricedChoice& a, const PricedChoice& b) const {
    const auto rank = [](const SizeChoice& c) { return c.missed.empty() ? 0 : c.missed == "budget" ? 1 : 2; };
    if (rank(a.choice) != rank(b.choice)) return rank(a.choice) < rank(b.choice);
    if (rank(a.choice) == 2) return a.choice.days < b.choice.days;
    const bool by_purchase = answer_.purchase && a.choice.terms == kPurchase;
    return a.cost(by_purchase) < b.cost(by_purchase);
  }
};

}  // namespace

SizeChoice choice_of_row(const SizeAnswer& answer, const SizeRow& row, double days, double wait) {
  SizeChoice choice;
  choice.model = row.model;
  choice.node = row.node;
  choice.nodes = row.nodes;
  choice.gpus = row.gpus;
  choice.network = row.network;
  choice.days = wait + days;
  choice.on_time = on_time_probability(answer, row, days, wait);
  if (row.doubt.exists()) {
    const StepRange range = DoubtModel::shipped().range(row.doubt, kLikely);
    choice.likely_days = {wait + days * range.low, wait + days * range.high};
  }
  if (row.time > 0) choice.power = row.energy / row.time;
  if (!ends_in_time(answer, row, days, wait)) choice.missed = "deadline";
  return choice;
}

std::optional<double> equal_cost_price(const SizeChoice& varied, const PricedChoice& a, const PricedChoice& b,
                                       bool by_purchase) {
  const auto part = [&](const PricedChoice& each) {
    return each.choice.quantity == varied.quantity ? each.part(by_purchase) : 0;
  };
  if (varied.quantity.empty() || part(a) == part(b)) return std::nullopt;
  const double price = varied.price * (1 + (b.cost(by_purchase) - a.cost(by_purchase)) / (part(a) - part(b)));
  return price > 0 ? std::optional<double>(price) : std::nullopt;
}

std::vector<PricedChoice> priced_choices(const SizeAnswer& answer, const Prices& prices, const std::string& model) {
  std::vector<PricedChoice> all = ChoiceList(answer, prices).list(model);
  PricedChoice* decision = nullptr;
  for (PricedChoice& priced : all)
    if (priced.is_eligible(answer) && (!decision || priced.cost(answer.purchase) < decision->cost(answer.purchase)))
      decision = &priced;
  if (!decision) return all;
  decision->choice.decision = true;
  for (PricedChoice& priced : all) {
    if (&priced == decision) continue;
    const bool by_purchase = answer.purchase && priced.choice.terms == kPurchase;
    if (priced.choice.missed.empty() || priced.choice.missed == "budget")
      priced.choice.break_even = equal_cost_price(priced.choice, *decision, priced, by_purchase);
    if (!priced.is_eligible(answer)) continue;
    const auto limit = equal_cost_price(decision->choice, *decision, priced, by_purchase);
    std::optional<double>& nearest_limit = decision->choice.break_even;
    if (limit && *limit >= decision->choice.price && (!nearest_limit || *limit < *nearest_limit)) {
      nearest_limit = limit;
      decision->next = &priced - all.data();
    }
  }
  return all;
}

}  // namespace trainyard
