#pragma once
#include <cstdint>

#include "models/networks/layers/fp8_products.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// Fusions with the batch norms of a convolutional network, as in cuDNN's kernels for NHWC. activation: the norm's
/// kernel applies the ReLU that follows, and the sum of a residual before it; one bit an element is kept for the ReLU.
/// statistics: like activation, and the convolution before the norm sums its statistics. convolution: like statistics,
/// and the convolution after the norm applies norm and ReLU to its input, forward and for the gradients of its weights.
enum class BatchNormFusion : std::uint8_t { none, activation, statistics, convolution };

/// Fusions of a library's kernels. They decide the number of bytes that the kernels move and keep. Defaults: PyTorch's
/// own kernels with flash attention.
struct Fusions {
  /// true: one kernel that never writes the s × s scores (Dao et al. 2022); false: separate kernels compute all s²
  /// scores and write them in the precision of the network.
  bool flash_attention = true;
  /// Without flash attention: scale, mask and softmax are one kernel (Megatron-LM's
  /// scaled_upper_triang_masked_softmax).
  bool fused_softmax = false;
  /// true: one kernel reads the logits and writes their gradient in place; false: logits are copied to fp32.
  bool fused_loss = false;
  /// true: one kernel computes silu(gate) · up; false: two kernels do, and silu(gate) is kept for the backward pass.
  bool fused_gated_activation = false;
  /// One weight and GEMM for query, key and value, and one for gate and up.
  bool fused_projections = false;
  /// One kernel rotates queries and keys.
  bool fused_rotary = false;
  /// That kernel also scales what it rotates, as YaRN does; false: eager kernels rotate where it should.
  bool scales_fused_rotary = true;
  /// One kernel computes the gradients of a norm's input and of its weights.
  bool fused_norm_gradients = false;
  /// One kernel adds the bias of a residual branch, drops out and adds the residual (Megatron-LM).
  bool fused_bias_dropout_add = false;
  /// GEMMs of weight gradients add them to those of earlier micro-batches (Megatron-LM's gradient_accumulation_fusion).
  bool fused_gradient_accumulation = false;
  Bytes accumulated_element{4};  ///< size of an element of those sums
  /// true: products of a rank's experts are separate kernels, one after another (TransformerEngine's GroupedLinear
  /// calls cuBLAS for each); false: one grouped kernel.
  bool experts_in_turn = false;
  /// Number of kernels that the host launches in the forward pass of a layer of routed experts without a limit of rows,
  /// if products are in fp8: the router, the permutation and the quantization are many small ones. 0: one for each
  /// kernel of the layer.
  double expert_layer_launches = 0;
  /// Number of kernels that the host launches for a linear layer in fp8, in each pass: casts, scales and checks beside the
  /// product. Fewer than the layer has kernels: one for each kernel.
  double fp8_linear_launches = 0;
  double expert_launches = 0;  ///< further launches for each expert of the rank
  /// True: both count in 16 bits too. The host launches the products of one expert after the other (a loop of hipBLASLt).
  bool expert_launches_in_16_bits = false;
  double paired_launches = 0;  ///< further launches for such a layer whose passes alternate with those of another
  /// The kernel of an expert's gated activation multiplies its result by the router's weights, so that the output of
  /// the expert need not be kept (Megatron-Core's weighted_bias_swiglu).
  bool weighted_expert_activation = false;
  /// The buffer for the gathered input of the output projection stays allocated (Megatron-LM's global memory buffer).
  bool lasting_gather_buffer = false;
  BatchNormFusion batch_norm = BatchNormFusion::none;
  /// If linear layers multiply in fp8, the inputs of the activations in feed-forward parts are kept in fp8
  /// (Megatron-Core's activation_func_fp8_input_store; DeepSeek-AI 2024, DeepSeek-V3, section 3.3.2).
  bool fp8_activation_input = false;
  /// If linear layers multiply in fp8, attention reads and keeps queries, keys, values and its output in fp8
  /// (TransformerEngine's fp8_dot_product_attention), in MXFP8 if that is the scaling of the products. Measured kernels
  /// have rates of their own (`AttentionModel::fp8`). Tensors in a ring of context ranks remain in 16 bits.
  bool fp8_attention = false;
  /// Default scaling of operands in fp8 if a plan does not state one.
  Fp8Scaling fp8_scaling = Fp8Scaling::delayed;
  /// Norms before products in fp8 write fp8 if the scale is known before (TransformerEngine's LayerNormLinear).
  bool fp8_norms = false;
  /// Kernels of gated activations write the operands of dense products in fp8 if the scale is known before, forward and
  /// backward, and the products of adapters add to what is there (TransformerEngine's operation fuser, `te.ops`).
  bool fused_operations = false;
  /// Full recomputation ends with the last tensor that the backward pass reads (PyTorch's non-reentrant checkpoint).
  bool early_stop = false;
  /// true: parameters and the residual stream are in fp32. Before each product, separate kernels cast its weights, and
  /// its input if it is in fp32, to the network's 16 bits; gradients are cast back. Norms, embeddings and residual sums
  /// are in fp32 (PyTorch's torch.autocast).
  bool autocast = false;
  /// Queries and keys are each cast to fp32, multiplied by complex numbers and cast back, by three kernels, and keys
  /// and values are copied for every head that reads them (Meta's Llama and torchtitan in eager mode).
  bool eager_heads = false;
  /// Products of unfused attention leave the tensor cores if the heads are not a multiple of 16 bytes wide (cuBLAS 11).
  bool aligned_tensor_cores = false;
  /// The vocabulary is padded to a multiple of this times the ranks of the tensor axis (Megatron-LM:
  /// make_vocab_size_divisible_by).
  int vocabulary_multiple = 1;
};

}  // namespace trainyard
