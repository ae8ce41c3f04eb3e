#pragma once
#include <map>
#include <vector>

#include "models/software/stack.hpp"
#include "topologies/cluster.hpp"
#include "topologies/routing.hpp"

namespace trainyard {

/// Time in which the CPU of this node issues one kernel.
Seconds dispatch_time(const NodeType&, const SoftwareStack&);

/// Time of a kernel that has a GPU of this node to itself: the chip's time, and at least the stack's dispatch time if
/// its host does not run ahead. Throws UserError as `kernel_time` does.
Seconds kernel_cost(const NodeType&, const SoftwareStack&, const Work&);

/// Returns true if the network of such nodes slows kernels less than exchanges inside a node do. Kernels beside an exchange between
/// nodes lose at most 200 times the share of the GPU's memory bandwidth that the rate of all the node's adapters is.
bool has_slow_network(const NodeType&);

/// Returns true if a message between two nodes has a latency of 1 ms or more: the nodes stand at different sites.
bool has_sites(const ClusterSpec&);

// Values of Work::kernel that are not single kernels:
constexpr std::uint16_t kStepOverhead = 1000;    ///< host work of one step
constexpr std::uint16_t kCycleWait = 1001;       ///< wait for the coordinator's next tick
constexpr std::uint16_t kBucketCopy = 1002;      ///< copy of a bucket's gradients in or out; bytes: read and written
constexpr std::uint16_t kMicroBatchHost = 1003;  ///< host work of a micro-batch
constexpr std::uint16_t kHostWaits = 1004;       ///< the host waits for everything that has been launched
constexpr std::uint16_t kFirstFused = 2000;      ///< first fused run of kernels (see ClusterMachine::fuse)
constexpr bool is_fused(std::uint16_t kernel) { return kernel >= kFirstFused && kernel < kFirstAttention; }

/// Time of a kernel, or of the host work of a step, on a GPU of this node under this stack.
Seconds rank_time(const NodeType&, const SoftwareStack&, const Work&);

/// A cluster on which rank r runs on GPU r (node by node). After the GPUs, every CPU socket, every NVMe drive, every
/// NVSwitch and every switch of the fabric is an actor too. Kernels take `kernel_cost`. The host work of a GPU's step
/// takes the times of the software stack. The work of other actors takes the time of their node's CPU. Messages take the
/// paths of `Routing`.
class ClusterMachine : public Machine, private Contention {
 public:
  ClusterMachine(const ClusterSpec&, const SoftwareStack&);
  ClusterMachine(const ClusterMachine&) = delete;  // its routing refers to its graph

  /// Multiplies the time of kernels and of the host work of steps, to make a step as long as measured. Messages, waits
  /// and the copies of buckets do not change.
  void scale_compute(double factor) {
    compute_scale_ = factor;
    priced_.clear();
  }
  /// Sets runs of kernels that are priced as one operation: run i is kernel kFirstFused + i. They must outlive all
  /// calls of `price`; more may be appended.
  void fuse(const std::vector<std::vector<Work>>& runs);

  std::span<const Link> links() const override { return graph_.links(); }
  Cost price(const Work&, Actor) const override;
  Route route(Actor from, Actor to, PathClass path_class) const override;
  void visit_route(Actor from, Actor to, PathClass path_class,
                   const std::function<void(const Route&)>& visit) const override;
  const Contention* contention() const override { return interferes_ ? this : nullptr; }
  double speed(Actor, Kind, KindSet active) const override;
  std::span<const LinkId> ports(Actor actor) const override { return ports_.at(static_cast<std::size_t>(actor)); }
  void link_state(LinkId link, bool up) override { routing_.link_state(link, up); }
  std::string cause_of_cut(Actor from, Actor to) const override;
  std::string actor_name(Actor) const override;
  /// Equal for GPUs of nodes of the same type.
  std::uint64_t equivalence_class(Actor) const override;

  const DeviceGraph& graph() const { return graph_; }
  const ClusterSpec& spec() const { return spec_; }
  /// Returns the GPU, CPU, NVMe drive or switch of an actor.
  DeviceId device(Actor actor) const { return actors_.at(static_cast<std::size_t>(actor)); }
  /// The actor of such a device. Throws InternalError for other devices.
  Actor actor(DeviceId) const;
  /// Returns the HCA of an actor; −1: none.
  DeviceId hca_of(Actor actor) const { return routing_.hca_of(device(actor)); }
  const SoftwareStack& software() const { return stack_; }
  /// The CPU socket that an actor is attached to; −1: none.
  DeviceId socket_of(Actor actor) const { return routing_.socket_of(device(actor)); }
  /// Number of actors.
  Actor actors() const { return static_cast<Actor>(actors_.size()); }
  Path path(Actor from, Actor to, PathClass path_class) const {
    return routing_.path(device(from), device(to), path_class);
  }

 private:
  ClusterSpec spec_;
  bool interferes_ = false;       // kernels and messages slow each other on some GPU
  bool has_slow_routes_ = false;  // a network slows kernels less than exchanges in a node do, or joins sites
  mutable DeviceGraph graph_;     // caches the paths that it has found
  mutable Routing routing_;
  SoftwareStack stack_;
  double compute_scale_ = 1;
  const std::vector<std::vector<Work>>* fused_ = nullptr;
  mutable std::map<const NodeType*, std::vector<Cost>> fused_costs_;  // negative duration: not computed yet
  /// A kernel that has been priced. Ranks run the same kernels over and over, so a small table finds most of them.
  struct PricedKernel {
    const NodeType* type = nullptr;
    Work work;
    Cost cost;
  };
  mutable std::vector<PricedKernel> priced_;  // indexed by a hash of type and work
  std::vector<DeviceId> actors_;              // GPUs, CPUs, drives, NVSwitches, switches of the fabric
  std::vector<const NodeType*> types_;        // type of the node of each actor
  std::size_t ranks_ = 0;
  std::vector<std::vector<LinkId>> ports_;

  /// Returns true for a message over a network that slows kernels less than exchanges in a node do.
  bool is_slow(Actor from, Actor to) const;
  const NodeType& type_of(Actor actor) const { return *types_.at(static_cast<std::size_t>(actor)); }
  bool host_runs_ahead() const { return stack_.host.runs_ahead && compute_scale_ == 1; }
  Cost fused_cost(const NodeType&, std::size_t run) const;
  Cost host_cost(const NodeType&, const Work&) const;
  Cost kernel_cost_of(const NodeType&, const Work&) const;
  Cost cached_kernel_cost(const NodeType&, Work) const;
  Seconds bucket_copy_time(const NodeType&, Work) const;
};

}  // namespace trainyard
