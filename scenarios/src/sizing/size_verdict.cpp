// The verdict of `trainyard size`: the decision, its reason, and what would change it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "scenarios/src/answer/memory_verdict.hpp"
#include "scenarios/src/reading/training_length.hpp"
#include "scenarios/src/search/plan_answer.hpp"
#include "scenarios/src/sizing/size_choices.hpp"
#include "scenarios/src/sizing/size_gaps.hpp"
#include "scenarios/src/studies/measured/ratio_doubt.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

std::string number_of_days(double days) {
  constexpr double many = 100;
  return days >= many ? fmt::format("{:.0f}", days) : fmt::format("{:.3g}", days);
}

std::string day_words(double days) { return days < 0.1 ? days_words(days) : number_of_days(days) + " days"; }

std::string power_words(double watts) {
  constexpr double kilo = 1e3, mega = 1e6;
  return watts >= mega ? fmt::format("{:.3g} MW", watts / mega) : fmt::format("{:.3g} kW", watts / kilo);
}

}  // namespace

std::string days_cell(double days) {
  constexpr double seconds = 86400;
  return days > 0 && days < 0.1 ? long_time(Seconds{days * seconds}) : fmt::format("{:.1f}", days);
}

std::string days_words(double days) { return days_cell(days) + (days > 0 && days < 0.1 ? "" : " days"); }

namespace {
/// Writes a deadline that these days meet, as `--days` takes it: "25.1 days", "0.00129 days".
std::string deadline_words(double days) {
  constexpr double tenths = 10;
  if (days >= 1) return fmt::format("{:.1f} days", std::ceil(days * tenths) / tenths);
  const double unit = std::pow(10, std::floor(std::log10(days)) - 2);
  return fmt::format("{:.3g} days", std::ceil(days / unit) * unit);
}

/// Ends of the names of quantities that have a unit of their own.
constexpr const char *kOfSimulated = " in % of the simulated", *kInDays = " in days", *kInKilowatts = " in kW",
                     *kInPercent = " in %", *kInYears = " in years";

/// Writes tokens with the letters that `--tokens` takes: "2.31T".
std::string tokens_in_words(double tokens) {
  constexpr double tera = 1e12, giga = 1e9, mega = 1e6;
  return tokens >= tera   ? fmt::format("{:.4g}T", tokens / tera)
         : tokens >= giga ? fmt::format("{:.4g}B", tokens / giga)
                          : fmt::format("{:.4g}M", tokens / mega);
}
}  // namespace

// The texts do not say GPU, because the chips may be of another kind.
std::string quantity_words(const std::string& quantity) {
  const auto name_after = [&quantity](const char* beginning) {
    const std::string begin = beginning;
    return quantity.starts_with(begin) ? quantity.substr(begin.size()) : std::string();
  };
  if (const std::string name = name_after("gpu_hour of "); !name.empty()) return "hourly rent of " + name;
  if (const std::string name = name_after("node_hour of "); !name.empty()) return "hourly rent of a node " + name;
  if (const std::string name = name_after("purchase of "); !name.empty()) return "price of " + name;
  if (quantity.ends_with(kInYears)) return "time of depreciation";
  if (quantity == "kw_month") return "price of space for a kW and month";
  for (const char* end : {kOfSimulated, kInDays, kInKilowatts, kInPercent})
    if (quantity.ends_with(end)) {
      const std::string begin = quantity.substr(0, quantity.size() - std::strlen(end));
      return begin.starts_with("time of ") ? "time of the training on " + begin.substr(8) : begin;
    }
  if (quantity == "tokens") return "length of the training";
  return quantity.starts_with("kwh") ? "price of a kWh" + quantity.substr(3) : quantity;
}

std::string quantity_value(const std::string& quantity, double value) {
  return quantity == "tokens" ? tokens_in_words(value) : full_number(value);
}

