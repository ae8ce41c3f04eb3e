// The verdict of `trainyard size`: the decision, its reason, and what would change it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "scenarios/src/sizing/size_choices.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

std::string number_of_days(double days) {
  constexpr double many = 100;
  return days >= many ? fmt::format("{:.0f}", days) : fmt::format("{:.3g}", days);
}

std::string power_words(double watts) {
  constexpr double kilo = 1e3, mega = 1e6;
  return watts >= mega ? fmt::format("{:.3g} MW", watts / mega) : fmt::format("{:.3g} kW", watts / kilo);
}

}  // namespace

std::string full_number(double value) {
  constexpr double many = 9999.5;
  return value >= many ? with_commas(value) : fmt::format("{:.4g}", value);
}

std::string network_words(const SizeAnswer& answer, const std::string& network) {
  return network.empty() || network == answer.counted_network ? "" : " with the network " + network;
}

std::string money_words(double money, const std::string& currency) {
  const auto scaled = [&](double unit, const char* name) {
    return fmt::format("{:.4g} {} {}", money / unit, name, currency);
  };
  constexpr double billion = 1e9, million = 1e6, thousand = 1e3;
  if (money >= billion) return scaled(billion, "billion");
  if (money >= million) return scaled(million, "million");
  return money >= thousand ? fmt::format("{} {}", with_commas(money), currency)
                           : fmt::format("{:.4g} {}", money, currency);
}

// The texts do not say GPU, because the chips may be of another kind.
std::string quantity_words(const std::string& quantity) {
  const auto name_after = [&quantity](const char* beginning) {
    const std::string begin = beginning;
    return quantity.starts_with(begin) ? quantity.substr(begin.size()) : std::string();
  };
  if (const std::string name = name_after("gpu_hour of "); !name.empty()) return "hourly rent of " + name;
  if (const std::string name = name_after("node_hour of "); !name.empty()) return "hourly rent of a node " + name;
  if (const std::string name = name_after("purchase of "); !name.empty()) return "price of " + name;
  return quantity == "kwh" ? "price of a kWh" : quantity;
}

namespace {

/// Describes the time of a choice with its interval, its risk and its power. Less than a tenth of a day is in minutes.
std::string time_words(const SizeChoice& c, double wait) {
  const auto [unit, of_day] = c.days < 0.1 ? std::pair{"minutes", 1440.0} : std::pair{"days", 1.0};
  std::string text = fmt::format("{} {}", number_of_days(c.days * of_day), unit);
  if (wait > 0) text += fmt::format(", of which {} for the delivery", number_of_days(wait * of_day));
  if (c.likely_days)
    text += fmt::format(" ({} to {} with a probability of {})", number_of_days(c.likely_days->front() * of_day),
                        number_of_days(c.likely_days->back() * of_day), percent(kLikely, 0));
  constexpr double sure = 0.995;
  if (c.on_time)
    text += fmt::format(", in time with a probability of {}",
                        *c.on_time > sure ? "more than 99 %" : percent(*c.on_time, 0));
  if (c.power > 0) text += ", " + power_words(c.power);
  return text;
}

/// A change that ends the decision.
struct DecisionChange {
  std::string quantity;
  double value = 0, limit = 0;
  std::string next;  ///< the decision beyond the limit; empty: it is not known

  bool is_below() const { return limit < value; }
  double distance() const { return std::abs(limit / value - 1); }
  std::string words() const {
    const std::string next_words = next.empty() ? "" : ": then " + next;
    return fmt::format("if the {} {} {} (now {}){}", quantity_words(quantity),
                       is_below() ? "falls below" : "rises above", full_number(limit), full_number(value), next_words);
  }
};

class VerdictWriter {
 public:
  VerdictWriter(const SizeAnswer& answer, const std::vector<PricedChoice>& choices)
      : answer_(answer), choices_(choices) {
    for (const PricedChoice& priced : choices)
      if (priced.choice.decision) decision_ = &priced;
  }

  SizeVerdict write() const {
    const std::string prefix = answer_.unfinished.empty() ? "" : "So far: ";
    if (!answer_.cheapest && !decision_) return {prefix + nearest_words(), missing_words(), needed_words()};
    if (!decision_) return {prefix + plain_decision(), plain_reason(), plain_changes()};
    return {prefix + decision_words(), reason_words(), changes_words()};
  }

