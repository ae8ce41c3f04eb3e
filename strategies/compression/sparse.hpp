#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "strategies/compression/compressor.hpp"
#include "strategies/compression/words.hpp"

namespace trainyard {

// Numbers at places of each rank's own: what compressors that send such have in common.

/// How a rank finds its largest elements. sampled: a threshold from a sample of them (Lin et al. 2018, section 3.3), of
/// what lies above it the largest.
struct Selection {
  double density = 1;
  double sample = 0;  ///< share of the elements; 0: exact
};
Selection read_selection(Fields&);
/// "0.1 %", "0.1 % by a threshold from a sample of 1 %".
std::string in_words(const Selection&);

/// So many of the largest magnitudes, ascending; of equal ones the first.
std::vector<std::uint32_t> largest(std::span<const double> values, std::size_t count);
/// The same by a sample, which begins at a place that `draw` gives: perhaps fewer.
std::vector<std::uint32_t> selected(std::span<const double> values, const Selection&, std::uint64_t draw);
/// Kernels that do so to numbers of `bytes` each, and write what is sent.
std::vector<KernelCall> selection_kernels(const Selection&, const GradientShape&, double bytes);

/// In which numbers travel: that of gradients.
Precision sent_precision(const GradientShape&);
/// Bytes of a number and its place, 32 bits.
double sparse_element(const GradientShape&);
/// Numbers and places of `count` elements; with fewer places it is padded with zeros at place 0.
std::vector<double> sparse_payload(std::span<const double> values, std::span<const std::uint32_t> places,
                                   std::size_t count, Precision);
/// The sum of such payloads, one after the other.
std::vector<double> sum_of_payloads(std::span<const double> payloads, const GradientShape&, std::size_t count);
/// Writes zeros, and adds what all ranks have sent, `sent` bytes an element.
KernelCall scatter_add(const GradientShape&, double count, double sent);

/// A round in which `count` numbers of each rank are gathered, or, by a ring, summed up hop by hop.
CompressionRound sparse_round(const GradientShape&, double count, bool ring);
/// Reads `exchange`: all-gather (the default) or ring.
bool read_sparse_ring(Fields&);

}  // namespace trainyard