std::string quantity_amount(const SizeAnswer& answer, const std::string& quantity, double value) {
  if (quantity == "tokens") return tokens_in_words(value) + " tokens";
  if (quantity.ends_with(kInKilowatts)) return full_number(value) + " kW";
  if (quantity.ends_with(kInPercent)) return full_number(value) + " %";
  if (quantity.ends_with(kInYears)) return full_number(value) + " years";
  if (quantity.ends_with(kOfSimulated)) return full_number(value) + " % of the simulated";
  if (quantity != "deadline" && !quantity.ends_with(kInDays)) return full_number(value) + " " + answer.currency;
  return value < 0.1 ? days_words(value) : full_number(value) + (value == 1 ? " day" : " days");
}

std::string chance_words(double probability, double limit) {
  constexpr double sure = 0.995, impossible = 0.005;
  return probability > sure         ? "more than 99 %"
         : probability < impossible ? "less than 1 %"
                                    : percent_short_of(probability, limit);
}

namespace {

/// Says what limits the nodes of a rack: " by its power".
const char* rack_limit_words(const std::string& key) {
  return key == "rack_power" ? " by its power" : key == "rack_units" ? " by its units" : "";
}

/// Describes the time of a choice with its interval, its risks and its power. Less than a tenth of a day is in minutes.
std::string time_words(const SizeChoice& c, const Payment& payment, double confidence) {
  const auto [unit, of_day] = c.days < 0.1 ? std::pair{"minutes", 1440.0} : std::pair{"days", 1.0};
  std::string text = fmt::format("{} {}", number_of_days(c.days * of_day), unit);
  if (payment.grows)
    text += fmt::format(", as the nodes are delivered ({} after {} {unit}, all after {}{})",
                        counted_noun(payment.row->phases.front().nodes, "node"),
                        number_of_days(payment.row->phases.front().begin_days * of_day),
                        number_of_days(payment.wait * of_day), payment.wait > c.days ? ", when it has ended" : "",
                        fmt::arg("unit", unit));
  else if (payment.wait > 0)
    text += fmt::format(", of which {} for the delivery", number_of_days(payment.wait * of_day));
  if (c.likely_days)
    text += fmt::format(" ({} to {} with a probability of {})", number_of_days(c.likely_days->front() * of_day),
                        number_of_days(c.likely_days->back() * of_day), percent(kLikely, 0));
  if (c.on_time) text += ", in time with a probability of " + chance_words(*c.on_time, confidence);
  if (c.power > 0) text += ", " + power_words(c.power) + " on average";
  if (const SizeRow& row = *payment.row; row.racks > 0)
    text += fmt::format(", in {} of at most {}{}", counted_noun(row.racks, "rack"),
                        counted_noun(row.nodes_of_rack, "node"), rack_limit_words(row.rack_limit));
  if (!is_safe_risk(c.risk))
    text += fmt::format(", at risk: out of memory with a probability of {}", chance_words(c.risk));
  return text;
}

/// "rent", "purchase" or "size": what the question decides among.
const char* kind_of(const Payment& payment) {
  return payment.terms.empty() ? "size" : payment.terms == kPurchase ? "purchase" : "rent";
}

/// Returns the probability that the first of two ways costs less, by the doubt of their times. Costs of rents follow the
/// time; those of purchases and of reserved terms do not. No value: neither cost follows a doubtful time.
std::optional<double> cheaper_probability(const Payment& a, const Payment& b) {
  const auto follows_time = [](const Payment& payment) {
    return payment.row->doubt.exists() && payment.terms != kPurchase && !payment.terms.starts_with("reserved");
  };
  const DoubtModel& model = DoubtModel::shipped();
  if (follows_time(a) && follows_time(b)) {
    const bool is_one_training =
        a.row->node == b.row->node && a.row->nodes == b.row->nodes && a.row->beside == b.row->beside;
    if (is_one_training) return std::nullopt;
    return probability_of_longer(a.cost, a.row->doubt, b.cost, b.row->doubt);
  }
  if (follows_time(a)) return model.probability_within(a.row->doubt, b.cost / a.cost);
  if (follows_time(b)) return 1 - model.probability_within(b.row->doubt, a.cost / b.cost);
  return std::nullopt;
}

class VerdictWriter {
 public:
  VerdictWriter(const SizeAnswer& answer, const std::vector<Payment>& payments, const Payment* decision)
      : answer_(answer), payments_(payments), decision_(decision) {}

