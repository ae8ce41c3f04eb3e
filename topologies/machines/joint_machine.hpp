#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

/// Kernel number of the pause before a job begins (Work::kernel).
constexpr std::uint16_t kJobPause = 1999;

/// Returns, by actor of a job's own cluster, the actor of the shared cluster in its place. Node i of the job is node
/// `nodes[i]` of the shared cluster. −1: the device lies in the fabric, or the shared node has none of its kind.
std::vector<Actor> shared_places(const ClusterMachine& alone, const ClusterMachine& shared,
                                 const std::vector<int>& nodes);

/// A cluster that several jobs share. The actors of each job follow those of the job before it; after them come all
/// actors of the shared cluster, so that flows can name devices. A job's own machine prices its work. Messages take
/// the paths of the shared cluster.
class JointMachine : public Machine, private Contention {
 public:
  struct Job {
    std::string name;
    const Machine* machine = nullptr;  ///< its nodes as a cluster of their own
    ClusterMachine* shared = nullptr;  ///< the shared cluster under the job's software: equal links for all jobs
    Actor ranks = 0;
    std::vector<Actor> places = {};  ///< `shared_places`
    Seconds start = {};              ///< length of `kJobPause`
  };
  /// The machines must outlive this object.
  explicit JointMachine(std::vector<Job>);

  std::span<const Link> links() const override { return jobs_.front().shared->links(); }
  Cost price(const Work&, Actor) const override;
  Route route(Actor from, Actor to, PathClass) const override;
  const Contention* contention() const override { return jobs_.front().shared->contention() ? this : nullptr; }
  double speed(Actor, Kind, KindSet active) const override;
  std::span<const LinkId> ports(Actor) const override;
  std::uint64_t equivalence_class(Actor) const override;
  void link_state(LinkId, bool up) override;
  std::string cause_of_cut(Actor from, Actor to) const override;
  std::string actor_name(Actor) const override;

 private:
  std::vector<Job> jobs_;
  std::vector<Actor> first_;  // first rank of each job
  Actor ranks_ = 0;           // number of ranks of all jobs

  std::size_t job_of(Actor) const;
  Actor place(Actor) const;
};

}  // namespace trainyard
