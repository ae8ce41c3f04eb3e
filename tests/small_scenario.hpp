#pragma once

namespace trainyard::test {

/// Two layers of GPT-2 on the eight devices of two nodes.
constexpr const char* kSmallScenario = R"(cluster:
  nodes: 2
  node: t4-server
  fabric: nonblocking
model: {base: gpt2, n_layer: 2}
plan:
  global_batch_size: 16
  micro_batch_size: 1
  seq_length: 64
  precision: fp16
)";

}  // namespace trainyard::test