  SizeVerdict write() const {
    const std::string prefix = answer_.unfinished.empty() ? "" : "So far: ";
    if (!decision_) return {prefix + nearest_words(), missing_words(), needed_words(), {}};
    SizeVerdict verdict{prefix + decision_words() + total_words(), "", changes_words(), {}};
    const Payment* next = next_payment(answer_, payments_, *decision_);
    if (next) verdict.sure_order = cheaper_probability(*decision_, *next);
    verdict.reason = reason_words(next, verdict.sure_order);
    return verdict;
  }

 private:
  const SizeAnswer& answer_;
  const std::vector<Payment>& payments_;
  const Payment* decision_;

  std::string money(double amount) const { return money_words(amount, answer_.currency); }
  /// The compared cost in words: money, or device-hours without prices.
  std::string cost_words(double cost) const {
    return answer_.currency.empty() ? full_number(std::round(cost)) + " device-hours" : money(cost);
  }

  std::string model_words() const {
    const bool several = std::ranges::any_of(
        answer_.rows, [this](const SizeRow& row) { return row.model != answer_.rows.front().model; });
    return several ? decision_->row->model + " is the largest model that meets all conditions. " : "";
  }

  std::string decision_words() const {
    const SizeRow& row = *decision_->row;
    const std::string& terms = decision_->terms;
    const std::string time = time_words(choice_of_payment(answer_, *decision_), *decision_, answer_.confidence);
    const std::string network = row.network.empty() ? "" : " with the network " + row.network;
    if (terms.empty())
      return fmt::format("{}Take {}: {}, {}.", model_words(), nodes_in_words(row), time, cost_words(decision_->cost));
    if (terms == kPurchase) {
      const Ownership& o = *row.ownership;
      if (!row.beside.empty()) return model_words() + beside_words(row, time);
      if (o.owned_nodes >= row.nodes)
        return fmt::format("{}Use the {} x {} that are owned: {}.", model_words(), row.nodes, row.node, time);
      const std::string owned_words =
          o.owned_nodes > 0 ? fmt::format(", beside the {} that are owned,", o.owned_nodes) : "";
      return fmt::format("{}Buy {} x {}{}{} for {}: {}.", model_words(), row.nodes - o.owned_nodes, row.node,
                         owned_words, network, money(o.price()), time);
    }
    if (terms == "electricity")
      return fmt::format("{}Use {} x {}{}: {}, electricity{} for {}.", model_words(), row.nodes, row.node, network,
                         time, row.network.empty() ? "" : " and network", money(decision_->cost));
    return fmt::format("{}Rent {} x {} ({}){} for {}: {}.", model_words(), row.nodes, row.node, terms, network,
                       money(decision_->cost), time);
  }

  /// The decision for one job on owned nodes and those of another type.
  std::string beside_words(const SizeRow& row, const std::string& time) const {
    const int bought = bought_nodes_of(row);
    if (bought == 0) return fmt::format("Use the {} that are owned, in one job: {}.", nodes_in_words(row), time);
    const std::string owned_words =
        bought < row.nodes ? fmt::format(", beside the {} that are owned,", row.nodes - bought) : "";
    return fmt::format("Buy {} x {}{} for {}, and train in one job on them and the {} x {} that are owned: {}.", bought,
                       row.node, owned_words, money(row.ownership->price()), row.beside_nodes, row.beside, time);
  }

