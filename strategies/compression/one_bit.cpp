// One bit for each gradient: 1-bit SGD with a scale for each column and error feedback (Seide et al. 2014), and signs
// alone with a majority vote (signSGD: Bernstein et al. 2018).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "strategies/compression/compressor.hpp"
#include "strategies/compression/words.hpp"

namespace trainyard {
namespace {

/// Some columns of a bucket, or of the part of it that one rank adds up. `first` and `ends` delimit the elements of
/// each column; columns lie one after the other.
struct Columns {
  std::vector<std::size_t> ends;
  std::size_t first = 0;

  std::size_t elements() const { return ends.empty() ? 0 : ends.back() - first; }
  double payload_words() const { return static_cast<double>(ends.size()) + words_for(static_cast<double>(elements())); }
};

/// Returns the columns of the elements [begin, end) of a bucket.
Columns columns_of(const GradientShape& shape, double begin, double end) {
  Columns all{{}, static_cast<std::size_t>(begin)};
  double position = 0;
  for (const GradientMatrix& part : shape.parts)
    for (double column = 0; column < part.columns && position < end; ++column) {
      position += part.rows;
      if (position > begin) all.ends.push_back(static_cast<std::size_t>(std::min(position, end)));
    }
  return all;
}

/// A bucket cut into one stripe for each rank. All payloads are as long as the longest.
struct Stripes {
  std::vector<Columns> columns;
  double words = 0;

  Stripes(const GradientShape& shape, int count) {
    const double all = shape.elements();
    for (int i = 0; i < count; ++i) {
      columns.push_back(columns_of(shape, std::floor(all * i / count), std::floor(all * (i + 1) / count)));
      words = std::max(words, columns.back().payload_words());
    }
  }
};

/// Replaces each element of a column by plus or minus the column's mean magnitude; 0 counts as minus. Appends the
/// codes to `payload`, and leaves the error in `all`.
void quantize(const Columns& columns, std::vector<double>& all, double words, std::vector<double>& payload) {
  WordWriter writer;
  std::vector<double> error = all;
  std::size_t first = columns.first;
  for (const std::size_t end : columns.ends) {
    double sum = 0;
    for (std::size_t i = first; i < end; ++i) sum += std::abs(all[i]);
    const auto scale = static_cast<float>(sum / static_cast<double>(end - first));
    writer.number(scale);
    for (std::size_t i = first; i < end; ++i) error[i] -= all[i] > 0 ? scale : -scale;
    first = end;
  }
  for (std::size_t i = columns.first; i < first; ++i) writer.bits(all[i] > 0 ? 1 : 0, 1);
  std::vector<double> codes = std::move(writer).words();
  codes.resize(static_cast<std::size_t>(words), 0.0);
  payload.insert(payload.end(), codes.begin(), codes.end());
  all = std::move(error);
}

void add_quantized(const Columns& columns, std::span<const double> payload, std::vector<double>& sum) {
  WordReader reader(payload);
  std::vector<double> scales;
  for (std::size_t i = 0; i < columns.ends.size(); ++i) scales.push_back(static_cast<double>(reader.number()));
  std::size_t element = columns.first;
  for (std::size_t column = 0; column < columns.ends.size(); ++column)
    for (; element < columns.ends[column]; ++element)
      sum[element] += reader.bits(1) != 0 ? scales[column] : -scales[column];
}

struct OneBitChoice {
  bool feedback = true, stripes = false;
};

/// Without stripes, all ranks get all payloads. With stripes, each rank gets the payloads of its stripe, adds them up,
/// and quantizes the sum again, with an error of its own (section 4.1 of Seide et al. 2014).
class OneBitCodec : public GradientCodec {
 public:
  OneBitCodec(const OneBitChoice& choice, const GradientShape& shape, int rank)
      : choice_(choice),
        ranks_(shape.ranks),
        rank_(static_cast<std::size_t>(rank)),
        stripes_(shape, choice.stripes ? shape.ranks : 1),
        residual_(zeros(shape)),
        residual_of_sum_(residual_) {}

  std::vector<double> encode(int round, std::span<const double> input) override {
    std::vector<double> payload;
    if (round == 0) {
      feed_back(residual_);
      for (std::size_t i = 0; i < input.size(); ++i) residual_[i] += input[i];
      for (const Columns& stripe : stripes_.columns) quantize(stripe, residual_, stripes_.words, payload);
      return payload;
    }
    feed_back(residual_of_sum_);
    for (int rank = 0; rank < ranks_; ++rank)
      add_quantized(stripes_.columns[rank_], payload_of(input, rank, ranks_), residual_of_sum_);
    quantize(stripes_.columns[rank_], residual_of_sum_, stripes_.words, payload);
    return payload;
  }
  std::vector<double> decode(std::span<const double> result) override {
    std::vector<double> sum(residual_.size(), 0.0);
    for (int rank = 0; rank < ranks_; ++rank)
      add_quantized(stripes_.columns[choice_.stripes ? static_cast<std::size_t>(rank) : 0],
                    payload_of(result, rank, ranks_), sum);
    return sum;
  }

