#pragma once
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/networks/layers/network.hpp"
#include "models/reading/registry.hpp"
#include "strategies/collectives/collective_settings.hpp"

namespace trainyard {

/// A gradient as a matrix, column-major; what is no whole weight of a linear layer or a convolution is one column.
struct GradientMatrix {
  double rows = 0, columns = 1;
  double elements() const { return rows * columns; }
};

/// Gradients that are compressed together, and among whom.
struct GradientShape {
  std::vector<GradientMatrix> parts;
  Bytes element{4};                       ///< of a gradient without compression
  Precision precision = Precision::fp32;  ///< of the network's matrix products
  int ranks = 1;                          ///< that exchange them
  int warm_up_stage = 0;                  ///< see Compressor::warm_up_stages

  double elements() const;
};

/// One exchange, and the kernels before it.
struct CompressionRound {
  std::vector<KernelCall> kernels;
  Operation operation = Operation::all_gather;
  Bytes bytes;  ///< as its collective counts them: those of all payloads that a rank gets, or gives to all
  /// Of an all-reduce: share of `bytes` that one rank has, at places of its own; sums are denser, until they are sent whole,
  /// which takes `whole` of the bytes.
  double density = 1, whole = 1;
  bool counted = false;  ///< the gradients decide how many bytes there are: `bytes` are those that are expected

  /// Share of the elements that a sum over so many ranks has.
  double sum_density(int of_ranks) const { return 1 - std::pow(1 - density, of_ranks); }
};

/// What is done to one bucket: rounds in their order, then the kernels that give the sum of all ranks' gradients.
struct Compression {
  std::vector<CompressionRound> rounds;
  std::vector<KernelCall> decode;
};

/// The numbers of one bucket on one rank, from step to step.
class GradientCodec {
 public:
  virtual ~GradientCodec() = default;
  /// What the rank puts into the exchange of that round. `from`: its gradients; of later rounds what the exchange before has
  /// left, which is the sum of an all-reduce, or all ranks' payloads in turn. Payloads are 32-bit words, of an all-to-all
  /// those for all ranks in turn; sums are of numbers.
  virtual std::vector<double> encode(int round, std::span<const double> from) = 0;
  /// The sum of all ranks' gradients, from what the last exchange has left.
  virtual std::vector<double> decode(std::span<const double> left) = 0;
};

/// A way to exchange gradients in fewer bytes, with what its keys say.
class Compressor {
 public:
  virtual ~Compressor() = default;

  virtual Compression compress(const GradientShape&) const = 0;
  /// `rank`: of those that exchange. What ranks draw at random depends on the seed, the rank and the step alone.
  virtual std::unique_ptr<GradientCodec> codec(const GradientShape&, int rank, std::uint64_t seed) const = 0;
  /// "top-k of 0.1 %, error feedback".
  virtual std::string summary() const = 0;

  /// What is kept of each bucket from step to step.
  virtual Bytes state(const GradientShape&) const { return {}; }
  /// Why it cannot compress the gradients of a network (all of them in one shape), or "".
  virtual std::string refuses(const GradientShape&) const { return ""; }
  virtual bool needs_whole_tensors() const { return false; }
  /// Its exchange is none that a model of a library knows on the replicas' lane: message by message alone.
  virtual bool by_messages() const { return false; }
  /// Can what one rank sends be decoded alone, and added to that of others by a server?
  virtual bool pushes() const { return true; }
  /// Stages of a warm-up, of so many steps each, before the one that lasts; and which one a step is in.
  virtual int warm_up_stages() const { return 0; }
  virtual int warm_up_steps() const { return 0; }
  virtual int warm_up_stage(int /*step*/) const { return 0; }
};

/// A compressor as the registry knows it.
struct CompressorKind {
  std::string name;
  std::string description;        ///< for `trainyard list compressors`
  std::string exchange;           ///< in a word or two, for the same
  std::vector<std::string> keys;  ///< of plan.data_parallel.compression, beside `name`
  std::shared_ptr<const Compressor> (*read)(Fields&) = nullptr;
};
Registry<CompressorKind>& compressors();
struct RegisterCompressor {
  explicit RegisterCompressor(CompressorKind kind) {
    const std::string name = kind.name;
    compressors().add(name, std::move(kind));
  }
};

/// Reads `compression: NAME` or `{name: NAME, …}` of plan.data_parallel (not `none`). Throws UserError with the place.
std::shared_ptr<const Compressor> read_compressor(const Node&);

/// The sum of all ranks' gradients as a compressed exchange gives it, without any machine: codecs are those of the ranks.
std::vector<double> compressed_sum(const Compressor&, const GradientShape&,
                                   std::span<const std::unique_ptr<GradientCodec>> of_ranks,
                                   std::span<const std::vector<double>> gradients);

// What compressors share:

/// "0.1 %".
std::string share_in_words(double share);
/// Reads `density`, over 0 up to 1.
double read_density(Fields&);
bool read_error_feedback(Fields&);
/// So many elements of all, one at least.
double chosen_elements(double density, double elements);
/// A kernel that reads and writes so many bytes in all.
KernelCall moves(std::string name, double bytes);
/// A compressor's residuals are in fp32.
constexpr double kResidualBytes = 4;
/// The residual of the step before is added to the gradient, and the sum kept.
KernelCall add_residual(const GradientShape&);

}  // namespace trainyard