  /// Says what the decision costs to own if that decides; else "".
  std::string total_words() const {
    if (answer_.total_years <= 0) return "";
    const Ownership& o = *decision_->row->ownership;
    return fmt::format(" It costs {} {} of use, {} of it for electricity and cooling.", money(o.total()),
                       purchase_words(answer_), money(o.years * (o.yearly.at("electricity") + o.yearly.at("cooling"))));
  }

  /// "48 x dgx-h100 with the network rail-only (spot)"
  template <class Cluster>
  std::string cluster_words(const Cluster& c, const std::string& terms) const {
    const bool names_terms = !terms.empty() && terms != kPurchase;
    return fmt::format("{}{}{}", nodes_in_words(c), network_words(answer_, c.network),
                       names_terms ? " (" + terms + ")" : "");
  }
  std::string cluster_words(const Payment& payment) const { return cluster_words(*payment.row, payment.terms); }

  std::string reason_words(const Payment* next, const std::optional<double>& sure_order) const {
    std::string text;
    if (next) {
      const double extra_share = next->cost / decision_->cost - 1;
      std::vector<std::string> words;
      if (std::isfinite(extra_share)) words.push_back(fmt::format("{:.3g} % more", extra_share * 100));
      if (sure_order && *sure_order < kSurelySlower)
        words.push_back(
            fmt::format("equal within the doubt: it costs more with a probability of {}", chance_words(*sure_order)));
      else if (sure_order)
        words.push_back(fmt::format("with a probability of {}", chance_words(*sure_order)));
      text = fmt::format("Next of the simulated sizes comes {}: {}{}{}, {}.", cluster_words(*next),
                         cost_words(next->cost), answer_.total_years > 0 ? " to own" : "",
                         words.empty() ? "" : fmt::format(" ({})", fmt::join(words, "; ")), day_words(next->end()));
    } else {
      text = only_one_words();
    }
    if (!decision_->row->proved || (next && !next->row->proved))
      text += " Not all plans are proved to be the best: a longer search (--work) may change the order.";
    return text + other_kind() + missed_nodes() + fewer_nodes();
  }

  std::string only_one_words() const {
    const SizeRow* refused = nullptr;
    bool has_other = false;
    for (const SizeRow& row : answer_.rows) {
      if (row.model != decision_->row->model || &row == decision_->row) continue;
      if (row.refused && !refused) refused = &row;  // the size was not simulated
      has_other |= !row.refused;
    }
    const bool has_several_payments = payments_.size() > 1;
    if (has_other || has_several_payments)
      return fmt::format("No other {} of the simulated sizes meets all conditions.",
                         decision_->terms.empty() ? "one" : kind_of(*decision_));
    return refused ? fmt::format("No other size was simulated. {}: {}.", nodes_in_words(*refused), refused->error)
                   : "No other size was tried.";
  }

  /// The cheapest rent of a simulated size that meets deadline and budget. Null: there is none.
  const SizeChoice* best_rent() const {
    const SizeChoice* best = nullptr;
    for (const SizeChoice& choice : answer_.choices)
      if (choice.terms != kPurchase && choice.missed.empty() && (!best || choice.money < best->money)) best = &choice;
    return best;
  }

  /// Compares the decision with renting if it is a purchase, and with buying if it is a rent.
  std::string other_kind() const {
    const SizeRow& row = *decision_->row;
    if (answer_.purchase) {
      const SizeChoice* rent = best_rent();
      return other_cost() +
             (!rent
                  ? ""
                  : fmt::format(" Owning {} costs {} for the time of this training; to rent {} costs {}.",
                                row.phases.empty() ? cluster_words(*decision_)
                                                   : "the nodes that it trains on, from their delivery on,",
                                money(row.ownership->training), cluster_words(*rent, rent->terms), money(rent->money)));
    }
    const YearlyRent* least = row.ownership ? least_rent(*row.ownership) : nullptr;
    if (!least) return "";
    const std::string price = fmt::format(" To buy {} costs {}", cluster_words(row, ""), money(row.ownership->price()));
    const std::optional<BreakEven> use = break_even(*row.ownership);
    if (!use) return fmt::format("{}, more than renting ({}) even at full use.", price, least->terms);
    return fmt::format("{}, as much as renting ({}) if it is in use {} of the time.", price, use->terms,
                       percent(use->use, 0));
  }

