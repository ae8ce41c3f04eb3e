#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/networks/layers/fusions.hpp"
#include "models/networks/layers/network.hpp"
#include "models/networks/layers/sharding.hpp"
#include "models/reading/document.hpp"

namespace trainyard {

/// What one sample is between two operators: channels × height × width, or so many features in a row.
struct FeatureShape {
  std::int64_t channels = 0;  ///< features, where flat
  std::int64_t height = 1, width = 1;
  bool flat = false;

  double elements() const;
  std::string text() const;  ///< "64 x 56 x 56", or "1000"
  bool operator==(const FeatureShape&) const = default;
};

/// 2^40 elements of one sample: no device holds more, and integer arithmetic stays exact.
constexpr double kMostCnnElements = 1099511627776.0;

enum class CnnKind : std::uint8_t {
  conv,
  batch_norm,
  activation,
  max_pool,
  avg_pool,
  adaptive_pool,
  global_pool,
  flatten,
  linear,
  dropout,
  local_response_norm,
  softmax_cross_entropy,
  residual,
  concat,
  auxiliary
};

/// One operator of a CNN; only the fields of its kind mean something.
struct CnnOperator {
  CnnKind kind = CnnKind::flatten;
  std::string word;                             ///< as it was written: "conv", "relu"
  Place place;                                  ///< of the operator in its document
  std::int64_t out = 0;                         ///< conv: channels; linear: features
  std::array<std::int64_t, 2> kernel{}, pad{};  ///< {height, width}; adaptive_pool: `kernel` is the output's size
  std::array<std::int64_t, 2> stride{};
  std::int64_t groups = 1;
  bool bias = true;
  double probability = 0;  ///< of dropout
  /// residual: its layers, its shortcut (empty: the input itself); concat: the branches; auxiliary: its layers.
  std::vector<std::vector<CnnOperator>> branches;
  FeatureShape in, output;  ///< of one sample
};

/// Operators that the network is not split between.
struct CnnLayer {
  std::string name;
  std::vector<CnnOperator> operators;
};

/// A convolutional network with all blocks laid out and all shapes known.
struct Cnn {
  std::string name, source;
  FeatureShape input;
  std::vector<CnnLayer> layers;
};

/// Reads {input: [channels, height, width], blocks, layers, auxiliary}. A layer is a word (`relu`) or a word with its
/// figures (`conv: {out: 64, kernel: 3}`); a block is a list of layers with `arguments`, which `$name` stands for, and is
/// used as a layer is, `repeat` times. A residual's shapes must be equal, those of a concat's branches but for the
/// channels; sizes are rounded down (PyTorch's ceil_mode=False). In the outermost list, each block, product, residual,
/// concat and auxiliary begins a `CnnLayer`; what else there is belongs to the one before.
/// `auxiliary: false` leaves out the auxiliary classifiers. The last layer is the loss.
/// Throws UserError with the place.
Cnn read_cnn(const Node& cnn, std::string name, std::string source);

/// Gives every operator its shapes. Throws UserError at the place of the operator that does not fit.
void infer_shapes(Cnn&);

/// The kernels of one micro-batch, and what they keep, as PyTorch with cuDNN runs them eagerly, in NCHW, everything in
/// `precision`. A convolution is one kernel of 2·Cin/groups·kh·kw·Cout·H·W FLOPs a sample, whatever algorithm is taken
/// (Winograd and FFT compute less: `Kernel::convolution_3x3` is a kind of its own), forward and for each of the gradients
/// by its input and by its weight; cuDNN's workspace is not counted. One that has as many groups as input channels (depthwise) has the same FLOPs but shares no
/// operand between channels: it is a kernel bound by memory (`Kernel::elementwise`).
/// Kept tensors, each once: the input of a product, of batch norm (and its statistics), and of a pooling (and max
/// pooling's int64 indices); the output of relu, sigmoid and tanh. ReLU and the sum of a residual work in place where
/// nothing else keeps their input (torchvision's inplace=True). Of the fusions, those of the loss and of batch norms are a
/// CNN's: a ReLU that a batch norm's kernel applies keeps a bit an element, and a norm that the next convolution applies
/// keeps its own input alone.
///
/// Sharded over the tensor axis, every convolution and linear layer makes its share of the output channels or features
/// from all inputs: forward NAME.gather, an all-gather of its output; backward NAME.reduce.backward, an all-reduce of the
/// gradient by its input, where there is one. All else is done by every rank.
/// Throws UserError for a micro-batch below 1, a precision that is not modelled, channels or groups that the ranks do not
/// divide, and other axes than tensor.
Network cnn_network(const Cnn&, std::int64_t micro_batch_size, Precision, const Fusions& = {}, const Sharding& = {});

}  // namespace trainyard
