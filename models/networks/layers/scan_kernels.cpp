#include "models/networks/layers/scan_kernels.hpp"

#include <string>
#include <utility>

namespace trainyard {
namespace {

constexpr double kSingle = 4;  // bytes of a number in fp32

/// Widths in bytes, and FLOPs, of one scan over all its tokens.
struct ScanSizes {
  const ScanShape& s;
  Precision precision;

  double element() const { return s.element.value; }
  double values() const { return element() * s.tokens * s.inner(); }
  double group_keys() const { return element() * s.tokens * s.keys(); }
  double head_keys() const { return element() * s.tokens * s.heads * s.state; }
  double states() const { return element() * s.states(); }
  double gates() const { return kSingle * s.tokens * s.heads; }  ///< an fp32 number for each token and head
  double channel_gates() const { return kSingle * s.tokens * s.heads * s.state; }
  /// Numbers for each pair of tokens of a chunk, for each head.
  double pairs(double bytes) const { return bytes * s.tokens * s.heads * s.chunk; }
  double group_pairs() const { return kSingle * s.tokens * s.groups * s.chunk; }

  double state_product() const { return 2 * s.tokens * s.inner() * s.state; }
  /// A causal product within chunks of all heads, over or to this width of a head.
  double chunk_product(double width) const { return s.tokens * s.chunk * s.heads * width; }
  double group_product() const { return s.tokens * s.chunk * s.keys(); }

