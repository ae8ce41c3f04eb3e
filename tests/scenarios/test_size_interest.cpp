// The interest on a network beside rented nodes, and the fastest cluster on a chosen network.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "scenarios/src/sizing/size_answer.hpp"

namespace scenarios_test_size_interest {

using namespace trainyard;

TEST_CASE("the interest beside rents changes the decision at its threshold, and the fastest is a row of the table",
          "[size]") {
  const auto answer_at = [](double interest, double days = 30) {
    SizeOptions options;
    options.days = days;
    options.work = 2e5;
    options.gpus = 64;
    options.networks = {"nonblocking", "2:1"};
    options.node_types = {"dgx-h100", "dgx-a100"};
    return size_clusters(
        parse_document("cluster: {node: dgx-h100}\nmodel: gpt2\nplan: {strategy: megatron, global_batch_size: 64, "
                       "micro_batch_size: 1, seq_length: 1024, training: {tokens: 1e9}, pipeline: {schedule: 1f1b}}\n"
                       "software: megatron-core\n" +
                           fmt::format("prices: {{currency: EUR, gpu_hour: {{h100-sxm5-80gb: 2, a100-sxm4-80gb: 0.9}}, "
                                       "purchase: {{node: {{dgx-h100: 300000, dgx-a100: 200000}}, "
                                       "switch: 90000, switch_ports: 16, cable: 9000, interest: {:.17g}}}}}\n",
                                       interest),
                       "small.yaml"),
        "small", options);
  };
  const auto decided = [](const SizeAnswer& answer) {
    return fmt::format("{} {} {}", answer.cheapest->nodes, answer.cheapest->node, answer.cheapest->network);
  };
  const SizeAnswer answer = answer_at(0.06);
  REQUIRE(answer.cheapest);
  for (const SizeThreshold& t : answer.thresholds) {
    if (t.quantity != "interest in %") continue;
    CHECK(t.value == Approx(6));
    const double step = t.threshold < t.value ? -1e-3 : 1e-3;
    CHECK(decided(answer_at(t.threshold * (1 - step) / 100)) == decided(answer));
    if (!t.node.empty()) CHECK(decided(answer_at(t.threshold * (1 + step) / 100)) != decided(answer));
  }
  REQUIRE(answer.fastest);
  const bool is_row = std::ranges::any_of(answer.rows, [&answer](const SizeRow& row) {
    return row.node == answer.fastest->node && row.nodes == answer.fastest->nodes &&
           row.network == answer.fastest->network && row.end_days == answer.fastest->end_days &&
           row.cost == answer.fastest->cost;
  });
  CHECK(is_row);
  for (const SizeRow& row : answer.rows)
    if (row.meets) CHECK(answer.fastest->end_days <= row.end_days);
}

}  // namespace scenarios_test_size_interest
