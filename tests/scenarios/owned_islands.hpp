#pragma once
#include <algorithm>
#include <string>

#include "scenarios/src/sizing/size_answer.hpp"
#include "scenarios/src/studies/answer.hpp"

// A training on owned nodes and bought ones of another type, and what `size` answers.
namespace trainyard::test {

inline Node island_training(const std::string& owned, const std::string& more = "") {
  return parse_document(
      "cluster: {node: dgx-a100}\nmodel: gpt2\n"
      "plan: {strategy: megatron, global_batch_size: 64, micro_batch_size: 1, seq_length: 1024, training: {tokens: "
      "1e9}}\n"
      "software: megatron-core\n"
      "prices: {purchase: {node: {dgx-a100: 100, dgx-h100: 300}, storage: 50, switch: 10, switch_ports: 64, cable: 1, "
      "years: 4" +
          owned + "}}\n" + more,
      "islands.yaml");
}

inline SizeAnswer island_answer(const std::string& owned, double days, const std::string& more = "", double budget = 0,
                                const std::string& bought = "dgx-h100") {
  SizeOptions options;
  options.days = days;
  options.budget = budget;
  options.purchase = true;
  options.node_types = {bought};
  options.work = 4e5;
  return size_clusters(island_training(owned, more), "islands", options);
}

inline constexpr const char* kOneOwned = ", owned: {dgx-a100: 1}";

inline const SizeIsland* way_of(const SizeAnswer& answer, IslandKind kind) {
  if (answer.islands.empty()) return nullptr;
  const auto& rows = answer.islands.front().rows;
  const auto found = std::ranges::find_if(rows, [kind](const SizeIsland& row) { return row.kind == kind; });
  return found == rows.end() ? nullptr : &*found;
}

inline Answer run_of(const std::string& scenario) {
  return trainyard::answer(read_scenario(parse_document(scenario, "written.yaml"), "written"));
}

inline double days_of(const Answer& run) { return run.result.whole_time().value / 86400; }

}  // namespace trainyard::test
