// PowerSGD (Vogels et al. 2019), as in torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook: a matrix M is sent
// as P Qᵀ of a low rank, from one step of a power iteration that continues the previous one. Factors are summed
// directly. Vectors, and matrices that would shrink too little, are sent uncompressed.
#include <fmt/format.h>
#include <Eigen/Core>

#include "sim/hashing.hpp"
#include "strategies/compression/sparse.hpp"

namespace trainyard {
namespace {

struct PowerSgdChoice {
  double rank = 1;
  double least_rate = 2;  // powerSGD_hook's min_compression_rate
  bool feedback = true, warm_start = true;

  bool compresses(const GradientMatrix& m) const {
    return rank <= std::min(m.rows, m.columns) && (m.rows + m.columns) * rank * least_rate < m.elements();
  }
};

using Matrix = Eigen::MatrixXd;
using Map = Eigen::Map<const Matrix>;

/// Orthogonalizes columns by the modified Gram–Schmidt process.
void orthogonalize(Matrix& p) {
  constexpr double least = 1e-8;  // powerSGD_hook's orthogonalization_epsilon
  for (Eigen::Index c = 0; c < p.cols(); ++c) {
    p.col(c) /= p.col(c).norm() + least;
    for (Eigen::Index later = c + 1; later < p.cols(); ++later) p.col(later) -= p.col(c).dot(p.col(later)) * p.col(c);
  }
}

class PowerSgdCodec : public GradientCodec {
 public:
  PowerSgdCodec(const PowerSgdChoice& choice, GradientShape shape, std::uint64_t seed)
      : choice_(choice), shape_(std::move(shape)), seed_(seed), all_(static_cast<std::size_t>(shape_.elements()), 0.0) {
    std::size_t offset = 0;
    for (const GradientMatrix& m : shape_.parts) {
      Part& part = parts_.emplace_back();
      part.offset = offset;
      part.rows = static_cast<Eigen::Index>(m.rows);
      part.columns = static_cast<Eigen::Index>(m.columns);
      part.low = choice_.compresses(m);
      offset += static_cast<std::size_t>(m.elements());
    }
  }

  std::vector<double> encode(int round, std::span<const double> input) override {
    return round == 0 ? products(input) : factors(input);
  }

  std::vector<double> decode(std::span<const double> result) override {
    if (std::ranges::none_of(parts_, [](const Part& part) { return part.low; })) factors(result);
    std::vector<double> sum(all_.size());
    const double* q = result.data();
    for (Part& part : parts_) {
      Eigen::Map<Matrix> out(sum.data() + part.offset, part.rows, part.columns);
      if (part.low) {
        part.q = Map(q, part.columns, part.p.cols());
        q += part.q.size();
        out.noalias() = part.p.lazyProduct(part.q.transpose());
      } else {
        out = part.p;
      }
    }
    // The residual is the part of this rank's gradients that the others did not get.
    for (std::size_t i = 0; i < all_.size(); ++i) all_[i] = choice_.feedback ? all_[i] - sum[i] / shape_.ranks : 0;
    for (const Part& part : parts_)
      if (!part.low)
        std::fill_n(all_.begin() + static_cast<std::ptrdiff_t>(part.offset), part.rows * part.columns, 0.0);
    return sum;
  }

 private:
  struct Part {
    std::size_t offset = 0;
    Eigen::Index rows = 0, columns = 0;
    bool low = false;
    Matrix p, q;  // if the part is sent uncompressed, p is its sum
  };
  PowerSgdChoice choice_;
  GradientShape shape_;
  std::uint64_t seed_, step_ = 0;
  std::vector<double> all_;  // residuals between steps; within a step, residuals plus gradients
  std::vector<Part> parts_;

  Map matrix_of(const Part& part) const { return Map(all_.data() + part.offset, part.rows, part.columns); }
  void append(std::vector<double>& to, const Matrix& m) const {
    for (Eigen::Index i = 0; i < m.size(); ++i) to.push_back(rounded_to(sent_precision(shape_), m.data()[i]));
  }

