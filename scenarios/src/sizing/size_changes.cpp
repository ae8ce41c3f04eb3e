// The prices and limits that change the decision of a question about sizes. Each quantity is varied by itself, and the
// decision is made again at each value at which another way to pay may become the best, so the listed changes are those
// that the question would have.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "scenarios/src/sizing/size_choices.hpp"
#include "scenarios/src/sizing/size_plans.hpp"

namespace trainyard {
namespace {

/// The decision is made again so far beyond a value, as a share of it.
constexpr double kBeyond = 1e-8;
/// The most terms of a reservation that are considered while the time of a node type varies.
constexpr int kMostTerms = 12;
constexpr double kHoursOfTimedDay = 24;
/// Values beyond these shares of the present one are no prices, times or limits that a question may have.
constexpr double kLeastShare = 0.02, kMostShare = 50;
// A price file may state shares up to this many per cent, and depreciation within these years.
constexpr double kMostPercent = 100, kLeastYears = 0.1, kMostYears = 50;
/// Two costs that differ less than this share are equal: any change of a price decides between them.
constexpr double kTie = 1e-9;

/// The cost of a way, and the least deadline that it meets.
struct PaymentFigures {
  double cost = 0, needed_days = 0;
};

/// A quantity of the question, and its effect.
struct VariedQuantity {
  std::string name;
  double value = 0;
  std::function<PaymentFigures(std::size_t payment, double value)> figures;
  std::function<SizeLimits(double value)> limits;
  std::vector<double> candidates;  ///< values at which the decision may change
  bool is_limit = false;           ///< the deadline or the budget: the present value itself may be the last
};

class ChangeFinder {
 public:
  ChangeFinder(const SizeAnswer& answer, const Prices& prices, const std::vector<Payment>& payments,
               const Payment& decision)
      : answer_(answer),
        prices_(answer, prices),
        payments_(payments),
        decided_(static_cast<std::size_t>(&decision - payments.data())) {
    for (const Payment& payment : payments) timed_.push_back({prices_.offer(payment), prices_.main_part(payment).part});
  }

  std::vector<SizeThreshold> find() {
    add_prices();
    add_limits();
    add_deliveries();
    add_times();
    add_tokens();
    add_site_power();
    add_interest();
    add_years();
    return std::move(all_);
  }

 private:
  const SizeAnswer& answer_;
  SizePrices prices_;
  const std::vector<Payment>& payments_;
  const std::size_t decided_;
  struct TimedCost {
    const Prices::Offer* offer = nullptr;
    double rent = 0;  ///< part of the cost that is paid by the hour, or for whole terms
  };
  std::vector<TimedCost> timed_;  // indexed by way
  std::vector<SizeThreshold> all_;

  PaymentFigures own_figures(std::size_t i) const { return {payments_[i].cost, payments_[i].needed_days()}; }

  VariedQuantity varied(const std::string& name, double value) const {
    return {name,
            value,
            [this](std::size_t i, double) { return own_figures(i); },
            [this](double) { return limits_of(answer_); },
            {},
            false};
  }

  /// Returns the index of the decision at a value. No value: no way meets all conditions.
  std::optional<std::size_t> decision_at(const VariedQuantity& quantity, double value) const {
    std::optional<std::size_t> best;
    double least_cost = 0;
    const SizeLimits limits = quantity.limits(value);
    for (std::size_t i = 0; i < payments_.size(); ++i) {
      const PaymentFigures figures = quantity.figures(i, value);
      if (!limits.admits(figures.cost, figures.needed_days)) continue;
      if (best && !is_better_payment(payments_[i], figures.cost, payments_[*best], least_cost)) continue;
      best = i;
      least_cost = figures.cost;
    }
    return best;
  }