 private:
  const SizeAnswer& answer_;
  const std::vector<PricedChoice>& choices_;
  const PricedChoice* decision_ = nullptr;

  std::string money(double amount) const { return money_words(amount, answer_.currency); }

  std::string model_words() const {
    const bool several = std::any_of(answer_.rows.begin(), answer_.rows.end(),
                                     [this](const SizeRow& row) { return row.model != answer_.rows.front().model; });
    return several && answer_.largest ? answer_.largest->model + " is the largest model that meets all conditions. "
                                      : "";
  }

  std::string decision_words() const {
    const SizeChoice& c = decision_->choice;
    if (c.terms == kPurchase) {
      const Ownership& o = *decision_->row->ownership;
      const std::string time = time_words(c, o.delivery / kSecondsOfDay);
      if (o.owned_nodes >= c.nodes)
        return fmt::format("{}Use the {} x {} that are owned: {}.", model_words(), c.nodes, c.node, time);
      const std::string owned_words =
          o.owned_nodes > 0 ? fmt::format(", beside the {} that are owned,", o.owned_nodes) : "";
      return fmt::format("{}Buy {} x {}{}{} for {}: {}.", model_words(), c.nodes - o.owned_nodes, c.node, owned_words,
                         decided_network(c), money(c.purchase), time);
    }
    if (c.terms == "electricity")
      return fmt::format("{}Use {} x {}{}: {}, electricity{} for {}.", model_words(), c.nodes, c.node,
                         decided_network(c), time_words(c, 0), c.network.empty() ? "" : " and network", money(c.money));
    return fmt::format("{}Rent {} x {} ({}){} for {}: {}.", model_words(), c.nodes, c.node, c.terms, decided_network(c),
                       money(c.money), time_words(c, 0));
  }

  /// Names the network of the decision, which other sentences name only if it differs.
  static std::string decided_network(const SizeChoice& c) {
    return c.network.empty() ? "" : " with the network " + c.network;
  }
  std::string cluster_words(const SizeChoice& c) const {
    return fmt::format("{} x {}{}", c.nodes, c.node, network_words(answer_, c.network));
  }

  std::string reason_words() const {
    const auto in_words = [this](const PricedChoice& priced) {
      const bool is_purchase = priced.choice.terms == kPurchase;
      return cluster_words(priced.choice) + (is_purchase ? "" : " (" + priced.choice.terms + ")");
    };
    const bool by_purchase = answer_.purchase;
    std::string text = "No other choice meets all conditions.";
    const PricedChoice* second = nullptr;
    for (const PricedChoice& priced : choices_)
      if (&priced != decision_ && priced.is_eligible(answer_) &&
          (!second || priced.cost(by_purchase) < second->cost(by_purchase)))
        second = &priced;
    if (second) {
      const double extra_share = second->cost(by_purchase) / decision_->cost(by_purchase) - 1;
      text = fmt::format("Next comes {}: {}{}, {} days.", in_words(*second), money(second->cost(by_purchase)),
                         std::isfinite(extra_share) ? fmt::format(" ({:.3g} % more)", extra_share * 100) : "",
                         number_of_days(second->choice.days));
    }
    return text + other_kind() + missed_nodes() + fewer_nodes();
  }

  /// Compares the decision with renting if it is a purchase, and with buying if it is a rent.
  std::string other_kind() const {
    const PricedChoice* rented = nullptr;
    for (const PricedChoice& priced : choices_)
      if (priced.choice.terms != kPurchase && priced.choice.missed.empty() &&
          (!rented || priced.choice.money < rented->choice.money))
        rented = &priced;
    if (answer_.purchase)
      return !rented ? ""
                     : fmt::format(" Owning {} costs {} for the time of this training; to rent {} ({}) costs {}.",
                                   cluster_words(decision_->choice), money(decision_->choice.money),
                                   cluster_words(rented->choice), rented->choice.terms, money(rented->choice.money));
    const auto& o = decision_->row->ownership;
    if (!o || o->rent_year <= 0) return "";
    const std::optional<double> use = o->break_even_use();
    const std::string price = fmt::format(" To buy {} costs {}", cluster_words(decision_->choice), money(o->price()));
    if (!use || *use > 1) return price + ", more than renting even at full use.";
    return price + fmt::format(", as much as renting on demand if it is in use {} of the time.", percent(*use, 0));
  }

