#include "sim/process/output.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/topo.hpp"
#include "tools/verbs/topo_machine.hpp"
#include "tools/verbs/verbs.hpp"
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

}  // namespace
}  // namespace trainyard
