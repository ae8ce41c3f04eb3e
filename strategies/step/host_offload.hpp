#pragma once
#include <deque>
#include <map>
#include <utility>

#include "sim/folding/outline.hpp"
#include "strategies/step/step_context.hpp"

namespace trainyard {

/// Identifies the joins of a rank on one kind of transfer, with numbers after those of lanes.
constexpr Tag group_of_transfer(HostTransfer way, Actor rank) {
  return (Tag{16} + static_cast<Tag>(way)) | static_cast<Tag>(rank) << (32 - kJoinBits);
}

/// Keeps states in host memory or on drives. Gradients go there as they are made, the CPU updates, and parameters
/// return (Ren et al. 2021, ZeRO-Offload; Rajbhandari et al. 2021, ZeRO-Infinity). Everything concerns the rank's own
/// share of each bucket.
class HostOffload {
 public:
  explicit HostOffload(StepContext&);

  bool is_used() const { return step_.plan.offload.is_used(); }
  bool holds_parameters() const { return step_.plan.offload.parameters != OffloadDevice::none; }
  /// Fills in the values of the parameters that the host has from the beginning.
  Ops fill_host();
  /// Begins a backward pass: gradients are made from the first bucket on again.
  void begin_backward() { opened_ = 0; }
  /// ZeRO stage 2: gradients of the buckets up to this one take memory, from their first gradient until their copy has
  /// left. At most two buckets exist: one is filled while the one before leaves.
  Ops open_buckets(std::size_t up_to);
  /// Copies the rank's share of a bucket to the host when its reduction ends (`ready`), and adds it there to the shares
  /// of earlier micro-batches.
  Ops send_gradients(std::size_t bucket, bool accumulate, Dep ready);
  /// The end of the last copy of gradients.
  Dep gradients_sent() const { return sent_.back(); }
  /// Copies the rank's share of a bucket's parameters to the GPU, before they are gathered.
  Ops fetch_parameters(std::size_t bucket);
  /// Updates bucket by bucket, those of the first layers first. While one is updated, the ones before it return to the
  /// GPU.
  Ops update();
  /// The end of the copy of a bucket's new parameters to the GPU.
  Dep returned(std::size_t bucket) const { return returned_[bucket]; }
  /// Prepares a transfer, which has its stream to itself. The caller emits the operation.
  Op& transfer(HostTransfer, Bytes, NameId, Dep first, Dep second = {});

 private:
  StepContext& step_;
  std::size_t opened_ = 0;                        // number of buckets whose gradients have memory
  std::array<Dep, 2> sent_{};                     // the last two copies of gradients to the host
  std::vector<Dep> added_;                        // indexed by bucket: the last addition to its gradients
  std::vector<Dep> written_;                      // ends of writes of states to the drives, bucket by bucket
  std::vector<Dep> returned_;                     // indexed by bucket: end of the copy of its new parameters
  std::array<std::uint32_t, kHostWays> calls_{};  // number of transfers so far, by kind

  Dep end_of(HostTransfer way) const { return step_.out.last_operation(step_.streams.host(way)); }
  const Op& emit_call(Op&, TrainingCall, std::size_t bucket);
  Ops return_parameters(std::size_t bucket, Dep first, Dep second);
  Ops update_bucket(std::size_t bucket, Dep begun);
};

/// Keeps activations in host memory between a layer's forward and backward pass. They are copied to the host once the
/// forward pass of the layer is over, and return during the backward pass of the following layer.
class HostActivations {
 public:
  HostActivations(StepContext&, HostOffload&);

  /// Makes the layer's forward pass wait until fewer than kLeavingLayers layers are being copied to the host.
  void begin_forward(int layer);
  /// Copies the layer's activations to the host. They take memory on the GPU until the copy is complete.
  Ops end_forward(int layer, int micro_batch);
  /// Begins to copy back the activations of the layer, for which its backward pass waits, and of the next layers of
  /// the chunk. They take memory on the GPU from then on.
  Ops begin_backward(const std::vector<int>& chunk, int layer, int micro_batch);

 private:
  using Key = std::pair<int, int>;  // layer, micro-batch
  StepContext& step_;
  HostOffload& host_;
  const ActivationOffload& choice_;
  std::deque<Dep> leaving_;       // the last copies to the host
  std::map<Key, Dep> left_;       // ends of copies to the host, until the copy back begins
  std::map<Key, Dep> returning_;  // ends of copies from the host, until the backward pass waits for them

  Ops fetch(Key);
  Ops copy(HostTransfer, Key, Dep after_copy);
};

}  // namespace trainyard