  /// Names the node types of which no choice is left, with the reason.
  std::string missed_nodes() const {
    std::map<std::string, bool> nodes;  // true: a size of this node type has a plan in time
    for (const SizeRow& row : answer_.rows)
      if (row.model == decision_->choice.model) nodes[row.node] |= row.good();
    std::vector<std::string> words;
    for (const auto& [node, has_plan] : nodes) {
      const SizeChoice* best = nullptr;
      for (const PricedChoice& each : choices_) {
        const bool counts = each.choice.node == node && answer_.purchase == (each.choice.terms == kPurchase);
        if (counts && (!best || each.choice.missed.size() < best->missed.size())) best = &each.choice;
      }
      if (!best)
        words.push_back(node + (has_plan ? " has no such price" : " has no plan in time"));
      else if (!best->missed.empty())
        words.push_back(fmt::format("{} misses the {}", cluster_words(*best), best->missed));
    }
    return words.empty() ? "" : fmt::format(" Out: {}.", fmt::join(words, "; "));
  }

  std::string fewer_nodes() const {
    for (const SizeFewest& each : answer_.fewest)
      if (each.model == decision_->choice.model && each.node == decision_->choice.node &&
          each.nodes == decision_->choice.nodes)
        return each.late > 0 ? fmt::format(" {} x {} are too few.", each.late, each.node) : "";
    return "";
  }

  std::string changes_words() const {
    std::vector<DecisionChange> all;
    const SizeChoice& c = decision_->choice;
    const auto& cheapest = answer_.cheapest;
    const bool is_cheapest = cheapest && cheapest->model == c.model && cheapest->node == c.node &&
                             cheapest->nodes == c.nodes &&
                             (answer_.purchase || c.terms == "on demand" || c.terms == "electricity");
    if (is_cheapest)
      for (const SizeThreshold& t : answer_.thresholds)
        all.push_back({t.quantity, t.value, t.threshold,
                       t.node.empty() ? "none of the simulated sizes"
                                      : fmt::format("{} x {}{}", t.nodes, t.node, network_words(answer_, t.network))});
    else if (answer_.confidence <= 0)
      all.push_back({"deadline", answer_.days, c.days, ""});
    for (const PricedChoice& each : choices_) {
      const SizeChoice& other = each.choice;
      const bool is_counted = is_cheapest && other.terms == c.terms;
      if (other.decision && other.break_even)
        all.push_back({other.quantity, other.price, *other.break_even,
                       choice_words(choices_[static_cast<std::size_t>(each.next)].choice)});
      else if (!is_counted && each.is_eligible(answer_) && other.break_even)
        all.push_back({other.quantity, other.price, *other.break_even, choice_words(other)});
    }
    return sentence_of(std::move(all));
  }

  std::string choice_words(const SizeChoice& c) const {
    return cluster_words(c) + (answer_.purchase ? "" : " (" + c.terms + ")");
  }

  /// Names the nearest changes. Each quantity counts once in each direction.
  static std::string sentence_of(std::vector<DecisionChange> all) {
    constexpr std::size_t most_changes = 3;
    std::erase_if(all, [](const DecisionChange& each) { return !(each.value > 0); });
    sort_stably(all, [](const DecisionChange& a, const DecisionChange& b) { return a.distance() < b.distance(); });
    std::vector<std::string> words;
    std::vector<const DecisionChange*> nearest_changes;
    for (const DecisionChange& each : all) {
      const bool is_new =
          std::none_of(nearest_changes.begin(), nearest_changes.end(), [&each](const DecisionChange* listed) {
            return listed->quantity == each.quantity && listed->is_below() == each.is_below();
          });
      if (!is_new || words.size() == most_changes) continue;
      nearest_changes.push_back(&each);
      words.push_back(each.words());
    }
    if (words.empty()) return "No single price, deadline or budget of the question changes it.";
    return fmt::format("The decision changes {}.", fmt::join(words, "; "));
  }

