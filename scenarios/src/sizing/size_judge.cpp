// Makes the decision of a question about sizes: the way to pay that costs least and meets deadline and budget.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <tuple>

#include "scenarios/src/sizing/size_choices.hpp"
#include "scenarios/src/sizing/size_growth.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

/// Returns the way with the least key among those that count. Null: none counts.
const Payment* least_payment(const std::vector<Payment>& payments, const std::function<bool(const Payment&)>& counts,
                             const std::function<double(const Payment&)>& key) {
  const Payment* best = nullptr;
  for (const Payment& payment : payments)
    if (counts(payment) && (!best || key(payment) < key(*best))) best = &payment;
  return best;
}

double cost_of_payment(const Payment& payment) { return payment.cost; }
double end_of_payment(const Payment& payment) { return payment.end(); }
bool is_any_payment(const Payment&) { return true; }

/// Returns the row of a way with the figures of this way.
std::optional<SizeRow> row_of(const SizeAnswer& answer, const Payment* payment) {
  if (!payment) return std::nullopt;
  SizeRow row = *payment->row;
  apply_payment(answer, *payment, row);
  return row;
}

/// Says which of the conditions the evaluated clusters miss.
std::string why_none(const SizeAnswer& answer, const std::vector<Payment>& payments) {
  const auto in_time = [&answer](const Payment& payment) { return payment.needed_days() <= answer.days; };
  if (const Payment* payment = least_payment(payments, in_time, cost_of_payment)) {
    const bool is_rent = payment->terms != kPurchase && payment->terms != answer.plain_terms;
    return fmt::format("the budget: the cheapest of the simulated sizes in time, {}{}{}, costs {}{}",
                       nodes_in_words(*payment->row),
                       payment->row->network.empty() ? "" : " with the network " + payment->row->network,
                       is_rent ? " (" + payment->terms + ")" : "", money_words(payment->cost, answer.currency),
                       answer.total_years > 0 ? " " + purchase_words(answer) : "");
  }
  const Payment* payment = least_payment(payments, is_any_payment, end_of_payment);
  if (!payment) return "";
  std::string text = fmt::format("the deadline: the fastest of the simulated sizes, {}, {} {}",
                                 nodes_in_words(*payment->row), payment->grows ? "grows and ends after" : "takes",
                                 days_words(payment->grows ? payment->end() : payment->days));
  if (payment->wait > 0)
    text += fmt::format("{} {}", payment->grows ? ", with the last nodes delivered after" : " after a delivery of",
                        days_words(payment->wait));
  if (answer.confidence > 0)
    if (const std::optional<double> on_time = payment->on_time(answer))
      text += fmt::format(", in time with a probability of {}, not of {}", chance_words(*on_time, answer.confidence),
                          exact_percent(answer.confidence));
  if (payment->row->nodes >= kMostSizedNodes)
    text += fmt::format("; more than {} nodes are not tried", with_commas(kMostSizedNodes));
  for (const SiteLimit& limit : answer.site_limits)
    if (limit.node == payment->row->node)
      text += fmt::format("; the site has room for {} (site.{})", limit.nodes, limit.limit);
  return text;
}

/// If the site has no room for any node, says what the node that needs the least power needs.
void tell_shortage(SizeAnswer& answer) {
  const SiteLimit* least = nullptr;
  for (const SiteLimit& limit : answer.site_limits) {
    if (limit.shortage.empty()) return;
    if (!least || limit.node_power < least->node_power) least = &limit;
  }
  if (!least) return;
  answer.why_none =
      fmt::format("site.{}: {}of {}{} {}", least->limit, answer.site_limits.size() > 1 ? "even " : "", least->node,
                  answer.site_limits.size() > 1 ? ", the smallest type," : "", least->shortage);
  answer.verdict = SizeVerdict{"The site has no room for a node.",
                               "Missed: " + answer.why_none + ".",
                               "A site with room for a node may do.",
                               {}};
}

void mark_best_rows(const SizeAnswer& answer, std::vector<SizeRow>& rows) {
  for (SizeRow& row : rows) {
    if (!row.good()) continue;
    if (const std::optional<Payment> payment = best_payment(answer, row)) apply_payment(answer, *payment, row);
  }
  for (SizeRow& row : rows)
    row.pareto = row.good() && std::ranges::none_of(rows, [&](const SizeRow& other) {
                   return other.good() && other.model == row.model && other.end_days <= row.end_days &&
                          other.cost <= row.cost && (other.end_days < row.end_days || other.cost < row.cost);
                 });
}

}  // namespace

double size_cost(const SizeAnswer& answer, const SizeRow& row) {
  const std::optional<Payment> payment = best_payment(answer, row);
  return payment ? payment->cost : 0;
}

bool meets_deadline(const SizeAnswer& answer, const SizeRow& row) {
  const std::optional<Payment> payment = best_payment(answer, row);
  return payment && payment->needed_days() <= answer.days;
}

void judge_sizes(SizeAnswer& answer, const Prices& prices) {
  answer.plain_terms = prices.rents.empty() && prices.kwh > 0 ? "electricity" : "on demand";
  sort_stably(answer.rows, [](const SizeRow& a, const SizeRow& b) {
    return std::tie(a.model, a.node, a.beside, a.nodes) < std::tie(b.model, b.node, b.beside, b.nodes);
  });
  mark_best_rows(answer, answer.rows);
  const std::vector<Payment> payments = payments_of(answer);
  const Payment* decision = decided_payment(answer, payments);
  // A way on another network than the counted one is in no row of the table.
  const auto counts = [&](const Payment& payment) {
    const bool is_listed = std::ranges::any_of(answer.rows, [&](const SizeRow& row) { return &row == payment.row; });
    return is_listed && meets_all(answer, payment) && payment.row->parameters == decision->row->parameters;
  };
  answer.cheapest = answer.largest = row_of(answer, decision);
  answer.fastest = decision ? row_of(answer, least_payment(payments, counts, end_of_payment)) : std::nullopt;
  answer.thresholds.clear();
  answer.choices.clear();
  answer.verdict.reset();
  answer.why_none.clear();
  answer.nearest.reset();
  if (decision) {
    answer.thresholds = decision_changes(answer, prices, payments, *decision);
  } else {
    answer.why_none = why_none(answer, payments);
    const auto in_budget = [&](const Payment& payment) { return answer.budget <= 0 || payment.cost <= answer.budget; };
    const auto in_time = [&](const Payment& payment) { return payment.needed_days() <= answer.days; };
    const Payment* nearest = least_payment(payments, in_budget, end_of_payment);
    if (!nearest) nearest = least_payment(payments, in_time, cost_of_payment);
    answer.nearest = row_of(answer, nearest ? nearest : least_payment(payments, is_any_payment, cost_of_payment));
  }
  const auto& best = decision ? answer.cheapest : answer.nearest;
  if (!best) return tell_shortage(answer);
  if (!answer.currency.empty()) answer.choices = size_choices(answer, prices, best->model, decision);
  answer.verdict = size_verdict(answer, payments, decision);
}

}  // namespace trainyard
