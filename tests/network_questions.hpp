#pragma once
#include <catch2/catch.hpp>
#include <string>

#include "scenarios/src/sizing/size_answer.hpp"
#include "topologies/analysis/network_design.hpp"

namespace trainyard::test {

/// Returns a small training on nodes of H100, followed by `more` sections of YAML.
inline Node question(const std::string& more) {
  return parse_document(
      "cluster: {node: dgx-h100}\nmodel: gpt2\n"
      "plan: {strategy: megatron, global_batch_size: 64, micro_batch_size: 1, seq_length: 1024, training: {tokens: "
      "1e9}, pipeline: {schedule: 1f1b}}\nsoftware: megatron-core\n" +
          more,
      "small.yaml");
}

/// Returns the options of `size --network choose` on at most this number of GPUs.
inline SizeOptions options_of(int gpus, double days = 30) {
  SizeOptions options;
  options.days = days;
  options.node_types = {"dgx-h100"};
  options.work = 2e5;
  options.gpus = gpus;
  options.networks = network_kinds();
  return options;
}

/// Returns the networks of the answer, which must have some.
inline SizeNetworks networks_of(const std::string& more, const SizeOptions& options) {
  const SizeAnswer answer = size_clusters(question(more), "small", options);
  REQUIRE(answer.networks);
  return *answer.networks;
}

/// Returns the row of a kind of network, which must be there.
inline const SizeNetwork& row_of(const SizeNetworks& all, const std::string& kind) {
  for (const SizeNetwork& row : all.rows)
    if (row.network == kind) return row;
  FAIL("no row of " << kind);
  return all.rows.front();
}

}  // namespace trainyard::test
