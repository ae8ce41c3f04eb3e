#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// The placement of processes by a command line that launches a training on many machines: torchrun,
/// torch.distributed.launch, horovodrun, mpirun, deepspeed or accelerate.
struct LaunchLine {
  std::string launcher;
  struct Host {
    std::string name;   ///< "node 3" if the line names no hosts
    int processes = 0;  ///< number of processes, one for each GPU
  };
  std::vector<Host> hosts;
  bool names_hosts = false;  ///< whether the line names the hosts; false: `Host::name` has their numbers
  int node_rank = -1;        ///< number of the machine on which the line is typed; −1: the line starts all machines
  std::string master;        ///< address and port of rank 0; empty: not given

  int world_size() const;
  int first_rank(std::size_t host) const;  ///< ranks are numbered host by host
};

/// Reads a launch line. For an unknown launcher or flag, throws UserError with the nearest one.
LaunchLine read_launch_line(const std::string& line);

}  // namespace trainyard
