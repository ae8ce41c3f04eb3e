// The ways to pay for the evaluated clusters in figures and words, and the decision among them.
#include "scenarios/src/sizing/size_payments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr double kHoursOfDay = 24;

/// Returns the factor on the days of a row with which the requested probability is met.
double longest_factor(const SizeAnswer& answer, const SizeRow& row) {
  if (answer.confidence <= 0) return 1;
  if (!row.doubt.exists()) return HUGE_VAL;
  // A confidence is 0.5 or more. The time is shorter than the upper end of the interval of 2p - 1 with a probability of p.
  return DoubtModel::shipped().range(row.doubt, 2 * answer.confidence - 1).high;
}

/// Returns the days of the training, each times the devices that train.
double gpu_days(const Payment& payment) {
  const SizeRow& row = *payment.row;
  const double end = payment.end();
  double all = std::max(0.0, end - payment.wait) * row.gpus;
  for (std::size_t i = 0; payment.grows && i < row.phases.size(); ++i) {
    const double next = i + 1 < row.phases.size() ? row.phases[i + 1].begin_days : payment.wait;
    all += std::max(0.0, std::min(end, next) - row.phases[i].begin_days) * row.gpus / row.nodes * row.phases[i].nodes;
  }
  return all;
}

Payment payment_of(const SizeAnswer& answer, const SizeRow& row) {
  Payment payment;
  payment.row = &row;
  payment.days = row.days();
  payment.goodput = row.goodput;
  payment.energy = row.energy;
  payment.longest = longest_factor(answer, row);
  return payment;
}

/// Lists the ways to pay for a row that the question allows: purchases or rents.
std::vector<Payment> payments_for_row(const SizeAnswer& answer, const SizeRow& row) {
  if (answer.purchase) {
    const std::optional<Payment> purchase = purchase_of(answer, row);
    return purchase ? std::vector<Payment>{*purchase} : std::vector<Payment>{};
  }
  if (!answer.currency.empty() || !row.good()) return rents_of(answer, row);
  Payment payment = payment_of(answer, row);
  payment.cost = row.gpu_hours;
  return {payment};
}

}  // namespace

double Payment::end_at(double factor) const {
  double rest = factor;
  for (std::size_t i = 0; grows && i < row->phases.size(); ++i) {
    const SizePhase& phase = row->phases[i];
    const double end = i + 1 < row->phases.size() ? row->phases[i + 1].begin_days : wait,
                 part = std::max(0.0, end - phase.begin_days) / phase.alone_days;
    if (rest <= part) return phase.begin_days + rest * phase.alone_days;
    rest -= part;
  }
  return wait + rest * days;
}

double Payment::done(double day) const {
  double part = std::max(0.0, day - wait) / days;
  for (std::size_t i = 0; grows && i < row->phases.size(); ++i) {
    const SizePhase& phase = row->phases[i];
    const double end = i + 1 < row->phases.size() ? row->phases[i + 1].begin_days : wait;
    part += std::max(0.0, std::min(day, end) - phase.begin_days) / phase.alone_days;
  }
  return part;
}

std::optional<double> Payment::on_time(const SizeAnswer& answer) const {
  if (!row->doubt.exists()) return std::nullopt;
  const double part = done(answer.days);
  return part > 0 ? DoubtModel::shipped().probability_within(row->doubt, part) : 0.0;
}

std::vector<Payment> rents_of(const SizeAnswer& answer, const SizeRow& row) {
  std::vector<Payment> all;
  if (!row.good() || !row.beside.empty()) return all;  // owned nodes have no rent
  Payment payment = payment_of(answer, row);
  if (row.rents.empty() && row.money > 0) {
    payment.terms = answer.plain_terms;
    payment.cost = row.money;
    all.push_back(payment);
  }
  for (const RentCost& rent : row.rents) {
    if (!rent.error.empty()) continue;
    payment.terms = rent.terms;
    payment.days = rent.time / kSecondsOfDay;
    payment.goodput = rent.goodput;
    payment.energy = rent.energy;
    payment.cost = rent.training;
    all.push_back(payment);
  }
  return all;
}

std::optional<Payment> purchase_of(const SizeAnswer& answer, const SizeRow& row) {
  if (!row.good() || !row.ownership) return std::nullopt;
  Payment payment = payment_of(answer, row);
  payment.terms = kPurchase;
  payment.wait = row.ownership->delivery / kSecondsOfDay;
  payment.grows = !row.phases.empty();
  payment.cost = answer.total_years > 0 ? row.ownership->total() : row.ownership->price();
  return payment;
}

