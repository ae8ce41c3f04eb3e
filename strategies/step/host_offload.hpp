#pragma once
#include "sim/folding/outline.hpp"
#include "strategies/step/step_context.hpp"

namespace trainyard {

/// The group of a rank's joins on one of its ways to the host: beyond those of lanes.
constexpr Tag group_of_transfer(HostWay way, Actor rank) {
  return (Tag{16} + static_cast<Tag>(way)) | static_cast<Tag>(rank) << (32 - kMeetingBits);
}

/// What lies in host memory or on drives: gradients go there as they are made, the CPU updates, parameters come back
/// (Ren et al. 2021, ZeRO-Offload; Rajbhandari et al. 2021, ZeRO-Infinity). Everything is about the rank's own shares of
/// buckets.
class HostOffload {
 public:
  explicit HostOffload(StepContext&);

  bool used() const { return step_.plan.offload.used(); }
  bool holds_parameters() const { return step_.plan.offload.parameters != OffloadDevice::none; }
  /// Values: the parameters that the host has from the beginning.
  Ops fill_host();
  /// Gradients are made from the first bucket on again.
  void begin_backward() { opened_ = 0; }
  /// ZeRO stage 2: gradients of the buckets up to this one take memory, from their first one on until their copies have
  /// left. Two buckets are there at most: one is filled while the one before leaves.
  Ops open_buckets(std::size_t up_to);
  /// Once reduced (`ready`), the rank's share of a bucket is copied to the host, and there added to those of earlier
  /// micro-batches.
  Ops send_gradients(std::size_t bucket, bool accumulate, Dep ready);
  /// The copy of the gradients sent last.
  Dep gradients_sent() const { return sent_.back(); }
  /// The rank's share of a bucket's parameters, on its way to the GPU before it is gathered.
  Ops fetch_parameters(std::size_t bucket);
  /// Bucket by bucket, the first layers' first: while one is updated, those before it go back to the GPU.
  Ops update();
  /// A bucket's new parameters are on the GPU.
  Dep returned(std::size_t bucket) const { return returned_[bucket]; }
  /// A copy over one of the ways, which it has to itself; to be emitted.
  Op& transfer(HostWay, Bytes, NameId, Dep first, Dep second = {});

 private:
  StepContext& step_;
  std::size_t opened_ = 0;                        // buckets whose gradients have their memory
  std::array<Dep, 2> sent_{};                     // the last two copies of gradients to the host
  std::vector<Dep> added_;                        // by bucket: the last addition to its gradients
  std::vector<Dep> written_;                      // buckets whose states are back on the drives
  std::vector<Dep> returned_;                     // by bucket
  std::array<std::uint32_t, kHostWays> calls_{};  // so far

  Dep end_of(HostWay way) const { return step_.out.after(step_.streams.host(way)); }
  const Op& emit_call(Op&, TrainingCall, std::size_t bucket);
  Ops return_parameters(std::size_t bucket, Dep first, Dep second);
  Ops update_bucket(std::size_t bucket, Dep begun);
};

}  // namespace trainyard
