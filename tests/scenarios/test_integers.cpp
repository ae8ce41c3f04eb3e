// Whole numbers of scenarios: none is truncated to fit its field, and no cluster larger than memory is built.
#include <catch2/catch.hpp>
#include <cctype>

#include "scenarios/src/reading/scenario.hpp"
#include "tests/user_errors.hpp"
#include "topologies/cluster.hpp"

namespace scenarios_test_integers {

using namespace trainyard;

namespace {

using Integers = std::vector<std::pair<std::string, std::int64_t>>;

void collect(const Node& node, const std::string& path, Integers& integers) {
  const bool is_integer =
      !node.scalar.empty() && std::ranges::all_of(node.scalar, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (node.kind == Node::Kind::scalar && is_integer) integers.emplace_back(path, parse_integer(node.scalar));
  const std::string prefix = path.empty() ? "" : path + ".";
  for (std::size_t i = 0; i < node.items.size(); ++i) collect(node.items[i], prefix + std::to_string(i), integers);
  for (const auto& [key, field] : node.fields) collect(field, prefix + key, integers);
}

const std::string kNode =
    "{gpu: {count: 2, type: {base: v100-sxm2-16gb, sms: 80}}, interconnect: nvlink-mesh, sockets: 2, socket_link: "
    "{rate: 10 GB/s, latency: 1 us}, cpu: {cores: 8, lanes: 40}, nvlink: {latency: 1 us, link_rate: 25 GB/s, mesh: "
    "[[0, 1, 2]]}, pcie: {latency: 1 us, generation: 3, lanes_per_socket: 40, device_lanes: 8}, hca: {count: 1, rate: "
    "10 GB/s, latency: 1 us, of_gpu: [0, 0]}, nvme: {count: 1, read: 1 GB/s, latency: 1 us, lanes: 4}}";

/// Returns a scenario of four nodes on this fabric.
std::string text(const std::string& fabric, const std::string& plan, const std::string& more = "") {
  return "cluster: {nodes: 4, node: " + kNode + ", fabric: " + fabric +
         "}\nmodel: {base: gpt2, n_layer: 4, n_embd: 64, " +
         "n_head: 4}\nplan: {global_batch_size: 64, micro_batch_size: 1, seq_length: 16, precision: fp16, " + plan +
         "}\n" + more;
}

const std::vector<std::string>& texts() {
  static const std::vector<std::string> all{
      text("{type: torus, switch_latency: 1 us, dims: [2, 2], wrap_multiple: 1}", "data_parallel: {size: 8}"),
      text("{type: torus, switch_latency: 1 us, dimensions: 2}", "steps: 2, data_parallel: {delay: 1}"),
      text("{type: dragonfly, switch_latency: 1 us, switches_a_group: 2, hosts_a_switch: 1, global_links: 1}",
           "data_parallel: {local_steps: 2}"),
      text("{type: folded-clos, switch_latency: 1 us, levels: [{down: 2, oversubscription: 1}]}",
           "tensor_parallel: 2, pipeline_parallel: 2, pipeline: {schedule: interleaved-1f1b, chunks: 2}, "
           "data_parallel: {zero_stage: 1, all_reduce: {algorithm: ring, channels: 2}}"),
      text("{type: ethernet, switch_latency: 1 us, mtu: 1500}",
           "data_parallel: {mechanism: parameter-server, servers: {count: 2}, consistency: stale, staleness: 3}"),
      text("nonblocking", "data_parallel: {mechanism: parameter-server, servers: 2, backup_workers: 1}"),
      text("nonblocking", "training: {epochs: 2, steps_per_epoch: 10}",
           "faults: {stragglers: {kind: constant, ranks: [1], factor: 2}, failures: {mtbf: {node: 50000 h}, runs: 2}, "
           "checkpoint: {every: 2 steps, write: 1 s, load: 1 s}, restart: {spares: 1}}\n"
           "input: {dataset: {samples: 1000, sample_size: 1 kB}, decode: {workers: 2, rate: 10, cores: 4}, readers: 2, "
           "prefetch: 2, epoch: 1}\n"),
  };
  return all;
}

/// True if only the range of a double limits the number at the path.
bool may_be_large(const std::string& path) {
  return path == "plan.training.steps_per_epoch" || path == "input.dataset.samples" || path == "input.decode.rate";
}

}  // namespace

TEST_CASE("no whole number of a scenario is truncated to another one", "[scenario][integers]") {
  constexpr std::int64_t wide = std::int64_t{1} << 32;
  for (const std::string& text : texts()) {
    INFO(text);
    REQUIRE_NOTHROW(read_scenario_text(text, "s.yaml"));
    Integers all;
    collect(parse_document(text, "s.yaml"), "", all);
    for (const auto& [path, value] : all) {
      INFO(path << ": " << value);
      for (const std::int64_t other : {value + wide, std::numeric_limits<std::int64_t>::max()})
        if (may_be_large(path)) try {
            read_scenario_text(text, "s.yaml", {{path, std::to_string(other)}});
          } catch (const UserError&) {  // too large is fine, a crash is not
          }
        else
          CHECK_THROWS_AS(read_scenario_text(text, "s.yaml", {{path, std::to_string(other)}}), UserError);
    }
  }
}

TEST_CASE("a cluster larger than memory is not built, and the refusal gives its size", "[scenario][integers]") {
  const auto error = [](const std::string& cluster) {
    return test::user_error([&] {
      build_cluster(read_scenario_text("cluster: " + cluster +
                                           "\nmodel: gpt2\nplan: {idle_devices: allowed, global_batch_size: 8, "
                                           "micro_batch_size: 1, data_parallel: {size: 8}}\n",
                                       "s.yaml")
                        .cluster);
    });
  };
  CHECK(error("{nodes: 16384, node: {base: dgx-a100, gpu: {count: 1024}}, fabric: nonblocking}") ==
        "s.yaml:1:10: a cluster of 16384 nodes of 3.37183e+07 devices and 3.37183e+07 cables is too large to build; at "
        "most 2.09715e+06 and 4.1943e+06");
  CHECK_THAT(error("{nodes: 64, node: dgx-a100, fabric: {type: dragonfly, switch_latency: 1 us, switches_a_group: "
                   "4096, hosts_a_switch: 1, global_links: 4096}}"),
             Catch::StartsWith("s.yaml:1:46: a dragonfly of 1 groups of 4096 devices and 8.38656e+06 cables"));
  CHECK_THAT(error("{nodes: 4096, node: dgx-a100, fabric: {type: folded-clos, routing: ecmp, switch_latency: 1 us, "
                   "levels: [{down: 1, oversubscription: 0.001}, {down: 4, oversubscription: 0.01}]}}"),
             Catch::Contains("a folded Clos, switch by switch, of ") && Catch::Contains("too large to build"));
}

}  // namespace scenarios_test_integers