  /// Records the nearest change below and above the value of a quantity.
  void add(VariedQuantity quantity) {
    std::vector<double>& values = quantity.candidates;
    std::erase_if(values, [&quantity](double value) {
      const double share = value / quantity.value;
      const bool is_whole = quantity.name.ends_with(" in %") && value > kMostPercent;
      return !(share >= kLeastShare) || share > kMostShare || is_whole ||
             (!quantity.is_limit && std::abs(share - 1) < kTie);
    });
    std::ranges::sort(values);
    for (auto value = std::upper_bound(values.begin(), values.end(), quantity.value); value != values.begin();)
      if (add_change(quantity, *--value, -kBeyond)) break;
    for (auto value = std::lower_bound(values.begin(), values.end(), quantity.value); value != values.end(); ++value)
      if (add_change(quantity, *value, kBeyond)) break;
  }

  bool add_change(const VariedQuantity& quantity, double value, double beyond) {
    const std::optional<std::size_t> next = decision_at(quantity, value * (1 + beyond));
    if (next == decided_) return false;
    const bool is_own_value = beyond < 0 && value >= quantity.value;
    SizeThreshold change;
    change.quantity = quantity.name;
    change.value = quantity.value;
    change.threshold = is_own_value ? std::nextafter(value, 0.0) : value;
    if (next) {
      const Payment& payment = payments_[*next];
      static_cast<ClusterName&>(change) = *payment.row;
      change.terms = payment.terms;
    }
    if (const SizeGap* gap = gap_at(quantity, value * (1 + beyond), next)) {
      static_cast<ClusterName&>(change) = *gap;
      change.nodes = gap->from;
      change.number = gap->words();
    }
    all_.push_back(std::move(change));
    return true;
  }

  /// Returns the gap of which a size may be the decision at a value instead of the way `next`. Null: no size may. A larger
  /// size takes no fewer node-days than the simulated one next to it, or than an efficient one (SizeGap). A smaller one
  /// takes more days than the present deadline, and may become the decision before `next` does.
  const SizeGap* gap_at(const VariedQuantity& quantity, double value, const std::optional<std::size_t>& next) const {
    const SizeGap* found = nullptr;
    const SizeLimits limits = quantity.limits(value);
    const double cost_of_next = next ? quantity.figures(*next, value).cost : HUGE_VAL,
                 own_cost = quantity.figures(decided_, value).cost;
    double least = HUGE_VAL;
    for (const SizeGap& gap : answer_.gaps)
      for (std::size_t i = 0; i < payments_.size(); ++i) {
        const SizeRow& row = *payments_[i].row;
        const int nodes = gap.efficient > 0 ? gap.efficient : gap.from;
        const bool is_of_gap =
            row.has_types_of(gap) && row.nodes == nodes && row.parameters == payments_[decided_].row->parameters;
        if (!is_of_gap) continue;
        const PaymentFigures figures = quantity.figures(i, value);
        const double share = static_cast<double>(gap.nodes) / gap.from;
        const double cost = gap.is_above() ? std::max(figures.cost, gap.least_cost) : figures.cost * share;
        const double days = gap.is_above()
                                ? figures.needed_days * nodes / gap.most
                                : figures.needed_days * answer_.days / payments_[i].needed_days() * (1 + kTie);
        const double most = gap.is_above() ? cost_of_next : own_cost;
        if (cost >= std::min(least, most * (1 - kTie)) || !limits.admits(cost, days)) continue;
        found = &gap;
        least = cost;
      }
    return found;
  }

  void add_prices() {
    std::vector<std::string> names;
    std::map<std::string, double> values;
    std::map<std::string, std::vector<double>> parts;  // the part of the cost of each way that follows a price
    for (std::size_t i = 0; i < payments_.size(); ++i)
      for (const PricePart& part : prices_.parts(payments_[i])) {
        if (values.try_emplace(part.quantity, part.price).second) {
          names.push_back(part.quantity);
          parts[part.quantity].resize(payments_.size());
        }
        parts[part.quantity][i] = part.part;
      }
    for (const std::string& name : names) {
      const double value = values[name];
      const std::vector<double>& part = parts[name];
      VariedQuantity quantity = varied(name, value);
      quantity.figures = [this, &part, value](std::size_t i, double price) {
        return PaymentFigures{payments_[i].cost + part[i] * (price / value - 1), payments_[i].needed_days()};
      };
      const double cost = payments_[decided_].cost;
      for (std::size_t i = 0; i < payments_.size(); ++i) {
        const double other = payments_[i].cost;
        if (part[i] != part[decided_])
          quantity.candidates.push_back(value * (1 + (other - cost) / (part[decided_] - part[i])));
        if (answer_.budget > 0 && part[i] != 0)
          quantity.candidates.push_back(value * (1 + (answer_.budget - other) / part[i]));
      }
      add(std::move(quantity));
    }
  }

