#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/src/traces/chakra.hpp"
#include "sim/json_text.hpp"
#include "tests/tools/topo_shell.hpp"

namespace trainyard::test {

using Nodes = std::vector<ChakraNode>;

inline ChakraNode trace_node(std::uint64_t id, ChakraType type, std::vector<std::uint64_t> deps = {}) {
  ChakraNode node;
  node.id = id;
  node.name = "node " + std::to_string(id);
  node.type = type;
  node.deps = std::move(deps);
  return node;
}
/// A node for work of the GPU with a stated duration.
inline ChakraNode stated(std::uint64_t id, double seconds, std::vector<std::uint64_t> deps = {}) {
  ChakraNode node = trace_node(id, ChakraType::compute, std::move(deps));
  node.duration = seconds;
  return node;
}
/// A node for a collective. `type`: Chakra's number of the collective.
inline ChakraNode exchange(std::uint64_t id, int type, double bytes, std::vector<std::uint64_t> deps = {}) {
  ChakraNode node = trace_node(id, ChakraType::collective, std::move(deps));
  node.collective = type;
  node.bytes = bytes;
  return node;
}

/// A temporary folder with traces, in which commands run.
struct TraceFolder : TopoFolder {
  static std::string bytes_of(const Nodes& nodes) {
    std::string file = chakra_header();
    for (const ChakraNode& node : nodes) append_chakra(file, node);
    return file;
  }
  void write_trace(const std::string& prefix, const std::vector<Nodes>& ranks) const {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      write(prefix + "." + std::to_string(rank) + ".et", bytes_of(ranks[rank]));
  }
  /// Writes the trace of ranks with equal nodes.
  void write_trace(const std::string& prefix, int ranks, const Nodes& nodes) const {
    write_trace(prefix, std::vector<Nodes>(static_cast<std::size_t>(ranks), nodes));
  }
  nlohmann::json answer(const std::string& command) const {
    const TopoAnswer answer = trainyard(command + " --json -");
    INFO(command << ": " << answer.err);
    REQUIRE(answer.exit == 0);
    return parse_json(answer.out);
  }
  /// Returns the time of a replay on a DGX A100, s.
  double replayed(const std::string& arguments) const {
    return answer("replay " + arguments + " --on dgx-a100")["time_s"];
  }
  void check_replay_refused(const std::string& arguments, const std::string& error) const {
    check_refused("replay " + arguments + " --on dgx-a100", error);
  }
  /// The time of a collective by `trainyard bench`, s. `size`: as nccl-tests writes it.
  double bench_time(const std::string& arguments, const std::string& size) const {
    const nlohmann::json bench = answer("bench " + arguments + " --no-check -b " + size + " -e " + size);
    return bench["rows"][0]["time_us"].get<double>() * 1e-6;
  }
};

}  // namespace trainyard::test