std::vector<Payment> payments_of(const SizeAnswer& answer) {
  std::vector<Payment> all;
  for (const auto* rows : {&answer.rows, &answer.other_networks})
    for (const SizeRow& row : *rows)
      for (Payment& payment : payments_for_row(answer, row)) all.push_back(std::move(payment));
  return all;
}

SizeLimits limits_of(const SizeAnswer& answer) { return {answer.days, answer.budget}; }

bool meets_all(const SizeAnswer& answer, const Payment& payment) {
  return limits_of(answer).admits(payment.cost, payment.needed_days());
}

std::string missed_by(const SizeAnswer& answer, const Payment& payment) {
  const bool is_late = payment.needed_days() > answer.days, is_dear = answer.budget > 0 && payment.cost > answer.budget;
  if (!is_late) return is_dear ? "budget" : "";
  return is_dear ? "deadline and budget" : "deadline";
}

bool is_better_payment(const Payment& a, double cost_of_a, const Payment& b, double cost_of_b) {
  if (a.row->parameters != b.row->parameters) return a.row->parameters > b.row->parameters;
  if (cost_of_a != cost_of_b) return cost_of_a < cost_of_b;
  return a.end() < b.end();
}

const Payment* decided_payment(const SizeAnswer& answer, const std::vector<Payment>& payments) {
  const Payment* best = nullptr;
  for (const Payment& payment : payments)
    if (meets_all(answer, payment) && (!best || is_better_payment(payment, payment.cost, *best, best->cost)))
      best = &payment;
  return best;
}

std::optional<Payment> best_payment(const SizeAnswer& answer, const SizeRow& row) {
  std::optional<Payment> best;
  const auto rank = [&answer](const Payment& payment) {
    return std::tuple(!meets_all(answer, payment), payment.needed_days() > answer.days, payment.cost, payment.end());
  };
  for (const Payment& payment : payments_for_row(answer, row))
    if (!best || rank(payment) < rank(*best)) best = payment;
  return best;
}

bool is_better_row(const SizeAnswer& answer, const SizeRow& a, const SizeRow& b) {
  const bool in_time = meets_deadline(answer, a);
  if (in_time != meets_deadline(answer, b)) return in_time;
  return in_time ? size_cost(answer, a) < size_cost(answer, b) : a.time < b.time;
}

std::vector<SizeRow> best_rows(const SizeAnswer& answer, std::size_t most) {
  std::vector<SizeRow> rows;
  for (const SizeRow& row : answer.rows)
    if (const std::optional<Payment> payment = best_payment(answer, row)) {
      rows.push_back(row);
      apply_payment(answer, *payment, rows.back());
    }
  sort_stably(rows, [](const SizeRow& a, const SizeRow& b) {
    const auto rank = [](const SizeRow& row) { return std::pair(!row.meets, row.meets ? row.cost : row.end_days); };
    return rank(a) < rank(b);
  });
  if (rows.size() > most) rows.resize(most);
  return rows;
}

void apply_payment(const SizeAnswer& answer, const Payment& payment, SizeRow& row) {
  row.terms = payment.terms;
  row.cost = payment.cost;
  row.end_days = payment.end();
  row.wait_days = payment.wait;
  row.paid_goodput = payment.goodput;
  row.paid_gpu_hours = gpu_days(payment) * kHoursOfDay;
  row.paid_energy = payment.energy;
  row.on_time = payment.on_time(answer);
  row.meets = meets_all(answer, payment);
}

double SizeRow::per_million() const {
  if (tokens <= 0 || terms.empty()) return 0;
  return 1e6 / tokens * (terms == kPurchase && ownership ? ownership->training : cost);
}

std::string nodes_in_words(int nodes, const std::string& node, int beside_nodes, const std::string& beside) {
  const std::string owned = beside.empty() ? "" : fmt::format(" beside {} x {}", beside_nodes, beside);
  return fmt::format("{} x {}{}", nodes, node, owned);
}

std::string types_in_words(const SizeRow& row) {
  return row.node + (row.beside.empty() ? "" : " beside " + row.beside);
}

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

std::string purchase_words(const SizeAnswer& answer) {
  return answer.total_years > 0 ? "to own for " + years_words(answer.total_years) : "to buy";
}

}  // namespace trainyard
