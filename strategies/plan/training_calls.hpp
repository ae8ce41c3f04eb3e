#pragma once
#include <cstdint>

#include "sim/op.hpp"

namespace trainyard {

// How the schedule of a training step carries values along. Programs name here what is computed; who attaches functions
// to these numbers (Values::on_call) computes it. All calls are Effect::call of an operation, with `of` = 0 in both
// references.
//
// Calls about a pass of a layer: read.buffer the layer's number in the network, read.chunk the micro-batch, read.count
// the number of the exchange (of the pass' list) that is about to start and whose buffer is to be filled, or kEndOfPass;
// write.buffer the buffer of the pass' first exchange. Exchange i works on buffer write.buffer + 2 i (an all-to-all reads
// its input from the one after that); when a later call of the pass begins, every exchange whose `needed_by` is at most
// the `after` of that call's exchange is over, and at kEndOfPass all are.
enum class TrainingCall : std::uint16_t {
  forward = 1,
  backward,          ///< gradients by the input and by the weights, which are added to those of earlier micro-batches
  backward_input,    ///< gradients by the input alone
  backward_weights,  ///< those of the weights, later
  fill_bucket,       ///< read.buffer: the bucket, whose gradients are copied into the buffer of the same number
  keep_gradients,    ///< the other way, after an all-reduce; after a reduce-scatter only the rank's own block is valid
  update,            ///< the optimizer, on what the rank holds
  fill_parameters,   ///< read.buffer: the bucket; the rank's own block of its parameters into buffer kParameters + it
  take_parameters,   ///< the other way, all blocks
  drop_parameters,   ///< those of other ranks are not to be used any more
  fill_tied,         ///< gradient of a tied weight, of which first and last stage have one each, into buffer kTied
  take_tied,         ///< the other way
  fill_partial,      ///< gradients that are `ParameterTensor::partial`, all of the rank's, into buffer kPartial
  take_partial,      ///< the other way
  // Offload; read.buffer: the bucket, of which each is about the rank's own share.
  fill_share,            ///< gradients that leave the GPU, into buffer kShares + it
  keep_on_host,          ///< those that came into kHostStaging + it, to those of earlier micro-batches
  read_states,           ///< the optimizer's, from drives
  update_on_host,        ///< the optimizer; new parameters into kHostParameters + it
  write_states,          ///< back to drives, with the new parameters where they lie there too
  fill_host_parameters,  ///< what the host has, or reads from drives, into kHostParameters + it
  take_own,              ///< parameters that came into kOwnParameters + it
  give_replica,          ///< all parameters of the replica into buffer kReplicas
  mix_replicas,          ///< the average with read.buffer neighbours, whose parameters are in kReplicas + 1 …
};

constexpr std::uint16_t kEndOfPass = 0xffff;

// Numbers of buffers: gradient buckets from 0, parameters of buckets, buffers of exchanges (in turn), messages of the
// pipeline. The first 1,845 have scratch buffers (see kScratch).
constexpr std::uint16_t kBuckets = 512;
constexpr std::uint16_t kParameters = 512, kPartial = 1022, kTied = 1023, kExchanges = 1024, kExchangeBuffers = 820;
constexpr std::uint16_t kActivations = 2000, kActivationBuffers = 8192;

// Of offload, for each bucket: gradients that leave the GPU, and where they arrive; parameters likewise.
constexpr std::uint16_t kShares = kActivations + kActivationBuffers, kHostStaging = kShares + kBuckets,
                        kHostParameters = kHostStaging + kBuckets, kOwnParameters = kHostParameters + kBuckets;
/// Of gossip: a replica's own parameters, then those of its neighbours.
constexpr std::uint16_t kReplicas = 20000;

/// The buffer in which the output of a virtual stage waits to be sent (or its input has been received: the same number,
/// of another rank). `back`: gradients by it.
constexpr std::uint16_t activation_buffer(int virtual_stage, int micro_batch, bool back, int stages_in_all) {
  const int number = ((micro_batch * stages_in_all) + virtual_stage) * 2 + (back ? 1 : 0);
  return static_cast<std::uint16_t>(kActivations + number % kActivationBuffers);
}

}  // namespace trainyard
