#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/sizing/size_answer.hpp"

namespace trainyard {

/// The name of the way to pay for a cluster that is bought.
constexpr const char* kPurchase = "purchase";

/// A cluster with a way to pay for it.
struct Payment {
  const SizeRow* row = nullptr;
  std::string terms;   ///< as in SizeChoice; empty: there are no prices, and device-hours are the cost
  double days = 0;     ///< days of the training
  double wait = 0;     ///< days until all of its nodes are delivered
  double goodput = 1;  ///< useful share of these days
  double energy = 0;   ///< energy of the site, J; 0: unknown
  double cost = 0;     ///< cost of the training, purchase price, cost of owning (`total_years`), or device-hours
  double longest = 1;  ///< the days may be so many times longer, with the requested probability

  bool grows = false;  ///< it begins on the first delivered nodes, with the phases of the row

  /// Returns the day on which it ends if all times are so many times longer.
  double end_at(double factor) const;
  /// Returns the part of the training that is done by a day; above 1: it ends before.
  double done(double day) const;
  double end() const { return end_at(1); }
  /// The least deadline that it meets, with the requested probability.
  double needed_days() const { return end_at(longest); }
  std::optional<double> on_time(const SizeAnswer&) const;  ///< probability that it meets the deadline
  bool is_same(const Payment& other) const { return row == other.row && terms == other.terms; }
};

/// List the ways to rent the cluster of a row, and to buy it. A job beside owned nodes has no rents.
std::vector<Payment> rents_of(const SizeAnswer&, const SizeRow&);
std::optional<Payment> purchase_of(const SizeAnswer&, const SizeRow&);
/// Lists the ways to pay for all rows, also on the networks that are not counted.
std::vector<Payment> payments_of(const SizeAnswer&);

/// The deadline and the budget of a question. Budget 0: there is none.
struct SizeLimits {
  double days = 0, budget = 0;
  bool admits(double cost, double needed_days) const { return needed_days <= days && (budget <= 0 || cost <= budget); }
};
SizeLimits limits_of(const SizeAnswer&);
bool meets_all(const SizeAnswer&, const Payment&);
/// Names the conditions that a way misses: "deadline", "budget", "deadline and budget"; "": none.
std::string missed_by(const SizeAnswer&, const Payment&);

/// Returns true if the first of two ways that meet all conditions is the better one: a larger model, or else less cost.
bool is_better_payment(const Payment& a, double cost_of_a, const Payment& b, double cost_of_b);
/// Returns the decision among ways: the best of those that meet all conditions. Null: none does.
const Payment* decided_payment(const SizeAnswer&, const std::vector<Payment>&);
/// Returns the way by which a row is judged: the decision among its own, else the cheapest in time, else the cheapest. No
/// value: there is no way to pay for it.
std::optional<Payment> best_payment(const SizeAnswer&, const SizeRow&);
/// Returns true if `a` is the better row. Rows that meet the deadline are better than late ones. Of rows in time the
/// cheaper is better, of late rows the faster.
bool is_better_row(const SizeAnswer&, const SizeRow& a, const SizeRow& b);
/// Makes the figures of a row those of a way to pay for it.
void apply_payment(const SizeAnswer&, const Payment&, SizeRow&);

}  // namespace trainyard
