#pragma once
#include <string>
#include <vector>

#include "topologies/cluster.hpp"

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
  std::string backend;       ///< "nccl", "gloo" or "mpi"; empty: the line does not say
  std::string
      init_method;  ///< how ranks find each other: "env://", "tcp://HOST:PORT", "file://PATH"; empty: MPI joins them

  /// Number of requests to the store of the rendezvous. Each rank adds itself to a counter. With NCCL rank 0 sets a
  /// unique identifier, which each other rank gets; with Gloo each rank sets its address, and gets that of each other
  /// rank. 0: MPI starts the processes, or the backend is not known.
  double rendezvous_requests() const;
  int world_size() const;
  int first_rank(std::size_t host) const;  ///< ranks are numbered host by host
};

/// Reads a launch line. For an unknown launcher or flag, throws UserError with the nearest one.
LaunchLine read_launch_line(const std::string& line);

/// Reads `preflight: {ports: [22, 29500], hosts: [{name, gpus, open_ports, reaches, versions: {cuda: 12.2, …}}, …]}` of
/// a cluster: the hosts that the user declares, one for each node in order. Throws UserError, with the place, for
/// anything that would keep a training from starting: a missing host or GPU, a closed port that is needed, a host that
/// cannot be reached, or versions that differ. A host without `reaches` reaches all others.
std::vector<DeclaredHost> checked_hosts(const Node& preflight, const ClusterSpec&);

}  // namespace trainyard
