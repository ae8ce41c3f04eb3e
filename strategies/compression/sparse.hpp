#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "strategies/compression/compressor.hpp"
#include "strategies/compression/words.hpp"

namespace trainyard {

// Functions of compressors whose ranks each send numbers at places of their own.

/// The method by which a rank selects its largest elements. With a sample, it takes a threshold from the sample (Lin
/// et al. 2018, section 3.3) and selects the largest of the elements above it.
struct Selection {
  double density = 1;
  double sample = 0;  ///< fraction of the elements in the sample; 0: no sample, the selection is exact
};
Selection read_selection(Fields&);
/// Formats a selection, for example "0.1 %" or "0.1 % by a threshold from a sample of 1 %".
std::string in_words(const Selection&);

/// Returns the places of the `count` largest magnitudes, in ascending order. If magnitudes are equal, the first places
/// win.
std::vector<std::uint32_t> largest(std::span<const double> values, std::size_t count);
/// Returns the places that a selection chooses, perhaps fewer than its density asks for. `draw` chooses the place at
/// which the sample begins.
std::vector<std::uint32_t> select_places(std::span<const double> values, const Selection&, std::uint64_t draw);
/// Returns the kernels that make such a selection from numbers of `bytes` bytes each, and write the payload.
std::vector<KernelCall> selection_kernels(const Selection&, const GradientShape&, double bytes);

/// The precision in which numbers are sent: that of gradients.
Precision sent_precision(const GradientShape&);
/// Bytes of a number and its place (32 bits).
double sparse_element(const GradientShape&);
/// Packs the numbers and places of `count` elements. If there are fewer, the payload is padded with zeros at place 0.
std::vector<double> sparse_payload(std::span<const double> values, std::span<const std::uint32_t> places,
                                   std::size_t count, Precision);
/// Returns the sum of such payloads, which lie one after the other.
std::vector<double> sum_of_payloads(std::span<const double> payloads, const GradientShape&, std::size_t count);
/// Returns the kernel that writes zeros and adds the elements that all ranks have sent, `sent` bytes each.
KernelCall scatter_add(const GradientShape&, double count, double sent);

/// Returns a round in which `count` numbers of each rank are gathered, or summed up hop by hop in a ring.
CompressionRound sparse_round(const GradientShape&, double count, bool ring);
/// Reads `exchange`: all-gather (the default) or ring.
bool read_sparse_ring(Fields&);

}  // namespace trainyard
