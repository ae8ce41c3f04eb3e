#pragma once
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/networks/layers/network.hpp"
#include "models/reading/registry.hpp"
#include "strategies/collectives/collective_settings.hpp"

namespace trainyard {

/// A gradient as a column-major matrix. It is one column unless it is the whole weight of a linear layer or a
/// convolution.
struct GradientMatrix {
  double rows = 0, columns = 1;
  double elements() const { return rows * columns; }
};

/// Gradients that are compressed together, and the number of ranks that exchange them.
struct GradientShape {
  std::vector<GradientMatrix> parts;
  Bytes element{4};                       ///< size of an uncompressed gradient element
  Precision precision = Precision::fp32;  ///< precision of the network's matrix products
  int ranks = 1;                          ///< number of ranks that exchange the gradients
  int warm_up_stage = 0;                  ///< current stage (see Compressor::warm_up_stages)

  double elements() const;
};

/// One exchange, and the kernels before it.
struct CompressionRound {
  std::vector<KernelCall> kernels;
  Operation operation = Operation::all_gather;
  Bytes bytes;  ///< as the collective counts them: all payloads that a rank receives, or that it gives to all
  /// All-reduce only. density: fraction of the elements that one rank sends; each rank chooses its own. A sum has the
  /// elements of all its ranks, and so takes a greater fraction of `bytes`: at most `whole`, the fraction that a dense
  /// sum takes, which needs no indices.
  double density = 1, whole = 1;
  bool counted = false;  ///< true if the number of bytes depends on the gradients; `bytes` is then the expected number

  /// Fraction of the elements that a sum over `ranks` ranks has.
  double sum_density(int ranks) const { return 1 - std::pow(1 - density, ranks); }
};

/// The compressed exchange of one bucket: rounds in their order, then the kernels that produce the sum of all ranks'
/// gradients.
struct Compression {
  std::vector<CompressionRound> rounds;
  std::vector<KernelCall> decode;
};

/// Computes the compressed values of one bucket on one rank, and keeps its state from step to step.
class GradientCodec {
 public:
  virtual ~GradientCodec() = default;
  /// Returns the rank's input to the exchange of that round. `input` holds the rank's gradients in round 0, later the
  /// result of the previous exchange: the sum of an all-reduce, or the payloads of all ranks in order. Payloads are
  /// 32-bit words (for an all-to-all, the payloads for all ranks in order); sums are of numbers.
  virtual std::vector<double> encode(int round, std::span<const double> input) = 0;
  /// Returns the sum of all ranks' gradients, from the result of the last exchange.
  virtual std::vector<double> decode(std::span<const double> result) = 0;
};

/// A method to exchange gradients in fewer bytes, with the options of its keys.
class Compressor {
 public:
  virtual ~Compressor() = default;

  virtual Compression compress(const GradientShape&) const = 0;
  /// Makes the codec of one rank. `rank` counts the ranks that exchange the gradients. Random draws depend only on the
  /// seed, the rank and the step.
  virtual std::unique_ptr<GradientCodec> codec(const GradientShape&, int rank, std::uint64_t seed) const = 0;
  /// Returns a short description, for example "top-k of 0.1 %, error feedback".
  virtual std::string summary() const = 0;

  /// Size of the state that a rank keeps for each bucket from step to step.
  virtual Bytes state(const GradientShape&) const { return {}; }
  /// Returns the reason why it cannot compress the gradients of a network (all of them in one shape), or "" if it can.
  virtual std::string refuses(const GradientShape&) const { return ""; }
  virtual bool needs_whole_tensors() const { return false; }
  /// True if no fitted model of a library covers its exchange. The exchange is then simulated message by message.
  virtual bool by_messages() const { return false; }
  /// True if the payload of one rank can be decoded alone, so that a server can add it to those of others.
  virtual bool pushes() const { return true; }
  /// The momentum that it puts into what is sent. The optimizer must then not apply momentum again. No value: none.
  virtual std::optional<double> momentum() const { return std::nullopt; }
  /// Number of warm-up stages before the final one, number of steps in each, and the stage that a step belongs to.
  virtual int warm_up_stages() const { return 0; }
  virtual int warm_up_steps() const { return 0; }
  virtual int warm_up_stage(int /*step*/) const { return 0; }
};

/// A compressor in the registry.
struct CompressorKind {
  std::string name;
  std::string description;        ///< for `trainyard list compressors`
  std::string exchange;           ///< a word or two for the same list
  std::vector<std::string> keys;  ///< keys of plan.data_parallel.compression, apart from `name`
  std::shared_ptr<const Compressor> (*read)(Fields&) = nullptr;
};
Registry<CompressorKind>& compressors();
struct RegisterCompressor {
  explicit RegisterCompressor(CompressorKind kind) {
    const std::string name = kind.name;
    compressors().add(name, std::move(kind));
  }
};

/// Reads `compression: NAME` or `{name: NAME, …}` of plan.data_parallel; the caller handles `none`. Throws UserError
/// with the place.
std::shared_ptr<const Compressor> read_compressor(const Node&);

/// Returns the sum of all ranks' gradients after a compressed exchange, without a machine. There is one codec for each
/// rank.
std::vector<double> compressed_sum(const Compressor&, const GradientShape&,
                                   std::span<const std::unique_ptr<GradientCodec>> codecs,
                                   std::span<const std::vector<double>> gradients);

// Functions that compressors share:

/// Formats a fraction as "0.1 %".
std::string share_in_words(double share);
/// Reads `density`, a fraction above 0 and up to 1.
double read_density(Fields&);
bool read_error_feedback(Fields&);
/// Returns the number of elements that `density` selects, at least one.
double chosen_elements(double density, double elements);
/// Returns a kernel that reads and writes `bytes` bytes in total.
KernelCall moves(std::string name, double bytes);
/// Bytes of a residual: compressors keep residuals in fp32.
constexpr double kResidualBytes = 4;
/// Returns the size of the residuals of all elements; 0 without error feedback.
Bytes residual_size(const GradientShape&, bool feedback);
/// Returns "error feedback" or "no error feedback".
const char* feedback_in_words(bool feedback);
/// Returns a zero for each element.
std::vector<double> zeros(const GradientShape&);
/// Returns the kernel that adds the residual of the previous step to the gradient and keeps the sum.
KernelCall add_residual(const GradientShape&);

}  // namespace trainyard
