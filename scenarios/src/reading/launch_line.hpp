#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// The command by which a training is started on many machines, as torchrun, torch.distributed.launch, horovodrun, mpirun,
/// deepspeed and accelerate have it: which process runs where.
struct LaunchLine {
  std::string launcher;
  struct Host {
    std::string name;   ///< "node 3" where the line names none
    int processes = 0;  ///< one a GPU
  };
  std::vector<Host> hosts;
  bool names_hosts = false;  ///< else they are called by their numbers
  int node_rank = -1;        ///< of the machine on which the line is typed; −1: it starts all of them
  std::string master;        ///< address and port of rank 0; empty: not said

  int world_size() const;
  int first_rank(std::size_t host) const;  ///< ranks count on from host to host
};

/// Throws UserError that names the launcher or flag and the nearest one.
LaunchLine read_launch_line(const std::string& line);

}  // namespace trainyard