  void add_limits() {
    VariedQuantity deadline = varied("deadline", answer_.days), budget = varied("budget", answer_.budget);
    deadline.limits = [this](double days) { return SizeLimits{days, answer_.budget}; };
    budget.limits = [this](double money) { return SizeLimits{answer_.days, money}; };
    deadline.is_limit = budget.is_limit = true;
    for (const Payment& payment : payments_) {
      deadline.candidates.push_back(payment.needed_days());
      budget.candidates.push_back(payment.cost);
    }
    add(std::move(deadline));
    if (answer_.budget > 0) add(std::move(budget));
  }

  /// Varies the time until the last nodes of a type are delivered. Those of earlier batches come as before.
  void add_deliveries() {
    std::map<std::string, double> waits;  // indexed by node type
    for (const Payment& payment : payments_)
      if (payment.wait > 0) waits[payment.row->node] = std::max(waits[payment.row->node], payment.wait);
    for (const auto& [node, wait] : waits) {
      VariedQuantity delivery = varied(fmt::format("delivery of {} in days", node), wait);
      const auto waits_as = [this, type = node, wait = wait](std::size_t i) {
        return payments_[i].row->node == type && payments_[i].wait == wait;
      };
      const auto needed_at = [this](std::size_t i, double days) {
        Payment moved = payments_[i];
        moved.wait = moved.grows ? std::max(days, moved.row->phases.back().begin_days) : days;
        return moved.needed_days();
      };
      delivery.figures = [this, waits_as, needed_at](std::size_t i, double days) {
        return PaymentFigures{payments_[i].cost, waits_as(i) ? needed_at(i, days) : payments_[i].needed_days()};
      };
      for (std::size_t i = 0; i < payments_.size(); ++i) {
        if (!waits_as(i)) continue;
        if (!payments_[i].grows)
          delivery.candidates.push_back(answer_.days - payments_[i].days * payments_[i].longest);
        else if (const auto days = root(wait * kLeastShare, wait * kMostShare,
                                        [&](double value) { return needed_at(i, value) - answer_.days; }))
          delivery.candidates.push_back(*days);
      }
      add(std::move(delivery));
    }
  }

  /// Varies the training time on each node type, or on two types in one job, in per cent of the simulated one: an error
  /// of the simulation. Rents change with the time, purchase prices do not.
  void add_times() {
    std::set<std::string> nodes;
    for (const Payment& payment : payments_) nodes.insert(types_in_words(*payment.row));
    for (const std::string& node : nodes) {
      VariedQuantity time = varied(fmt::format("time of {} in % of the simulated", node), 100);
      time.figures = [this, &node](std::size_t i, double percent) { return scaled(i, node, percent / 100); };
      for (const double factor : time_factors(node)) time.candidates.push_back(100 * factor);
      add(std::move(time));
    }
  }

  /// Varies the tokens of the training: all times are in proportion to them.
  void add_tokens() {
    const double tokens = payments_[decided_].row->tokens;
    const bool is_one_length = std::ranges::all_of(payments_, [tokens](const Payment& payment) {
      constexpr double last_step = 0.01;  // the last step is a whole one
      return std::abs(payment.row->tokens - tokens) <= last_step * tokens;
    });
    if (tokens <= 0 || !is_one_length) return;
    VariedQuantity varied_tokens = varied("tokens", tokens);
    varied_tokens.figures = [this, tokens](std::size_t i, double value) { return scaled(i, "", value / tokens); };
    for (const double factor : time_factors("")) varied_tokens.candidates.push_back(tokens * factor);
    add(std::move(varied_tokens));
  }

