#pragma once
#include <cstddef>
#include <cstdint>

namespace trainyard {

/// A buffer of an actor of a training, by what it holds. `sim` knows buffers by 16-bit numbers only (BufferRef::buffer):
/// `number_of` is the one place that gives these out.
struct TrainingBuffer {
  enum class Kind : std::uint8_t {
    gradients,         ///< index: the bucket; of updates that are late, a bucket of each step on its way
    parameters,        ///< index: the bucket, whose parameters are gathered, averaged, given out
    partial,           ///< gradients that are `ParameterTensor::partial`
    tied,              ///< the gradient of a tied weight; index 1: with that of another stage
    exchange,          ///< index: of exchanges within layers, two each, in turn
    activations,       ///< index: see `activation_message`
    gradient_share,    ///< offload; index: the bucket. Gradients that leave the GPU
    host_gradients,    ///< where they arrive
    host_parameters,   ///< new parameters in host memory
    own_parameters,    ///< where they arrive on the GPU
    replica,           ///< index: 0 for the rank's own parameters, then those of its neighbours
    outputs,           ///< of all replicas of a master
    output_gradients,  ///< the loss's gradients by them
    arrivals,          ///< index: pushes that a parameter server has received, in turn
  };
  Kind kind = Kind::gradients;
  std::size_t index = 0;
};
constexpr int kBufferKinds = 14;

/// How many buffers there are of a kind.
std::size_t count_of(TrainingBuffer::Kind);
/// Throws InternalError where there is no buffer of that index.
std::uint16_t number_of(TrainingBuffer);
/// The same for programs without values, of which nobody reads buffers: any index will do.
std::uint16_t unchecked_number_of(TrainingBuffer);
/// The other way. Throws InternalError for a number that stands for no buffer.
TrainingBuffer training_buffer(std::uint16_t number);

/// The output of a virtual stage on its way to the next one, or (`back`) the gradients by it: the same buffer on both
/// ranks. Micro-batches take buffers in turn.
TrainingBuffer activation_message(int virtual_stage, int micro_batch, bool back, int virtual_stages);

}  // namespace trainyard
