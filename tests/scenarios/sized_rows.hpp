#pragma once
#include <string>
#include <utility>
#include <vector>

#include "models/reading/document.hpp"
#include "scenarios/src/sizing/size_answer.hpp"

// Sizes whose figures are given instead of simulated.
namespace trainyard::test {

inline Prices prices_of(const std::string& text) { return read_prices(parse_document(text, "prices.yml")); }

/// Returns the costs of buying nodes of eight GPUs and adapters, with a power of 1 kW each.
inline Ownership owned_nodes(const Prices& prices, const std::string& node, const std::string& gpu, int nodes,
                             double rent_hour) {
  return cost_of_ownership(prices.purchase, {{node, gpu, nodes, 8, 8}}, 1000.0 * nodes, 1, rent_hour);
}

/// Returns a training that takes `days` on nodes of eight GPUs. Each node draws 1 kW.
inline SizeRow evaluated_row(const Prices& prices, const std::string& node, int nodes, double days) {
  const std::string gpu = node == "dgx-a100" ? "a100-sxm4-80gb" : "h100-sxm5-80gb";
  SizeRow row;
  row.model = "gpt2";
  row.node = node;
  row.nodes = nodes;
  row.gpus = 8 * nodes;
  row.plan = "data 8";
  row.step_time = 1;
  row.time = days * 86400;
  row.gpu_hours = days * 24 * row.gpus;
  row.energy = 1000.0 * nodes * row.time;
  if (!prices.rents.empty()) row.money = row.gpu_hours * prices.gpu_hour(node, gpu, 8);
  if (prices.purchase.has_price(node, gpu)) {
    const double rent_hour = prices.rents.empty() ? 0 : row.gpus * prices.gpu_hour(node, gpu, 8);
    row.ownership = owned_nodes(prices, node, gpu, nodes, rent_hour);
    row.ownership->training = row.ownership->year() * days / 365;
  }
  return row;
}

inline SizeAnswer judged_answer(const Prices& prices, double days, bool purchase, std::vector<SizeRow> rows) {
  SizeAnswer answer;
  answer.scenario = "question";
  answer.currency = prices.currency;
  answer.days = days;
  answer.purchase = purchase;
  answer.rows = std::move(rows);
  judge_sizes(answer, prices);
  return answer;
}

}  // namespace trainyard::test