  KernelCall kernel(std::string name, double bytes, double flops = 0, Kernel kind = Kernel::scan) const {
    return kernel_call("scan." + std::move(name), kind, Flops{flops}, Bytes{bytes}, precision);
  }
  KernelCall backward_kernel(std::string name, double bytes, double flops = 0) const {
    return kernel(std::move(name), bytes, flops, Kernel::scan_backward);
  }
};

/// Kernels that make the states at the ends of chunks and the products of keys and queries within chunks.
std::vector<KernelCall> mamba_states(const ScanSizes& z) {
  const double wide_states = kSingle * z.s.states();
  return {z.kernel("decays", z.element() * z.s.tokens * z.s.heads + 2 * z.gates()),
          z.kernel("chunk_states", z.group_keys() + z.values() + 2 * z.gates() + wide_states, z.state_product()),
          z.kernel("pass_states", wide_states + z.states()),
          z.kernel("chunk_products", 2 * z.group_keys() + z.group_pairs(), z.group_product())};
}

std::vector<KernelCall> mamba_forward(const ScanSizes& z) {
  std::vector<KernelCall> kernels = mamba_states(z);
  // The kernel reads values, gates of the output, keys and states; it writes the output before and after its gate.
  kernels.push_back(z.kernel("chunk_scan",
                             4 * z.values() + z.group_keys() + z.group_pairs() + z.states() + 2 * z.gates(),
                             z.chunk_product(z.s.head_dim) + z.state_product()));
  return kernels;
}

std::vector<KernelCall> mamba_backward(const ScanSizes& z) {
  std::vector<KernelCall> kernels = mamba_states(z);
  const double wide_keys = kSingle * z.s.tokens * z.s.keys();
  const double products = z.chunk_product(z.s.head_dim);
  kernels.push_back(z.backward_kernel("gate.backward", 4 * z.values()));
  kernels.push_back(z.backward_kernel("states.gradient", z.group_keys() + z.values() + z.states(), z.state_product()));
  kernels.push_back(z.backward_kernel("pass_states.backward", 4 * z.states()));
  kernels.push_back(z.backward_kernel("values.gradient",
                                      3 * z.values() + z.group_keys() + z.group_pairs() + z.states() + 2 * z.gates(),
                                      products + z.state_product()));
  for (const char* name : {"keys.gradient", "queries.gradient"})
    kernels.push_back(
        z.backward_kernel(name, z.values() + 2 * z.group_keys() + wide_keys + z.states(), z.state_product()));
  kernels.push_back(z.backward_kernel("chunk_products.gradient", 2 * z.values() + z.group_pairs(), products));
  for (const char* name : {"chunk_keys.gradient", "chunk_queries.gradient"})
    kernels.push_back(z.backward_kernel(name, z.group_pairs() + 2 * z.group_keys() + wide_keys, z.group_product()));
  kernels.push_back(z.backward_kernel("decays.gradient", 2 * z.values() + z.group_pairs(), products));
  kernels.push_back(z.backward_kernel("decays.backward", 4 * z.gates()));
  return kernels;
}

/// Reads values, steps and gates, keys and queries; writes the output before and after its gate, and the decay and the
/// state of each channel at the ends of chunks, in fp32.
std::vector<KernelCall> selective_forward(const ScanSizes& z) {
  return {z.kernel("selective", 5 * z.values() + 2 * z.group_keys() + 2 * kSingle * z.s.states())};
}

/// Reads values, steps, gates, the output and its gradient; writes the gradients of values, steps and gates, and those of
/// keys and queries in fp32. States within chunks are computed again.
std::vector<KernelCall> selective_backward(const ScanSizes& z) {
  const double wide_keys = kSingle * z.s.tokens * z.s.keys();
  return {
      z.kernel("selective.backward", 8 * z.values() + 2 * z.group_keys() + 2 * wide_keys + 2 * kSingle * z.s.states())};
}

/// Kernels of the WY representation and of the states at the beginnings of chunks. The WY representation writes the
/// keys and values with which a chunk replaces the state's values for its keys. Both passes run these kernels.
std::vector<KernelCall> delta_states(const ScanSizes& z, bool channels) {
  const double gate = channels ? z.channel_gates() : z.gates();
  const double keys = z.head_keys(), values = z.values();
  const double scaled_keys = channels ? 2 * keys : 0;  // keys and queries times their decays
  return {z.kernel("write_keys", 2 * keys + 2 * values + z.pairs(z.element()) + gate + scaled_keys,
                   z.chunk_product(z.s.state + z.s.head_dim)),
          z.kernel("states", 2 * keys + 2 * values + z.states(), 2 * z.state_product())};
}

std::vector<KernelCall> delta_forward(const ScanSizes& z) {
  const bool channels = z.s.kind == ScanKind::kimi_delta;
  const double gate = channels ? z.channel_gates() : z.gates();
  const double keys = z.head_keys(), values = z.values();
  const double norm_keys = z.s.repeats_keys || channels ? keys : z.group_keys();
  std::vector<KernelCall> kernels{z.kernel("key_norms", 4 * norm_keys),
                                  z.kernel("decays", (channels ? keys + 3 * gate : 2 * gate))};
  if (channels)
    kernels.push_back(
        z.kernel("chunk_products", 2 * keys + gate + 2 * z.pairs(kSingle), 2 * z.chunk_product(z.s.state)));
  else
    kernels.push_back(z.kernel("chunk_products", keys + gate + z.pairs(kSingle), z.chunk_product(z.s.state)));
  kernels.push_back(z.kernel("solve", z.pairs(kSingle) + z.pairs(z.element())));
  for (KernelCall& kernel : delta_states(z, channels)) kernels.push_back(std::move(kernel));
  // The kernel reads queries, values and states, and keys or the products of keys and queries.
  const double input = channels ? keys + gate + z.pairs(z.element()) : 2 * keys + gate;
  const double flops = z.state_product() + z.chunk_product(z.s.head_dim) + (channels ? 0 : z.chunk_product(z.s.state));
  kernels.push_back(z.kernel("output", input + 2 * values + z.states(), flops));
  return kernels;
}

std::vector<KernelCall> delta_backward(const ScanSizes& z) {
  const bool channels = z.s.kind == ScanKind::kimi_delta;
  const double gate = channels ? z.channel_gates() : z.gates();
  const double keys = z.head_keys(), values = z.values();
  const double state = z.s.state, dim = z.s.head_dim;
  std::vector<KernelCall> kernels = delta_states(z, channels);
  // Gradients of values within a chunk; of states; of queries, keys and decays; of what `write_keys` reads.
  kernels.push_back(z.kernel("chunk_values.gradient", 2 * keys + gate + 2 * values, z.chunk_product(state + dim)));
  kernels.push_back(z.kernel("states.gradient", 3 * keys + 3 * values + z.states(), 3 * z.state_product()));
  kernels.push_back(z.kernel("keys.gradient", 5 * keys + 3 * values + 2 * gate + 2 * z.states(),
                             3 * z.state_product() + 3 * z.chunk_product(state)));
  kernels.push_back(z.kernel("write_keys.backward", 4 * keys + 3 * values + 2 * gate + z.pairs(z.element()),
                             2 * z.chunk_product(state + dim) + 2 * z.chunk_product(state)));
  kernels.push_back(z.kernel("decays.backward", 3 * gate));
  kernels.push_back(z.kernel("key_norms.backward", 6 * (z.s.repeats_keys || channels ? keys : z.group_keys())));
  return kernels;
}

}  // namespace

std::vector<KernelCall> convolution_forward(const ScanShape& s, Precision precision) {
  const double tensor = s.element.value * s.tokens * s.convolved();
  return {kernel_call("convolution", Kernel::scan, Flops{}, Bytes{2 * tensor}, precision)};
}

std::vector<KernelCall> convolution_backward(const ScanShape& s, Precision precision) {
  const double tensor = s.element.value * s.tokens * s.convolved();
  std::vector<KernelCall> kernels;
  const bool mamba = s.kind == ScanKind::mamba2;
  if (mamba) kernels = convolution_forward(s, precision);  // its output is not kept
  kernels.push_back(kernel_call("convolution.backward", mamba ? Kernel::scan_backward : Kernel::scan, Flops{},
                                Bytes{3 * tensor}, precision));
  return kernels;
}

std::vector<KernelCall> scan_forward(const ScanShape& s, Precision precision) {
  const ScanSizes z{s, precision};
  if (s.kind == ScanKind::mamba1) return selective_forward(z);
  return s.kind == ScanKind::mamba2 ? mamba_forward(z) : delta_forward(z);
}

std::vector<KernelCall> scan_backward(const ScanShape& s, Precision precision) {
  const ScanSizes z{s, precision};
  if (s.kind == ScanKind::mamba1) return selective_backward(z);
  return s.kind == ScanKind::mamba2 ? mamba_backward(z) : delta_backward(z);
}

}  // namespace trainyard
