#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "models/catalog.hpp"
#include "models/nccl_topology.hpp"
#include "sim/output.hpp"
#include "tools/arguments.hpp"
#include "tools/topo.hpp"
#include "tools/verbs.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {
namespace {

std::string topology_file_text(const std::string& file) {
  constexpr std::uintmax_t most = 64 << 20;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) throw UserError(fmt::format("{}: no such file", file));
  if (!std::filesystem::is_regular_file(file, error)) throw UserError(fmt::format("{}: not a file", file));
  if (std::filesystem::file_size(file, error) > most || error)
    throw UserError(fmt::format("{}: larger than 64 MiB: no topology of a node", file));
  std::ifstream in(file, std::ios::binary);
  if (!in) throw UserError(fmt::format("{}: cannot be read", file));
  return {std::istreambuf_iterator<char>(in), {}};
}

/// An entry that could not be used must not be written.
void check_imported_node(const std::string& yaml, const std::string& file) {
  const Catalog catalog;
  ClusterSpec spec;
  spec.node = read_node(catalog.resolve("node", parse_document(yaml, "node imported from " + file)), catalog);
  build_cluster(spec);
}

int topo_import(const std::vector<std::string>& words) {
  Arguments arguments("topo import",
                      "A node's entry for the catalog, or for a scenario's cluster.node, from the topology that NCCL "
                      "writes with NCCL_TOPO_DUMP_FILE. Latencies, and the link between sockets, are assumed.",
                      "topo import system.xml --yaml my-node.yaml");
  std::string file, gpu, yaml = "-";
  arguments.positional("FILE", file, "NCCL topology (XML)");
  arguments.option("--gpu", gpu, "NAME", "GPU of the catalog; default by the compute capability");
  arguments.option("--yaml", yaml, "FILE", "where to write it; - is stdout (default)");
  if (!arguments.parse(words)) return kGood;
  check_writable(yaml);
  if (!gpu.empty()) {
    Place place;
    place.file = std::make_shared<const std::string>("trainyard topo import: --gpu");
    Catalog().entry("gpu", gpu, place);
  }
  const std::string entry = node_entry_of_nccl_topology(topology_file_text(file), file, gpu);
  check_imported_node(entry, file);
  write_whole(yaml, entry);
  return kGood;
}

const RegisterTopoVerb registered_topo_import{"import", "a node's entry from an NCCL topology", topo_import};

}  // namespace
}  // namespace trainyard
