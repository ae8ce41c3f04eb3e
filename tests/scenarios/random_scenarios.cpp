#include "tests/scenarios/random_scenarios.hpp"

namespace trainyard::test {

std::string RandomScenarios::next() {
  const int nodes = 1 << below(3);
  std::string text =
      "cluster: {nodes: " + std::to_string(nodes) +
      ", node: " + one_of({"dgx-a100", "dgx-h100", "dgx-1v", "dgx-2", "pcie-4", "p3.16xlarge", "t4-server", "l40s-8x"});
  if (nodes > 1) text += ", fabric: " + one_of({"nonblocking", "rail-optimized", "leaf-spine"});
  text += "}\nmodel: " + one_of({"{base: gpt2, n_layer: 4}", "{base: bert-base, num_hidden_layers: 4}", "resnet50"});
  text += "\nsoftware: " + one_of({"plain", "pytorch-ddp", "megatron-core"});
  text += "\nplan:\n  global_batch_size: 256\n  micro_batch_size: " + one_of({"1", "2", "4"});
  text += "\n  precision: " + one_of({"fp16", "fp32"});
  const int tensor = 1 << below(3), pipeline = 1 << below(2);
  if (below(2) == 0) text += "\n  tensor_parallel: " + std::to_string(tensor);
  if (below(3) == 0) text += "\n  pipeline_parallel: " + std::to_string(pipeline);
  text += "\n  data_parallel: " +
          one_of({"{}", "{}", "{overlap: false}", "{zero_stage: 1}", "{zero_stage: 2}", "{zero_stage: 3}",
                  "{all_reduce: ring}", "{all_reduce: hierarchical}", "{all_reduce: double-binary-tree}",
                  "{mechanism: parameter-server}", "{mechanism: master}", "{mechanism: central-storage}"});
  return text + "\n";
}

}  // namespace trainyard::test
