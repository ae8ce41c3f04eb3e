#include "strategies/compression/sparse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/index.hpp"

namespace trainyard {
namespace {

// Number of passes over the data in a radix select of 32-bit numbers, 8 bits at a time (Alabi et al. 2012, "Fast
// k-selection algorithms for graphics processing units").
constexpr double kSelectPasses = 4;

bool precedes(std::span<const double> values, std::uint32_t a, std::uint32_t b) {
  const double x = std::abs(values[a]), y = std::abs(values[b]);
  return x != y ? x > y : a < b;
}

void keep_largest(std::vector<std::uint32_t>& places, std::span<const double> values, std::size_t count) {
  if (places.size() <= count) return;
  std::nth_element(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count), places.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return precedes(values, a, b); });
  places.resize(count);
  std::ranges::sort(places);
}

std::size_t count_of(const Selection& selection, std::size_t elements) {
  return static_cast<std::size_t>(chosen_elements(selection.density, static_cast<double>(elements)));
}

}  // namespace

Selection read_selection(Fields& fields) {
  Selection selection{read_density(fields), 0};
  if (fields.has({"sample",
                  "Fraction of the gradient elements from which the threshold is estimated, for example 0.01. Default: "
                  "no sample with top-k (the selection is exact), 0.01 with dgc."}))
    selection.sample = fields.number("sample", 1e-6, 1);
  return selection;
}

std::string in_words(const Selection& selection) {
  std::string text = share_in_words(selection.density);
  if (selection.sample > 0)
    text += fmt::format(" by a threshold from a sample of {}", share_in_words(selection.sample));
  return text;
}

std::vector<std::uint32_t> largest(std::span<const double> values, std::size_t count) {
  std::vector<std::uint32_t> places = consecutive_numbers(std::uint32_t{0}, values.size());
  keep_largest(places, values, count);
  return places;
}

std::vector<std::uint32_t> select_places(std::span<const double> values, const Selection& selection,
                                         std::uint64_t draw) {
  const std::size_t count = count_of(selection, values.size());
  if (selection.sample == 0 || count >= values.size()) return largest(values, count);
  const auto wanted = static_cast<std::size_t>(chosen_elements(selection.sample, static_cast<double>(values.size())));
  const std::size_t stride = values.size() / wanted;
  std::vector<double> sample;
  for (std::size_t place = draw % stride; place < values.size(); place += stride)
    sample.push_back(std::abs(values[place]));
  const std::size_t rank = count_of(selection, sample.size()) - 1;
  std::nth_element(sample.begin(), sample.begin() + static_cast<std::ptrdiff_t>(rank), sample.end(), std::greater<>());
  std::vector<std::uint32_t> places;
  for (std::uint32_t i = 0; i < values.size(); ++i)
    if (std::abs(values[i]) >= sample[rank] && values[i] != 0) places.push_back(i);
  keep_largest(places, values, count);
  return places;
}

std::vector<KernelCall> selection_kernels(const Selection& selection, const GradientShape& shape, double bytes) {
  const double n = shape.elements(), sent = chosen_elements(selection.density, n) * sparse_element(shape);
  if (selection.sample == 0) return {moves("select", kSelectPasses * n * bytes), moves("compact", n * bytes + sent)};
  const double sample = chosen_elements(selection.sample, n);
  return {moves("sample", sample * (bytes + kResidualBytes)),
          moves("select of the sample", kSelectPasses * sample * kResidualBytes), moves("compact", n * bytes + sent)};
}

Precision sent_precision(const GradientShape& shape) {
  if (shape.element.value >= 4) return shape.element.value >= 8 ? Precision::fp64 : Precision::fp32;
  return shape.precision == Precision::fp16 ? Precision::fp16 : Precision::bf16;
}

double sparse_element(const GradientShape& shape) { return element_size(sent_precision(shape)).value + 4; }

std::vector<double> sparse_payload(std::span<const double> values, std::span<const std::uint32_t> places,
                                   std::size_t count, Precision precision) {
  WordWriter writer;
  for (std::size_t i = 0; i < count; ++i) {
    const bool has_place = i < places.size();
    writer.number(precision, has_place ? values[i] : 0);
    writer.bits(has_place ? places[i] : 0, 32);
  }
  return std::move(writer).words();
}

std::vector<double> sum_of_payloads(std::span<const double> payloads, const GradientShape& shape, std::size_t count) {
  std::vector<double> sum = zeros(shape);
  const Precision precision = sent_precision(shape);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    WordReader reader(payload_of(payloads, rank, shape.ranks));
    for (std::size_t i = 0; i < count; ++i) {
      const double value = reader.number(precision);
      sum[reader.bits(32)] += value;
    }
  }
  return sum;
}

KernelCall scatter_add(const GradientShape& shape, double count, double sent) {
  const double element = shape.element.value;
  return moves("scatter and add", shape.elements() * element + shape.ranks * count * (sent + 2 * element));
}

CompressionRound sparse_round(const GradientShape& shape, double count, bool ring) {
  CompressionRound round;
  const double element = sparse_element(shape);
  if (!ring) {
    round.bytes = Bytes{shape.ranks * 4 * words_for(8 * count * element)};
    return round;
  }
  round.operation = Operation::all_reduce;
  round.bytes = Bytes{shape.elements() * element};
  round.density = count / shape.elements();
  round.whole = (element - 4) / element;
  return round;
}

bool read_sparse_ring(Fields& fields) {
  return fields.choice({"exchange",
                        "How compressed gradients are summed: `all-gather` sends all payloads to every rank; top-k can "
                        "also sum them hop by hop (`ring`), 1-bit in stripes (`stripes`). Default: all-gather."},
                       {"all-gather", "ring"}, "all-gather") == "ring";
}

}  // namespace trainyard