  /// Returns the most power that the site provides for the nodes of a row, W. Infinite: that of a type is not known.
  double site_power(const SizeRow& row) const {
    const auto of_nodes = [this](const std::string& node, int nodes) {
      for (const SiteLimit& limit : answer_.site_limits)
        if (limit.node == node) return nodes * limit.node_power * limit.pue;
      return HUGE_VAL;
    };
    return of_nodes(row.node, row.nodes) + (row.beside.empty() ? 0 : of_nodes(row.beside, row.beside_nodes));
  }

  /// Varies the power of the site. More of it changes nothing among the simulated sizes, which all have room.
  void add_site_power() {
    constexpr double kilo = 1e3;
    const double power = answer_.site_limits.empty() ? 0 : answer_.site_limits.front().site_power;
    if (power <= 0 || !std::isfinite(site_power(*payments_[decided_].row))) return;
    VariedQuantity quantity = varied("power of the site in kW", power / kilo);
    quantity.is_limit = true;
    quantity.figures = [this](std::size_t i, double kilowatts) {
      PaymentFigures figures = own_figures(i);
      if (const double needed = site_power(*payments_[i].row); std::isfinite(needed) && needed > kilowatts * kilo)
        figures.needed_days = HUGE_VAL;
      return figures;
    };
    for (const Payment& payment : payments_) quantity.candidates.push_back(site_power(*payment.row) / kilo);
    add(std::move(quantity));
  }

  /// Returns the value of a quantity at which a function that grows or falls with it is 0. No value: at none that a
  /// question may have.
  static std::optional<double> root(double low, double high, const std::function<double(double)>& function) {
    constexpr int halvings = 60;
    const bool begins_below = function(low) < 0;
    if (begins_below == (function(high) < 0)) return std::nullopt;
    for (int i = 0; i < halvings; ++i) {
      const double middle = (low + high) / 2;
      ((function(middle) < 0) == begins_below ? low : high) = middle;
    }
    return (low + high) / 2;
  }

  /// Varies the interest, by which a network beside rented nodes costs more or less, or owning a cluster. No purchase
  /// price depends on it.
  void add_interest() {
    const Purchase& purchase = prices_.purchase();
    const double interest = purchase.interest, share = purchase.yearly_share();
    if ((answer_.purchase && answer_.total_years <= 0) || interest <= 0) return;
    std::vector<double> part;  // the yearly share of a price in the cost of each way
    for (const Payment& payment : payments_)
      part.push_back(answer_.total_years > 0 ? payment.row->ownership->price() * share * answer_.total_years
                                             : SizePrices::network_part(payment));
    const auto share_at = [&purchase](double percent) {
      Purchase other = purchase;
      other.interest = percent / 100;
      return other.yearly_share();
    };
    VariedQuantity quantity = varied("interest in %", interest * 100);
    quantity.figures = [this, &part, share, share_at](std::size_t i, double percent) {
      return PaymentFigures{payments_[i].cost + part[i] * (share_at(percent) / share - 1), payments_[i].needed_days()};
    };
    const auto add_candidate = [&](double wanted_share) {
      const auto value = root(1e-6, kMostPercent, [&](double percent) { return share_at(percent) - wanted_share; });
      if (value) quantity.candidates.push_back(*value);
    };
    for (std::size_t i = 0; i < payments_.size(); ++i) {
      if (part[i] != part[decided_])
        add_candidate(share * (1 + (payments_[i].cost - payments_[decided_].cost) / (part[decided_] - part[i])));
      if (answer_.budget > 0 && part[i] > 0)
        add_candidate(share * (1 + (answer_.budget - payments_[i].cost) / part[i]));
    }
    add(std::move(quantity));
  }