  /// Names the purchase that the other of the two costs, price and cost of owning, would take; "": the same one.
  std::string other_cost() const {
    const bool by_total = answer_.total_years > 0;
    const auto other = [by_total](const Payment& payment) {
      const Ownership& o = *payment.row->ownership;
      return by_total ? o.price() : o.total();
    };
    const Payment* best = decision_;
    for (const Payment& payment : payments_)
      if (meets_all(answer_, payment) && payment.row->parameters == decision_->row->parameters &&
          other(payment) < other(*best))
        best = &payment;
    if (best == decision_) return "";
    const Ownership &o = *best->row->ownership, &decided = *decision_->row->ownership;
    const auto power = [](const Ownership& each) {
      return each.years * (each.yearly.at("electricity") + each.yearly.at("cooling"));
    };
    if (by_total) return fmt::format(" {} costs less to buy, {}.", cluster_words(*best), money(o.price()));
    return fmt::format(
        " But {} costs less to own: {} for {:.3g} years of use, {:.3g} % less than the {} of {} (electricity and "
        "cooling: {} and {}). --by total-cost decides so.",
        cluster_words(*best), money(o.total()), o.years, 100 * (1 - o.total() / decided.total()),
        money(decided.total()), cluster_words(*decision_), money(power(o)), money(power(decided)));
  }

  /// Names the node types of which no choice is left, with the reason.
  std::string missed_nodes() const {
    if (answer_.choices.empty()) return "";
    std::map<std::string, bool> nodes;  // true: a size of this node type has a plan in time
    for (const SizeRow& row : answer_.rows)
      if (row.model == decision_->row->model) nodes[types_in_words(row)] |= row.good();
    std::vector<std::string> words;
    for (const auto& [node, has_plan] : nodes) {
      const SizeChoice* best = nullptr;
      for (const SizeChoice& each : answer_.choices) {
        const bool counts = each.node + (each.beside.empty() ? "" : " beside " + each.beside) == node &&
                            answer_.purchase == (each.terms == kPurchase);
        if (counts && (!best || each.missed.size() < best->missed.size())) best = &each;
      }
      if (!best)
        words.push_back(node + (has_plan ? " has no such price" : " has no plan in time"));
      else if (!best->missed.empty())
        words.push_back(
            fmt::format("{} misses the {}{}", cluster_words(*best, ""), best->missed, late_delivery(answer_, *best)));
    }
    return words.empty() ? "" : fmt::format(" Out: {}.", fmt::join(words, "; "));
  }

  std::string fewer_nodes() const {
    const SizeRow& row = *decision_->row;
    for (const SizeFewest& each : answer_.fewest)
      if (each.has_nodes_of(row))
        return each.late > 0 ? fmt::format(" {} x {} are too few.", each.late, each.node) : "";
    return "";
  }

  /// Names the nearest changes of the answer's thresholds.
  std::string changes_words() const {
    constexpr std::size_t most_changes = 3;
    std::vector<SizeThreshold> all = answer_.thresholds;
    const auto distance = [](const SizeThreshold& t) { return std::abs(t.threshold / t.value - 1); };
    sort_stably(all, [&](const SizeThreshold& a, const SizeThreshold& b) { return distance(a) < distance(b); });
    if (all.size() > most_changes) all.resize(most_changes);
    std::vector<std::string> words;
    for (const SizeThreshold& t : all)
      words.push_back(fmt::format("if the {} {} {} (now {}): then {}", quantity_words(t.quantity),
                                  t.threshold < t.value ? "falls below" : "rises above",
                                  quantity_amount(answer_, t.quantity, t.threshold),
                                  quantity_value(t.quantity, t.value),
                                  t.node.empty() ? "none of the simulated sizes" : cluster_words(t, t.terms)));
    const std::string text =
        words.empty() ? "No single price, deadline or budget of the question changes it, from a fiftieth to fifty "
                        "times its value."
                      : fmt::format("Among the simulated sizes, the decision changes {}.", fmt::join(words, "; "));
    return text + (answer_.currency.empty() ? " Prices (--prices) may change it, too." : "");
  }

