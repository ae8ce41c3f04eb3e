#include <fmt/format.h>
#include <filesystem>
#include <optional>

#include "models/imports/imported_node.hpp"
#include "models/reading/catalog.hpp"
#include "tools/verbs/topo.hpp"
#include "tools/verbs/topo_machine.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/cluster.hpp"
#include "topologies/drawings/simgrid_platform.hpp"

namespace trainyard {
namespace {

int topo_export(const std::vector<std::string>& words) {
  Arguments arguments("topo export",
                      "Writes the machine in the format of another simulator: a platform file of SimGrid.",
                      "topo export dgx-1v --simgrid dgx-1v.xml");
  TopoMachineArguments machine_arguments;
  std::string simgrid;
  machine_arguments.add_to(arguments);
  arguments.output("--simgrid", simgrid, "write a SimGrid platform (XML); - is stdout");
  if (!arguments.parse(words)) return kGood;
  if (simgrid.empty()) throw UserError("trainyard topo export: --simgrid FILE expected");
  const TopoMachine machine = machine_arguments.read("topo export");
  write_atomically(simgrid, simgrid_platform(machine.cluster, machine.network_step));
  return kGood;
}

const RegisterTopoVerb registered_topo_export{"export", "write the machine as a SimGrid platform", topo_export};

std::string topology_file_text(const std::string& file) {
  constexpr std::uintmax_t most = 64 << 20;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) throw UserError(fmt::format("{}: no such file", file));
  if (!std::filesystem::is_regular_file(file, error)) throw UserError(fmt::format("{}: not a file", file));
  if (std::filesystem::file_size(file, error) > most || error)
    throw UserError(fmt::format("{}: larger than 64 MiB: no topology of a node", file));
  check_input(file);
  return read_file(file);
}

/// Throws UserError if the entry could not be used.
void check_imported_node(const std::string& yaml, const std::string& file) {
  const Catalog catalog;
  ClusterSpec spec;
  spec.node = read_node(catalog.resolve("node", parse_document(yaml, "node imported from " + file)), catalog);
  build_cluster(spec);
}

bool looks_like_xml(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return first != std::string::npos && text[first] == '<';
}

BytesPerSecond hca_rate_option(const std::string& text) {
  if (text.empty()) return {};
  const BytesPerSecond rate = read_flag("trainyard topo import: --hca-rate", text, parse_bandwidth);
  if (rate.value > 0) return rate;
  throw UserError(fmt::format("trainyard topo import: --hca-rate: {}: expected more than 0", text));
}

Gpu gpu_option(const std::string& name) {
  return read_gpu(Catalog().resolve("gpu", Node::scalar_node(name, Place::named("trainyard topo import: --gpu"))));
}

std::string imported_entry(const std::string& file, const std::string& gpu, const std::string& hca_rate) {
  const std::string text = topology_file_text(file);
  const BytesPerSecond rate = hca_rate_option(hca_rate);
  const std::optional<Gpu> type = gpu.empty() ? std::nullopt : std::optional(gpu_option(gpu));
  if (looks_like_xml(text)) {
    if (rate.value > 0)
      throw UserError(fmt::format("trainyard topo import: --hca-rate: {} is an NCCL topology, which has rates", file));
    return node_entry_of_nccl_topology(text, file, gpu);
  }
  if (!looks_like_topology_matrix(text))
    throw UserError(fmt::format(
        "{}: expected an NCCL topology (XML), or what nvidia-smi topo -m prints (a header GPU0 GPU1 …)", file));
  if (!type)
    throw UserError(fmt::format("{}: the output of nvidia-smi does not name its GPUs; name them with --gpu", file));
  return node_entry_of_topology_matrix(text, file, *type, rate);
}

int topo_import(const std::vector<std::string>& words) {
  Arguments arguments("topo import",
                      "Writes a node's entry, for the catalog or for a scenario's cluster.node, from the output of "
                      "`nvidia-smi topo -m` or from the topology that NCCL writes with NCCL_TOPO_DUMP_FILE (which has "
                      "rates too). Latencies, and the link between sockets, are assumed.",
                      "topo import topo.txt --gpu a100-sxm4-80gb --hca-rate '200 Gbit/s' --yaml my-node.yaml");
  std::string file, gpu, hca_rate, yaml = "-";
  arguments.positional("FILE", file, "output of nvidia-smi topo -m, or NCCL topology (XML)");
  arguments.option("--gpu", gpu, "NAME", "GPU of the catalog (default with XML: by the compute capability)");
  arguments.option("--hca-rate", hca_rate, "RATE",
                   "rate of each NIC in nvidia-smi's matrix, per direction (default 100 Gbit/s)");
  arguments.output("--yaml", yaml, "where to write the entry; - is stdout (the default)");
  if (!arguments.parse(words)) return kGood;
  const std::string entry = imported_entry(file, gpu, hca_rate);
  check_imported_node(entry, file);
  write_atomically(yaml, entry);
  return kGood;
}

const RegisterTopoVerb registered_topo_import{
    "import", "write a node's entry from nvidia-smi topo -m, or from an NCCL topology", topo_import};

}  // namespace

}  // namespace trainyard
