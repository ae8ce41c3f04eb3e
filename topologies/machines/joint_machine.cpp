#include "topologies/machines/joint_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/hashing.hpp"
#include "sim/index.hpp"

namespace trainyard {

std::vector<Actor> shared_places(const ClusterMachine& alone, const ClusterMachine& shared,
                                 const std::vector<int>& nodes) {
  std::map<std::tuple<int, DeviceKind, int>, Actor> actors;
  for (Actor actor = 0; actor < shared.actors(); ++actor) {
    const Device& device = shared.graph().devices()[position(shared.device(actor))];
    if (device.node >= 0) actors.emplace(std::tuple{device.node, device.kind, device.index}, actor);
  }
  std::vector<Actor> places;
  for (Actor actor = 0; actor < alone.actors(); ++actor) {
    const Device& device = alone.graph().devices()[position(alone.device(actor))];
    const auto found =
        device.node < 0 ? actors.end() : actors.find({nodes.at(position(device.node)), device.kind, device.index});
    places.push_back(found == actors.end() ? -1 : found->second);
  }
  return places;
}

JointMachine::JointMachine(std::vector<Job> jobs) : jobs_(std::move(jobs)) {
  for (const Job& job : jobs_) {
    first_.push_back(ranks_);
    ranks_ += job.ranks;
  }
}

/// Returns the job of a rank, and the first job for a device.
std::size_t JointMachine::job_of(Actor actor) const {
  if (actor >= ranks_) return 0;
  return static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), actor) - first_.begin()) - 1;
}

/// Returns the actor of the shared cluster.
Actor JointMachine::place(Actor actor) const {
  if (actor >= ranks_) return actor - ranks_;
  const std::size_t job = job_of(actor);
  return jobs_[job].places.at(position(actor - first_[job]));
}

Cost JointMachine::price(const Work& work, Actor actor) const {
  if (actor >= ranks_) throw InternalError("a device of a shared cluster works for no job");
  const std::size_t job = job_of(actor);
  if (work.kernel == kJobPause) return {jobs_[job].start};
  return jobs_[job].machine->price(work, actor - first_[job]);
}

Route JointMachine::route(Actor from, Actor to, PathClass path_class) const {
  const Job& job = jobs_[job_of(from < ranks_ ? from : to)];
  return job.shared->route(place(from), place(to), path_class);
}

double JointMachine::speed(Actor actor, Kind kind, KindSet active) const {
  return jobs_[job_of(actor)].shared->contention()->speed(place(actor), kind, active);
}

std::span<const LinkId> JointMachine::ports(Actor actor) const {
  return jobs_[job_of(actor)].shared->contention()->ports(place(actor));
}

std::uint64_t JointMachine::equivalence_class(Actor actor) const {
  if (actor >= ranks_) return hash_numbers({jobs_.size(), static_cast<std::uint64_t>(actor)});
  const std::size_t job = job_of(actor);
  return hash_numbers({job, jobs_[job].machine->equivalence_class(actor - first_[job])});
}

void JointMachine::link_state(LinkId link, bool up) {
  for (std::size_t job = 0; job < jobs_.size(); ++job) {
    const auto same = [&](const Job& other) { return other.shared == jobs_[job].shared; };
    if (std::none_of(jobs_.begin(), jobs_.begin() + static_cast<std::ptrdiff_t>(job), same))
      jobs_[job].shared->link_state(link, up);
  }
}

std::string JointMachine::cause_of_cut(Actor from, Actor to) const {
  return jobs_[job_of(from)].shared->cause_of_cut(place(from), place(to));
}

std::string JointMachine::actor_name(Actor actor) const {
  const ClusterMachine& shared = *jobs_[job_of(actor)].shared;
  const std::string& device = shared.graph().devices()[position(shared.device(place(actor)))].name;
  if (actor >= ranks_) return device;
  const std::size_t job = job_of(actor);
  return fmt::format("{} rank {} ({})", jobs_[job].name, actor - first_[job], device);
}

}  // namespace trainyard
