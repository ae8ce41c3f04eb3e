#pragma once
#include <array>
#include <optional>
#include <unordered_map>

#include "models/software/stack.hpp"
#include "sim/index.hpp"
#include "sim/names.hpp"
#include "sim/observers/growth.hpp"
#include "strategies/step/pass_table.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// Counts what the host of each rank starts: kernels, exchanges with other ranks, copies to and from the device.
class HostCallCount : public NumberSums<HostCallCount> {
 public:
  struct Calls {
    double kernels = 0;    ///< kernels, also those that the host starts together
    double launches = 0;   ///< number of calls that start kernels; a CUDA graph takes one call for several kernels
    double exchanges = 0;  ///< collectives, and messages to and from other pipeline stages
    double through_adapters = 0;  ///< exchanges between devices that no links of their own join
    double copies = 0;            ///< batches of samples, and copies of offload
    bool in_graph = false;        ///< the next kernel belongs to a CUDA graph that has started
  };
  /// Counts for the actors below `ranks`. All references must outlive the count.
  HostCallCount(Actor ranks, const TrainingPlan&, const ClusterSpec&, const SoftwareStack&, const PassTables&,
                const Names&);

  Interest interest() const override { return kSums; }
  void finished(const OpRun&) override;
  const Calls& calls(Actor rank) const { return calls_[rank]; }

 private:
  friend NumberSums<HostCallCount>;
  const SoftwareStack& stack_;
  const PassTables& tables_;
  const TrainingNames& words_;
  const Names& names_;
  std::array<GroupId, kMaxStreams> group_by_stream_{};  // the group of the collectives that end on a stream
  std::array<bool, 256> stays_on_chips_{};  // indexed by group: all its exchanges use links from chip to chip
  bool offloads_ = false;
  IndexedVector<Calls, Actor> calls_;
  /// The calls of a series, if it begins outside of a CUDA graph and inside. A series runs many times.
  std::unordered_map<const SeriesTimes*, std::array<std::optional<Calls>, 2>> calls_of_whole_;

  void count_whole(Calls&, const OpRun&);
  void count(Calls&, const Op&) const;
  void count_kernels(Calls&, const Work&) const;
  void count_exchange(Calls&, GroupId) const;
  template <class Visit>
  void each_number(Visit visit) {
    for (Calls& c : calls_)
      for (double* number : {&c.kernels, &c.launches, &c.exchanges, &c.through_adapters, &c.copies}) visit(*number);
  }
};

}  // namespace trainyard