 private:
  OneBitChoice choice_;
  int ranks_;
  std::size_t rank_;
  Stripes stripes_;
  std::vector<double> residual_, residual_of_sum_;

  void feed_back(std::vector<double>& residual) const {
    if (!choice_.feedback) std::ranges::fill(residual, 0.0);
  }
};

class OneBit : public Compressor {
 public:
  explicit OneBit(const OneBitChoice& choice) : choice_(choice) {}

  Compression compress(const GradientShape& shape) const override {
    const double n = shape.elements(), element = shape.element.value;
    const double payload = 4 * Stripes(shape, choice_.stripes ? shape.ranks : 1).words, all = shape.ranks * payload;
    CompressionRound round;
    if (choice_.feedback) round.kernels.push_back(add_residual(shape));
    const double read = n * (choice_.feedback ? kResidualBytes : element);
    const double sent = choice_.stripes ? all : payload;
    round.kernels.push_back(moves("mean magnitude of columns", read));
    round.kernels.push_back(moves("signs", read + sent + (choice_.feedback ? n * kResidualBytes : 0)));
    round.bytes = Bytes{all};
    if (!choice_.stripes) return {{std::move(round)}, {moves("scale and add", all + n * element)}};
    CompressionRound sums;
    const double stripe = n / shape.ranks;
    round.operation = Operation::all_to_all;
    sums.kernels = {moves("scale and add", all + stripe * kResidualBytes * (choice_.feedback ? 2 : 1)),
                    moves("mean magnitude of columns", stripe * kResidualBytes),
                    moves("signs", stripe * kResidualBytes * (choice_.feedback ? 2 : 1) + payload)};
    sums.bytes = Bytes{all};
    return {{std::move(round), std::move(sums)}, {moves("scale", all + n * element)}};
  }
  std::unique_ptr<GradientCodec> codec(const GradientShape& shape, int rank, std::uint64_t) const override {
    return std::make_unique<OneBitCodec>(choice_, shape, rank);
  }
  std::string summary() const override {
    return fmt::format("1 bit with a scale for each column, {}{}", feedback_in_words(choice_.feedback),
                       choice_.stripes ? ", summed in stripes" : "");
  }
  /// The state is the residual of the gradients and, with stripes, that of the stripe's sum.
  Bytes state(const GradientShape& shape) const override {
    const double residuals = choice_.feedback ? 1 + (choice_.stripes ? 1.0 / shape.ranks : 0) : 0;
    return Bytes{shape.elements() * kResidualBytes * residuals};
  }
  bool by_messages() const override { return choice_.stripes; }
  bool pushes() const override { return !choice_.stripes; }

 private:
  OneBitChoice choice_;
};

class SignCodec : public GradientCodec {
 public:
  explicit SignCodec(GradientShape shape) : shape_(std::move(shape)) {}

  std::vector<double> encode(int, std::span<const double> input) override {
    WordWriter writer;
    for (const double x : input) writer.bits(x > 0 ? 1 : 0, 1);
    return std::move(writer).words();
  }
  std::vector<double> decode(std::span<const double> result) override {
    std::vector<double> votes = zeros(shape_);
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      WordReader reader(payload_of(result, rank, shape_.ranks));
      for (double& vote : votes) vote += reader.bits(1) != 0 ? 1 : -1;
    }
    for (double& vote : votes) vote = vote > 0 ? 1 : vote < 0 ? -1 : 0;
    return votes;
  }

 private:
  GradientShape shape_;
};

class Sign : public Compressor {
 public:
  Compression compress(const GradientShape& shape) const override {
    const double n = shape.elements(), payload = 4 * words_for(n);
    CompressionRound round;
    round.kernels = {moves("signs", n * shape.element.value + payload)};
    round.bytes = Bytes{shape.ranks * payload};
    return {{std::move(round)}, {moves("majority vote", shape.ranks * payload + n * shape.element.value)}};
  }
  std::unique_ptr<GradientCodec> codec(const GradientShape& shape, int, std::uint64_t) const override {
    return std::make_unique<SignCodec>(shape);
  }
  std::string summary() const override { return "signs, by majority vote"; }
  bool pushes() const override { return false; }  // votes are counted once all have arrived
};

const RegisterCompressor register_one_bit[] = {
    RegisterCompressor{
        {"1-bit",
         "1-bit SGD: signs, with the mean magnitude of each column of a matrix",
         "all-gather, or all-to-all of stripes and all-gather of their sums",
         {"error_feedback", "exchange"},
         [](Fields& fields) -> std::shared_ptr<const Compressor> {
           OneBitChoice choice;
           choice.feedback = read_error_feedback(fields);
           choice.stripes = fields.choice("exchange", {"all-gather", "stripes"}, "all-gather") == "stripes";
           return std::make_shared<OneBit>(choice);
         }}},
    RegisterCompressor{{"sign",
                        "signSGD with majority vote: the gradient becomes plus or minus 1, or 0 if votes are even",
                        "all-gather",
                        {},
                        [](Fields&) -> std::shared_ptr<const Compressor> { return std::make_shared<Sign>(); }}}};

}  // namespace
}  // namespace trainyard
