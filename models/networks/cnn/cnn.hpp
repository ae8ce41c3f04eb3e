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

/// Shape of one sample between two operators: channels × height × width, or a flat row of features.
struct FeatureShape {
  std::int64_t channels = 0;  ///< number of features if flat
  std::int64_t height = 1, width = 1;
  bool flat = false;

  double elements() const;
  std::string text() const;  ///< "64 x 56 x 56", or "1000"
  bool operator==(const FeatureShape&) const = default;
};

/// Most elements of one sample, 2^40: no device holds more, and integer arithmetic stays exact.
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

/// One operator of a CNN. Only the fields of its kind have a meaning.
struct CnnOperator {
  CnnKind kind = CnnKind::flatten;
  std::string word;      ///< word in the document: "conv", "relu"
  Place place;           ///< place of the operator in its document
  std::int64_t out = 0;  ///< output channels of conv, output features of linear
  std::array<std::int64_t, 2> kernel{},
      pad{};  ///< {height, width}; in adaptive_pool `kernel` is the size of the output
  std::array<std::int64_t, 2> stride{};
  std::int64_t groups = 1;
  bool bias = true;
  double probability = 0;  ///< dropout probability
  /// residual: its layers, then its shortcut (empty: the input itself); concat: its branches; auxiliary: its layers.
  std::vector<std::vector<CnnOperator>> branches;
  FeatureShape in, output;  ///< shapes of one sample
};

/// A sequence of operators at which the network is not split.
struct CnnLayer {
  std::string name;
  std::vector<CnnOperator> operators;
};

/// A convolutional network in which all blocks are expanded and all shapes are known.
struct Cnn {
  std::string name, source;
  FeatureShape input;
  std::vector<CnnLayer> layers;
};

/// Reads {input: [channels, height, width], blocks, layers, auxiliary}. A layer is a word (`relu`) or a word with its
/// figures (`conv: {out: 64, kernel: 3}`). A block is a list of layers with `arguments`, to which `$name` refers; it is
/// used like a layer, `repeat` times. The branches of a residual must have equal shapes, those of a concat may differ
/// in their channels. Sizes are rounded down (PyTorch's ceil_mode=False). In the outermost list, each block, product,
/// residual, concat and auxiliary begins a `CnnLayer`; other operators belong to the one before. `auxiliary: false`
/// leaves out the auxiliary classifiers. The last layer is the loss. Throws UserError with the place.
Cnn read_cnn(const Node& cnn, std::string name, std::string source);

/// Computes the shapes of every operator. Throws UserError at the place of an operator that does not fit its input.
void infer_shapes(Cnn&);

/// Returns the kernels of one micro-batch, and the tensors that they keep, as PyTorch with cuDNN runs them eagerly, in
/// NCHW, with everything in `precision`. A convolution is one kernel of 2·Cin/groups·kh·kw·Cout·H·W FLOPs a sample for
/// every algorithm (Winograd and FFT execute fewer: `Kernel::convolution_3x3` is a separate kind). The gradients of its
/// input and of its weight are kernels of the same FLOPs. cuDNN's workspace is not counted. A convolution with as many
/// groups as input channels (depthwise) has the same FLOPs but shares no operand between channels: it is a kernel bound
/// by memory (`Kernel::elementwise`).
///
/// Kept tensors, each once: the input of a product, of batch norm (and its statistics), and of a pooling (and max
/// pooling's int64 indices); the output of relu, sigmoid and tanh. ReLU and the sum of a residual work in place if
/// nothing else keeps their input (torchvision's inplace=True). A CNN has the fusions of the loss and of batch norms: a
/// ReLU in a batch norm's kernel keeps one bit an element, and a norm in the next convolution's kernel keeps only its
/// own input.
///
/// Sharded over the tensor axis, every convolution and linear layer computes its share of the output channels or
/// features from all inputs. Forward there is NAME.gather, an all-gather of its output; backward there is
/// NAME.reduce.backward, an all-reduce of the gradient of its input if it has one. Every rank does all the rest. Throws
/// UserError for a micro-batch below 1, a precision that is not modelled, channels or groups that the ranks do not
/// divide, and other axes than tensor.
Network cnn_network(const Cnn&, std::int64_t micro_batch_size, Precision, const Fusions& = {}, const Sharding& = {});

}  // namespace trainyard
