#pragma once
#include <cstdint>

#include "models/networks/layers/fp8_products.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// What is done together with the batch norms of a convolutional network, as cuDNN's kernels for NHWC do it.
/// activation: the ReLU that follows, and the sum of a residual before it; of the ReLU a bit an element is kept.
/// statistics: besides, the convolution before it adds its statistics up. convolution: besides that, the one after it
/// applies norm and ReLU to what it reads, forward and for the gradients of its weights.
enum class BatchNormFusion : std::uint8_t { none, activation, statistics, convolution };

/// What the kernels of a library fuse, and so what they move and keep. Defaults: PyTorch's own kernels with flash
/// attention.
struct Fusions {
  /// One kernel that never writes the s × s scores (Dao et al. 2022); false: they are written, in the precision of the
  /// network, by separate kernels, and all s² of them are computed.
  bool flash_attention = true;
  /// Where they are written: scale, mask and softmax are one kernel (Megatron-LM's scaled_upper_triang_masked_softmax).
  bool fused_softmax = false;
  /// One kernel that reads the logits and leaves their gradient in place; false: logits are copied to fp32.
  bool fused_loss = false;
  /// silu(gate) · up in one kernel; false: two, and silu(gate) is kept for the backward pass.
  bool fused_gated_activation = false;
  /// One weight and GEMM for query, key and value, and one for gate and up.
  bool fused_projections = false;
  /// One kernel rotates queries and keys.
  bool fused_rotary = false;
  /// One kernel makes the gradients of a norm's input and of its weights.
  bool fused_norm_gradients = false;
  /// One kernel adds the bias of a residual branch, drops out and adds the residual (Megatron-LM).
  bool fused_bias_dropout_add = false;
  /// GEMMs that make gradients of weights add them to those of earlier micro-batches (Megatron-LM's
  /// gradient_accumulation_fusion), which have elements of `accumulated_element`.
  bool fused_gradient_accumulation = false;
  Bytes accumulated_element{4};
  /// Products of a rank's experts are kernels of their own, one after another (TransformerEngine's GroupedLinear calls
  /// cuBLAS for each); false: one grouped kernel.
  bool experts_in_turn = false;
  /// The router's weights multiply what an expert's gated activation makes, in its kernel, and not what the expert gives:
  /// that need not be kept (Megatron-Core's weighted_bias_swiglu).
  bool weighted_expert_activation = false;
  /// The buffer into which the output projection's input is gathered stays (Megatron-LM's global memory buffer).
  bool lasting_gather_buffer = false;
  BatchNormFusion batch_norm = BatchNormFusion::none;
  /// Where linear layers multiply in fp8, the inputs of the feed-forward parts' activations are kept in fp8
  /// (Megatron-Core's activation_func_fp8_input_store; DeepSeek-AI 2024, DeepSeek-V3, section 3.3.2).
  bool fp8_activation_input = false;
  /// There attention reads and keeps queries, keys, values and its output in fp8 (TransformerEngine's
  /// fp8_dot_product_attention). Its products are counted as fast as in 16 bits, since no rates in fp8 were measured, and
  /// what goes round a ring of context ranks stays in 16 bits.
  bool fp8_attention = false;
  /// How products in fp8 scale their operands where a plan does not say.
  Fp8Scaling fp8_scaling = Fp8Scaling::delayed;
  /// Norms before products in fp8 write fp8 where the scale is already known (TransformerEngine's LayerNormLinear).
  bool fp8_norms = false;
  /// Full recomputation ends with the last tensor that the backward pass reads (PyTorch's non-reentrant checkpoint).
  bool early_stop = false;
  /// Read and written by a language model's loss, forward and backward, a logit; 0: what its kernels are known to move.
  Bytes loss_traffic;
  /// The vocabulary is padded to a multiple of this times the ranks of the tensor axis (Megatron-LM:
  /// make_vocab_size_divisible_by).
  int vocabulary_multiple = 1;
};

}  // namespace trainyard
