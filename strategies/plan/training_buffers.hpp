#pragma once
#include <cstddef>
#include <cstdint>

namespace trainyard {

/// A buffer of a training actor, named by its content. `sim` knows buffers only by 16-bit numbers (BufferRef::buffer),
/// which `number_of` alone assigns.
struct TrainingBuffer {
  enum class Kind : std::uint8_t {
    gradients,         ///< index: the bucket; with delayed updates, there is a bucket for each step under way
    parameters,        ///< index: the bucket, whose parameters are gathered, averaged or sent
    partial,           ///< gradients that are `ParameterTensor::partial`
    tied,              ///< gradient of a tied weight; index 1: summed with that of another stage
    exchange,          ///< index: exchanges within layers take buffers in turn, two each
    activations,       ///< index: see `activation_message`
    gradient_share,    ///< offload; index: the bucket whose gradients leave the GPU
    host_gradients,    ///< gradients that arrived on the host
    host_parameters,   ///< new parameters in host memory
    own_parameters,    ///< new parameters that arrived on the GPU
    replica,           ///< index: 0 for the rank's own parameters, then 1 and up for those of its neighbours
    outputs,           ///< outputs of all replicas of a master
    output_gradients,  ///< gradients of the loss with respect to these outputs
    arrivals,          ///< index: pushes that a parameter server has received take buffers in turn
  };
  Kind kind = Kind::gradients;
  std::size_t index = 0;
};
constexpr int kBufferKinds = 14;

/// Number of buffers of a kind.
std::size_t count_of(TrainingBuffer::Kind);
/// Throws InternalError if there is no buffer of that index.
std::uint16_t number_of(TrainingBuffer);
/// Returns the number of a buffer without a check, for programs without values: nothing reads their buffers, so any
/// index will do.
std::uint16_t unchecked_number_of(TrainingBuffer);
/// The inverse of `number_of`. Throws InternalError for a number that no buffer has.
TrainingBuffer training_buffer(std::uint16_t number);

/// The message with the output of a virtual stage to the next one, or (`back`) with the gradients of that output. Both
/// ranks use the same buffer; micro-batches take buffers in turn.
TrainingBuffer activation_message(int virtual_stage, int micro_batch, bool back, int virtual_stages);

}  // namespace trainyard
