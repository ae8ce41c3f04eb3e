#pragma once
#include <map>
#include <string>
#include <vector>

#include "models/hardware/node_type.hpp"
#include "models/reading/catalog.hpp"
#include "scenarios/src/sizing/size_payments.hpp"

namespace trainyard {

/// A price of the question, and the part of a cost that is in proportion to it.
struct PricePart {
  std::string quantity;  ///< as in SizeThreshold
  double price = 0, part = 0;
};

/// Finds the prices on which the costs of ways to pay depend.
class SizePrices {
 public:
  /// All arguments must outlive the prices.
  SizePrices(const SizeAnswer& answer, const Prices& prices) : answer_(answer), prices_(prices) {}

  /// Returns the price of the nodes or of electricity that a way depends on. No quantity: it depends on none. A price
  /// by quantity counts as the mean price.
  PricePart main_part(const Payment&);
  /// Returns what each unit of a purchase price adds to the compared cost: 1, or its share of owning for some years.
  double cost_of_price() const {
    return answer_.total_years > 0 ? prices_.purchase.yearly_share() * answer_.total_years : 1;
  }
  /// Lists all prices on which the cost of a way depends linearly. Prices by quantity are left out.
  std::vector<PricePart> parts(const Payment&);
  /// Returns the reserved or spot rent that a way pays. Null: it pays none.
  const Prices::Offer* offer(const Payment&) const;
  /// Returns the cost of owning the network during the training, which rents have beside them.
  static double network_part(const Payment&);
  const Purchase& purchase() const { return prices_.purchase; }

 private:
  const SizeAnswer& answer_;
  const Prices& prices_;
  const Catalog catalog_;
  std::map<std::string, NodeType> types_;  // indexed by name

  const NodeType& type(const std::string& node);
  const std::string& gpu_name(const std::string& node) { return type(node).gpu.name; }
  PricePart nodes_part(const Payment&, bool by_quantity);
  std::vector<PricePart> purchase_parts(const Payment&);
};

/// Lists the best choice of a model for each node type and way to pay: those that meet all conditions first, sorted by
/// the cost of the training. Marks the decision (null: there is none), and computes the prices at which the others cost
/// as much. The thresholds of the answer must be known.
std::vector<SizeChoice> size_choices(const SizeAnswer&, const Prices&, const std::string& model,
                                     const Payment* decision);
/// Returns the number of nodes of a row that are bought, if it has a purchase price.
int bought_nodes_of(const SizeRow&);
/// Says when the bought nodes of a choice come if that is after the deadline: ", since it is delivered after 120 days".
/// "": it is not.
std::string late_delivery(const SizeAnswer&, const SizeChoice&);
/// Returns the choice of a way, without its prices.
SizeChoice choice_of_payment(const SizeAnswer&, const Payment&);

/// Finds for each price and limit of the question the nearest values, below and above the present one, beyond which the
/// decision among these ways is another one. `ways` has the decision.
std::vector<SizeThreshold> decision_changes(const SizeAnswer&, const Prices&, const std::vector<Payment>& payments,
                                            const Payment& decision);

/// Writes a probability: "more than 99 %". `limit`: a value that the text reaches only if the probability does; 0:
/// none.
std::string chance_words(double probability, double limit = 0);
/// States the verdict. `decision` null: no way meets all conditions, and the answer has the nearest row.
SizeVerdict size_verdict(const SizeAnswer&, const std::vector<Payment>& payments, const Payment* decision);

}  // namespace trainyard