  /// Varies the years of depreciation, for which a cluster is owned: a dear one that runs cheaply needs time.
  void add_years() {
    const double years = answer_.total_years;
    if (years <= 0) return;
    const Purchase& purchase = prices_.purchase();
    const auto cost_at = [this, &purchase](std::size_t i, double value) {
      Purchase other = purchase;
      other.years = value;
      const Ownership& o = *payments_[i].row->ownership;
      return value * (o.year() + o.price() * (other.yearly_share() - purchase.yearly_share()));
    };
    VariedQuantity quantity = varied("depreciation in years", years);
    quantity.figures = [this, cost_at](std::size_t i, double value) {
      return PaymentFigures{cost_at(i, value), payments_[i].needed_days()};
    };
    const auto add_candidate = [&](const std::function<double(double)>& function) {
      if (const auto value = root(kLeastYears, kMostYears, function)) quantity.candidates.push_back(*value);
    };
    for (std::size_t i = 0; i < payments_.size(); ++i) {
      if (i != decided_)
        add_candidate([&](double value) { return (cost_at(i, value) - cost_at(decided_, value)) / value; });
      if (answer_.budget > 0) add_candidate([&](double value) { return cost_at(i, value) - answer_.budget; });
    }
    add(std::move(quantity));
  }

  /// Returns true if a way trains on these types of nodes. `node` empty: any way does.
  static bool is_on(const Payment& payment, const std::string& node) {
    return node.empty() || types_in_words(*payment.row) == node;
  }

  PaymentFigures scaled(std::size_t i, const std::string& node, double factor) const {
    const Payment& payment = payments_[i];
    if (!is_on(payment, node)) return own_figures(i);
    return {scaled_cost(payment, timed_[i], factor), payment.end_at(payment.longest * factor)};
  }

  /// Returns the cost of a way if its training takes `factor` times as long.
  static double scaled_cost(const Payment& payment, const TimedCost& timed, double factor) {
    if (payment.terms == kPurchase) return payment.cost;
    if (!timed.offer || timed.offer->months <= 0) return payment.cost * factor;
    const double hours = payment.days * kHoursOfTimedDay;
    return (payment.cost - timed.rent) * factor +
           timed.rent * reserved_hours(*timed.offer, hours * factor).cost / reserved_hours(*timed.offer, hours).cost;
  }

  /// Returns the factor of the time of a way at which it ends at the deadline.
  double latest_factor(const Payment& payment) const { return payment.done(answer_.days) / payment.longest; }

  /// Lists the factors at which the decision may change: a way misses the deadline, a reserved term ends, or two costs, or a
  /// cost and the budget, are equal. Costs are linear between the ends of terms.
  std::vector<double> time_factors(const std::string& node) const {
    const Payment& decision = payments_[decided_];
    const double most = is_on(decision, node) ? std::max(1.0, latest_factor(decision)) : 1;
    std::vector<double> all;
    std::set<double> ends{0, most};
    for (const Payment& payment : payments_) {
      if (!is_on(payment, node)) continue;
      all.push_back(latest_factor(payment));
      const Prices::Offer* offer = prices_.offer(payment);
      for (int terms = 1; offer && offer->months > 0 && terms <= kMostTerms; ++terms)
        if (const double end = terms * offer->months * kHoursOfMonth / (payment.days * kHoursOfTimedDay); end < most)
          ends.insert(end);
    }
    all.insert(all.end(), ends.begin(), ends.end());
    for (auto end = std::next(ends.begin()); end != ends.end(); ++end) {
      const double begin = *std::prev(end), first = begin + (*end - begin) / 3, second = begin + 2 * (*end - begin) / 3;
      const double cost = scaled(decided_, node, first).cost, next_cost = scaled(decided_, node, second).cost;
      const auto cross = [&](double difference, double next_difference) {
        if (difference == next_difference) return;
        const double crossing = first + difference * (second - first) / (difference - next_difference);
        if (crossing >= begin && crossing <= *end) all.push_back(crossing);
      };
      for (std::size_t i = 0; i < payments_.size(); ++i) {
        const double other = scaled(i, node, first).cost, next_other = scaled(i, node, second).cost;
        cross(other - cost, next_other - next_cost);
        if (answer_.budget > 0) cross(other - answer_.budget, next_other - answer_.budget);
      }
    }
    return all;
  }
};

}  // namespace

std::vector<SizeThreshold> decision_changes(const SizeAnswer& answer, const Prices& prices,
                                            const std::vector<Payment>& payments, const Payment& decision) {
  return ChangeFinder(answer, prices, payments, decision).find();
}

}  // namespace trainyard
