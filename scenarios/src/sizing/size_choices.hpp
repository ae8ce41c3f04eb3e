#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/sizing/size_answer.hpp"

namespace trainyard {

/// The name of the way to pay for a cluster that is bought.
constexpr const char* kPurchase = "purchase";

/// A choice with the parts of its costs that are in proportion to its price.
struct PricedChoice {
  SizeChoice choice;
  const SizeRow* row = nullptr;
  double money_part = 0, purchase_part = 0;
  std::ptrdiff_t next = -1;  ///< index of the choice that costs as much at the decision's break-even; -1: there is none

  /// Returns its purchase price, or the cost of the training.
  double cost(bool by_purchase) const { return by_purchase ? choice.purchase : choice.money; }
  double part(bool by_purchase) const { return by_purchase ? purchase_part : money_part; }
  /// Returns true if the choice is of the kind that the question asks for, rent or purchase, and meets all conditions.
  bool is_eligible(const SizeAnswer& answer) const {
    return choice.missed.empty() && answer.purchase == (choice.terms == kPurchase);
  }
};

/// Returns the choice of a row, without its way to pay. The training takes `days` days after a delivery of `wait` days.
SizeChoice choice_of_row(const SizeAnswer&, const SizeRow&, double days, double wait);

/// Returns the value of the price of `varied` at which two choices cost equally much, if no other price changes. No
/// value: there is none above 0.
std::optional<double> equal_cost_price(const SizeChoice& varied, const PricedChoice& a, const PricedChoice& b,
                                       bool by_purchase);

/// Lists the best choice of a model for each node type and way to pay: those that meet all conditions first, sorted by
/// the cost of the training. Marks the decision, and computes the prices at which the others cost as much.
std::vector<PricedChoice> priced_choices(const SizeAnswer&, const Prices&, const std::string& model);

}  // namespace trainyard
