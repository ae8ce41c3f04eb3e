#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/json_text.hpp"
#include "tests/tools/topo_shell.hpp"

namespace trainyard::test {

/// The JSON inside a page of charts; null if there is none.
inline nlohmann::json data_of_page(const std::string& page) {
  const std::string mark = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(mark);
  if (begin == std::string::npos) return nullptr;
  const std::size_t from = begin + mark.size(), end = page.find("</script>", from);
  return parse_json(page.substr(from, end - from));
}

/// A command that writes a page with --html and its answer with --json, and the least number of charts of the page.
struct PageCommand {
  std::string words;
  int charts;
};
inline const std::vector<PageCommand>& page_commands() {
  static const std::string scenarios = TRAINYARD_SOURCE_DIR "/scenarios/";
  static const std::vector<PageCommand> commands{
      {"run small.yaml", 4},
      {"run " + scenarios + "naive-vs-gpipe.yaml", 4},
      {"run " + scenarios + "parameter-server-resnet50.yaml --no-what-if", 1},
      {"run " + scenarios + "gpt3-training-time.yaml --no-what-if", 1},
      {"sweep small.yaml --set plan.global_batch_size=16,32,20 --set cluster.nodes=1,2", 2},
      {"learn " + scenarios +
           "learn-local-sgd.yaml --compare plan.data_parallel.local_steps=1,8 --set learn.steps=24 --seeds 2",
       2},
      {"plan small.yaml --vary plan.data_parallel.zero_stage=0,1", 2},
      {"size small.yaml --tokens 10M --days 30 --gpus 8 --nodes-of dgx-a100,dgx-h100 --work 100K --prices " +
           scenarios + "prices-example.yml",
       1},
      {"size small.yaml --tokens 10M --days 30 --gpus 16 --nodes-of dgx-h100 --purchase --network choose --work 100K "
       "--prices " +
           scenarios + "prices-example.yml",
       1},
      {"fleet fleet.yaml", 1},
      {"compare small.yaml other.yaml --prices prices.yml", 1},
      {"validate training --family dgxc-h100-llama3.1-8b --points", 2}};
  return commands;
}

/// A folder with small.yaml: two nodes of eight GPUs.
struct PageFolder : TopoFolder {
  PageFolder() {
    write("small.yaml",
          "cluster: {nodes: 2, node: dgx-1v, fabric: nonblocking}\nmodel: {base: gpt2, n_layer: 2}\n"
          "plan: {global_batch_size: 32, micro_batch_size: 1, seq_length: 64, precision: fp16}\n");
    write("other.yaml",
          "cluster: {nodes: 1, node: dgx-1v}\nmodel: {base: gpt2, n_layer: 2}\n"
          "plan: {global_batch_size: 32, micro_batch_size: 2, seq_length: 64, precision: fp16}\n");
    write(
        "prices.yml",
        "source: a test\nsources: {offer: an offer of May}\ngpu_hour: {v100-sxm2-16gb: {value: 1.25, source: offer}}\n"
        "purchase: {node: {dgx-1v: 50000}, storage: 1000, switch: 2000, cable: 50, interest: 0.05, kwh: 0.1, staff: "
        "0.02}\n");
    write("fleet.yaml",
          "cluster: {nodes: 3, node: dgx-1v, fabric: nonblocking}\nfleet: {horizon: 20 d}\ntrainings:\n"
          "- {name: long, nodes: [1, 2], count: 3, scenario: small.yaml, plan: {training: {steps: 20000000}}}\n"
          "- {name: short, nodes: 1, every: 2 d, deadline: 1 d, scenario: small.yaml, plan: {training: {steps: "
          "1000000}}}\n");
  }
};

}  // namespace trainyard::test