  std::string nearest_words() const {
    const SizeRow& row = *answer_.nearest;
    const std::string cost =
        answer_.currency.empty()
            ? ""
            : fmt::format(" for {}{}", money(row.cost), answer_.total_years > 0 ? " " + purchase_words(answer_) : "");
    Payment payment;
    for (const Payment& listed : payments_)
      if (listed.terms == row.terms && listed.row->has_nodes_of(row) && listed.row->network == row.network)
        payment = listed;
    return fmt::format(
        "None of the simulated sizes meets all conditions{}. The nearest is {}{}{}: {}.",
        answer_.purchase ? " by a purchase" : "", nodes_in_words(row),
        (row.network.empty() ? "" : " with the network " + row.network) +
            (row.terms == answer_.plain_terms || row.terms == kPurchase || row.terms.empty() ? ""
                                                                                             : " (" + row.terms + ")"),
        cost, time_words(choice_of_payment(answer_, payment), payment, answer_.confidence));
  }

  std::string missing_words() const {
    const SizeChoice* rent = answer_.purchase ? best_rent() : nullptr;
    return "Missed: " + answer_.why_none + "." +
           (rent ? fmt::format(" A rent would do: {} costs {} and takes {} days.", cluster_words(*rent, rent->terms),
                               money(rent->money), number_of_days(rent->days))
                 : "");
  }

  /// Writes a budget that is enough for a cost: rounded up, never down.
  std::string budget_words(double cost) const {
    constexpr double thousand = 1e3, cents = 100;
    return cost >= thousand ? fmt::format("{} {}", with_commas(std::ceil(cost)), answer_.currency)
                            : fmt::format("{:.2f} {}", std::ceil(cost * cents) / cents, answer_.currency);
  }

  /// Names the deadline and the budget with which one of the simulated sizes would meet all conditions.
  std::string needed_words() const {
    std::vector<std::string> words;
    const Payment *soonest = nullptr, *cheapest = nullptr;
    for (const Payment& payment : payments_) {
      const bool is_affordable = answer_.budget <= 0 || payment.cost <= answer_.budget;
      if (is_affordable && (!soonest || payment.needed_days() < soonest->needed_days())) soonest = &payment;
      if (payment.needed_days() <= answer_.days && (!cheapest || payment.cost < cheapest->cost)) cheapest = &payment;
    }
    const auto would_do = [this](const Payment& payment) {
      return fmt::format("{} would do with ", payment.terms == answer_.plain_terms ? cluster_words(*payment.row, "")
                                                                                   : cluster_words(payment));
    };
    if (soonest && std::isfinite(soonest->needed_days()))
      words.push_back(would_do(*soonest) + "a deadline of " + deadline_words(soonest->needed_days()));
    if (cheapest && answer_.budget > 0)
      words.push_back(fmt::format("{}a budget of {}", would_do(*cheapest), budget_words(cheapest->cost)));
    return words.empty() ? "More nodes, another batch or other node types may do."
                         : fmt::format("{}.", fmt::join(words, "; "));
  }
};

}  // namespace

SizeVerdict size_verdict(const SizeAnswer& answer, const std::vector<Payment>& payments, const Payment* decision) {
  return VerdictWriter(answer, payments, decision).write();
}

}  // namespace trainyard
