#pragma once
#include <cstdint>
#include <vector>

#include "models/networks/layers/network.hpp"

namespace trainyard {

/// Recurrences that replace attention. A head has a state of `ScanShape::state` × `ScanShape::head_dim` numbers, which
/// decays from token to token. mamba2: each token adds the product of its key and value (Dao & Gu 2024, Mamba-2);
/// mamba1: each number of the state has a decay of its own (Gu & Dao 2023, Mamba), and heads are channels;
/// gated_delta: it replaces what the state holds for its key (Yang et al. 2024, Gated DeltaNet); kimi_delta: the same,
/// and each row of the state has a decay of its own (Kimi Team 2025, Kimi Linear).
enum class ScanKind : std::uint8_t { none, mamba1, mamba2, gated_delta, kimi_delta };

/// The scan of one layer, or of one rank's heads. Mamba-2's B, C and x are keys, queries and values here.
struct ScanShape {
  ScanKind kind = ScanKind::none;
  double tokens = 0;          ///< tokens of all samples together
  double heads = 0;           ///< heads of values, each with its own state
  double head_dim = 0;        ///< width of a value
  double groups = 0;          ///< heads of keys and queries; each serves heads / groups heads of values
  double state = 0;           ///< width of a key and of a query
  double chunk = 0;           ///< tokens that are computed together by matrix products
  double taps = 0;            ///< tokens that the convolution reads
  Bytes element{2};           ///< size of an element of activations
  bool repeats_keys = false;  ///< keys and queries are copied for each head of values before the scan

  double inner() const { return heads * head_dim; }  ///< width of all values of a token
  double keys() const { return groups * state; }     ///< width of all keys of a token
  /// Width of the convolution: values, keys and queries; of Mamba-1 only values.
  double convolved() const { return kind == ScanKind::mamba1 ? inner() : inner() + 2 * keys(); }
  double states() const { return tokens / chunk * inner() * state; }  ///< numbers of the states between chunks
};

/// Kernels of the convolution of values, keys and queries with its activation (Dao-AILab/causal-conv1d). Each reads and
/// writes the tensors once.
std::vector<KernelCall> convolution_forward(const ScanShape&, Precision);
std::vector<KernelCall> convolution_backward(const ScanShape&, Precision);

/// Kernels of the chunked scan, with the tensors that each reads and writes, as the libraries launch them:
/// state-spaces/mamba's mamba_split_conv1d_scan_combined, which computes the convolution and the states again in its
/// backward pass, and fla-org/flash-linear-attention's chunk_gated_delta_rule and chunk_kda, which compute again all
/// but the products within a chunk. Half of a product within a chunk is counted, because a token reads only those
/// before it. Mamba-1 has one kernel (state-spaces/mamba's selective_scan_fn) in each pass, which multiplies no matrices
/// and so has bytes only.
std::vector<KernelCall> scan_forward(const ScanShape&, Precision);
std::vector<KernelCall> scan_backward(const ScanShape&, Precision);

}  // namespace trainyard