  /// Returns P = M Q, and the parts that are sent uncompressed.
  std::vector<double> products(std::span<const double> gradients) {
    std::vector<double> sent;
    for (std::size_t i = 0; i < all_.size(); ++i) all_[i] += gradients[i];
    for (std::size_t number = 0; number < parts_.size(); ++number) {
      Part& part = parts_[number];
      if (part.low && (part.q.size() == 0 || !choice_.warm_start)) draw(part, hash_numbers({seed_, step_, number}));
      append(sent, part.low ? Matrix(matrix_of(part).lazyProduct(part.q)) : Matrix(matrix_of(part)));
    }
    ++step_;
    return sent;
  }
  /// Returns Q = Mᵀ P, after orthogonalizing the sum of all ranks' P.
  std::vector<double> factors(std::span<const double> sums) {
    std::vector<double> sent;
    const double* next_factor = sums.data();
    for (Part& part : parts_) {
      part.p = Map(next_factor, part.rows, part.low ? static_cast<Eigen::Index>(choice_.rank) : part.columns);
      next_factor += part.p.size();
      if (!part.low) continue;
      orthogonalize(part.p);
      append(sent, Matrix(matrix_of(part).transpose().lazyProduct(part.p)));
    }
    return sent;
  }
  /// Draws the first Q, which is the same on all ranks.
  void draw(Part& part, std::uint64_t seed) const {
    part.q.resize(part.columns, static_cast<Eigen::Index>(choice_.rank));
    for (Eigen::Index i = 0; i < part.q.size(); ++i)
      part.q.data()[i] = static_cast<double>(hash_numbers({seed, static_cast<std::uint64_t>(i)}) >> 11) * 0x1.0p-52 - 1;
    orthogonalize(part.q);
  }
};

class PowerSgd : public Compressor {
 public:
  explicit PowerSgd(const PowerSgdChoice& choice) : choice_(choice) {}

  Compression compress(const GradientShape& shape) const override {
    const double r = choice_.rank, element = shape.element.value;
    CompressionRound products, factors;
    Compression all;
    double first = 0, second = 0, uncompressed = 0;
    if (choice_.feedback) products.kernels.push_back(add_residual(shape));
    for (const GradientMatrix& m : shape.parts) {
      if (!choice_.compresses(m)) {
        first += m.elements();
        uncompressed += m.elements();
        continue;
      }
      first += m.rows * r;
      second += m.columns * r;
      products.kernels.push_back(gemm("P = M Q", m.rows, r, m.columns, shape.precision));
      // Each column is orthogonalized against all columns before it: on average each is read and written (r + 1) / 2
      // times.
      factors.kernels.push_back(moves("orthogonalize", m.rows * r * (r + 1) * element));
      factors.kernels.push_back(gemm("Q = Mᵀ P", m.columns, r, m.rows, shape.precision));
      all.decode.push_back(gemm("P Qᵀ", m.rows, m.columns, r, shape.precision));
    }
    if (uncompressed > 0) all.decode.push_back(moves("copy what went whole", 2 * uncompressed * element));
    if (choice_.feedback)
      all.decode.push_back(moves("new residual", shape.elements() * (2 * kResidualBytes + element)));
    for (CompressionRound* round : {&products, &factors}) round->operation = Operation::all_reduce;
    products.bytes = Bytes{first * element};
    factors.bytes = Bytes{second * element};
    all.rounds = {std::move(products)};
    if (second > 0) all.rounds.push_back(std::move(factors));
    return all;
  }
  std::unique_ptr<GradientCodec> codec(const GradientShape& shape, int, std::uint64_t seed) const override {
    return std::make_unique<PowerSgdCodec>(choice_, shape, seed);
  }
  std::string summary() const override {
    return fmt::format("PowerSGD of rank {}{}{}", choice_.rank, choice_.feedback ? "" : ", no error feedback",
                       choice_.warm_start ? "" : ", no warm start");
  }
  /// The state is the residual and Q.
  Bytes state(const GradientShape& shape) const override {
    double elements = choice_.feedback ? shape.elements() : 0;
    for (const GradientMatrix& m : shape.parts)
      if (choice_.compresses(m) && choice_.warm_start) elements += m.columns * choice_.rank;
    return Bytes{elements * kResidualBytes};
  }
  std::string refuses(const GradientShape& network) const override {
    double most = 0;
    bool any = false;
    for (const GradientMatrix& m : network.parts) {
      most = std::max(most, m.columns > 1 ? std::min(m.rows, m.columns) : 0);
      any = any || choice_.compresses(m);
    }
    if (choice_.rank > most) return fmt::format("no matrix of the network has a rank above {}", most);
    return any ? "" : fmt::format("it makes no matrix of the network {} times smaller", choice_.least_rate);
  }
  bool needs_whole_tensors() const override { return true; }
  bool pushes() const override { return false; }

 private:
  PowerSgdChoice choice_;
};

const RegisterCompressor register_power_sgd{
    {"powersgd",
     "PowerSGD: each matrix as the product of two low-rank matrices, warm-started",
     "two all-reduces",
     {"rank", "error_feedback", "warm_start", "min_compression_rate"},
     [](Fields& fields) -> std::shared_ptr<const Compressor> {
       PowerSgdChoice choice;
       choice.rank = static_cast<double>(fields.integer_within<int>(
           {"rank", "Rank of the two factors that stand for a matrix of gradients, for example 4."}, 1, 1 << 20));
       choice.feedback = read_error_feedback(fields);
       choice.warm_start =
           fields.boolean({"warm_start", "Whether a step begins with the factor of the step before."}, true);
       choice.least_rate =
           fields.number({"min_compression_rate",
                          "A matrix is compressed only if it shrinks by more than this factor, for example 2."},
                         1, 1e6, 2);
       return std::make_shared<PowerSgd>(choice);
     }}};

}  // namespace
}  // namespace trainyard