  // The fewest device-hours decide if there are no prices.
  std::string plain_decision() const {
    const SizeRow& row = *answer_.cheapest;
    return fmt::format("{}Take {} x {}: {}, {} device-hours.", model_words(), row.nodes, row.node,
                       time_words(choice_of_row(answer_, row, row.days(), 0), 0),
                       full_number(std::round(row.gpu_hours)));
  }
  std::string plain_reason() const {
    const SizeRow *best = &*answer_.cheapest, *second = nullptr, *refused = nullptr;
    bool is_only_one = true;
    for (const SizeRow& row : answer_.rows) {
      if (row.model != best->model || (row.node == best->node && row.nodes == best->nodes)) continue;
      if (row.refused) {  // the size was not simulated
        if (!refused) refused = &row;
        continue;
      }
      is_only_one = false;
      if (row.meets && (!second || row.gpu_hours < second->gpu_hours)) second = &row;
    }
    if (!second && is_only_one)
      return refused ? fmt::format("No other size was simulated. {} x {}: {}.", refused->nodes, refused->node,
                                   refused->error)
                     : "No other size was tried.";
    if (!second) return "No other size that was tried meets the deadline.";
    return fmt::format("Next comes {} x {}: {} device-hours ({:.3g} % more), {} days.", second->nodes, second->node,
                       full_number(std::round(second->gpu_hours)), (second->gpu_hours / best->gpu_hours - 1) * 100,
                       number_of_days(second->days()));
  }
  std::string plain_changes() const {
    return sentence_of({{"deadline", answer_.days, answer_.cheapest->days(), ""}}) +
           " Prices (--prices) may change it, too.";
  }

  std::string nearest_words() const {
    const SizeRow& row = *answer_.nearest;
    const std::string cost = answer_.currency.empty() ? "" : " for " + money(size_cost(answer_, row));
    const double wait = delivery_days(answer_, row);
    return fmt::format("None of the simulated sizes meets all conditions. The nearest is {} x {}{}{}: {}.", row.nodes,
                       row.node, row.network.empty() ? "" : " with the network " + row.network, cost,
                       time_words(choice_of_row(answer_, row, row.days(), wait), wait));
  }
  std::string missing_words() const { return "Missed: " + answer_.why_none + "."; }

  /// Writes a budget that is enough for a cost: rounded up, never down.
  std::string budget_words(double cost) const {
    constexpr double thousand = 1e3, cents = 100;
    return cost >= thousand ? fmt::format("{} {}", with_commas(std::ceil(cost)), answer_.currency)
                            : fmt::format("{:.2f} {}", std::ceil(cost * cents) / cents, answer_.currency);
  }

  /// Names the deadline and the budget with which one of the simulated sizes would meet all conditions.
  std::string needed_words() const {
    std::vector<std::string> words;
    const SizeRow *soonest = nullptr, *cheapest = nullptr;
    for (const SizeRow& row : answer_.rows) {
      if (!row.good()) continue;
      const bool is_affordable = answer_.budget <= 0 || size_cost(answer_, row) <= answer_.budget;
      if (is_affordable && (!soonest || days_to_end(answer_, row) < days_to_end(answer_, *soonest))) soonest = &row;
      if (meets_deadline(answer_, row) && (!cheapest || size_cost(answer_, row) < size_cost(answer_, *cheapest)))
        cheapest = &row;
    }
    if (soonest && answer_.confidence <= 0)
      words.push_back(fmt::format("{} x {} would do with a deadline of {:.1f} days", soonest->nodes, soonest->node,
                                  std::ceil(days_to_end(answer_, *soonest) * 10) / 10));
    if (cheapest && answer_.budget > 0)
      words.push_back(fmt::format("{} x {} would do with a budget of {}", cheapest->nodes, cheapest->node,
                                  budget_words(size_cost(answer_, *cheapest))));
    return words.empty() ? "More nodes, another batch or other node types may do."
                         : fmt::format("{}.", fmt::join(words, "; "));
  }
};

}  // namespace

void decide_size(SizeAnswer& answer, const Prices& prices) {
  const SizeRow* row = answer.largest ? &*answer.largest : answer.nearest ? &*answer.nearest : nullptr;
  if (!row) return;
  std::vector<PricedChoice> choices;
  if (!answer.currency.empty()) choices = priced_choices(answer, prices, row->model);
  answer.verdict = VerdictWriter(answer, choices).write();
  answer.choices.clear();
  for (PricedChoice& each : choices) answer.choices.push_back(std::move(each.choice));
}

}  // namespace trainyard
