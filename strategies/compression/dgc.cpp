// Deep gradient compression (Lin et al. 2018). Unsent parts are accumulated as velocity, not as gradient (momentum
// correction), after local clipping. Sent elements are also removed from the momentum (momentum factor masking). The
// density falls in stages. What is sent then contains the momentum, and the optimizer applies none. Without
// momentum correction it is top-k of gradients with the same clipping and stages, and the optimizer has the momentum.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/hashing.hpp"
#include "strategies/compression/sparse.hpp"

namespace trainyard {
namespace {

// Densities of the warm-up stages. Section 3.3: sparsities of 75, 93.75, 98.4375 and 99.6 % in the first epochs, then
// 99.9 %.
constexpr std::array<double, 4> kWarmUp{0.25, 0.0625, 0.015625, 0.004};

struct DgcChoice {
  Selection selection;
  bool corrects = true;  // momentum correction
  double momentum = 0.9;
  double clip = 0;  // limit on the norm of a whole gradient; 0: none
  bool masking = true;
  int warm_up_steps = 0;

  int stages() const {
    int stages = 0;
    for (const double density : kWarmUp) stages += warm_up_steps > 0 && density > selection.density ? 1 : 0;
    return stages;
  }
  int stage(int step) const { return warm_up_steps > 0 ? std::min(stages(), step / warm_up_steps) : stages(); }
  Selection selection_in(int stage) const {
    Selection stage_selection = selection;
    if (stage < stages()) stage_selection.density = kWarmUp[static_cast<std::size_t>(stage)];
    return stage_selection;
  }
};

class DgcCodec : public GradientCodec {
 public:
  DgcCodec(const DgcChoice& choice, GradientShape shape, std::uint64_t seed)
      : choice_(choice), shape_(std::move(shape)), seed_(seed), momentum_(zeros(shape_)), velocity_(momentum_) {}

  std::vector<double> encode(int, std::span<const double> input) override {
    const double scale = clipping(input);
    for (std::size_t i = 0; i < input.size(); ++i) {
      momentum_[i] = (choice_.corrects ? choice_.momentum * momentum_[i] : 0) + scale * input[i];
      velocity_[i] += momentum_[i];
    }
    const Selection selection = choice_.selection_in(choice_.stage(static_cast<int>(step_)));
    count_ = static_cast<std::size_t>(chosen_elements(selection.density, shape_.elements()));
    const std::vector<std::uint32_t> places = select_places(velocity_, selection, hash_numbers({seed_, step_++}));
    std::vector<double> sent;
    for (const std::uint32_t place : places) {
      sent.push_back(rounded_to(sent_precision(shape_), velocity_[place]));
      velocity_[place] -= sent.back();
      if (choice_.masking) momentum_[place] = 0;
    }
    return sparse_payload(sent, places, count_, sent_precision(shape_));
  }
  std::vector<double> decode(std::span<const double> result) override {
    return sum_of_payloads(result, shape_, count_);
  }

 private:
  DgcChoice choice_;
  GradientShape shape_;
  std::uint64_t seed_, step_ = 0;
  std::vector<double> momentum_, velocity_;
  std::size_t count_ = 0;

  /// Returns the factor that clips the gradient. The limit for one rank's gradient is that for the mean over all
  /// ranks, divided by the square root of their number (section 3.2). `input` is a rank's part of the mean.
  double clipping(std::span<const double> input) const {
    if (choice_.clip == 0) return 1;
    double squares = 0;
    for (const double x : input) squares += x * x;
    const double norm = std::sqrt(squares), most = choice_.clip / std::pow(shape_.ranks, 1.5);
    return norm > most ? most / norm : 1;
  }
};

class Dgc : public Compressor {
 public:
  explicit Dgc(const DgcChoice& choice) : choice_(choice) {}

  Compression compress(const GradientShape& shape) const override {
    const Selection selection = choice_.selection_in(shape.warm_up_stage);
    const double n = shape.elements(), count = chosen_elements(selection.density, n);
    CompressionRound round = sparse_round(shape, count, false);
    if (choice_.clip > 0) round.kernels.push_back(moves("norm", n * shape.element.value));
    if (choice_.corrects)
      round.kernels.push_back(moves("momentum and velocity", n * (shape.element.value + 4 * kResidualBytes)));
    else
      round.kernels.push_back(add_residual(shape));
    for (KernelCall& kernel : selection_kernels(selection, shape, kResidualBytes))
      round.kernels.push_back(std::move(kernel));
    round.kernels.push_back(moves("mask what is sent", count * kResidualBytes * (choice_.masking ? 2 : 1)));
    return {{std::move(round)}, {scatter_add(shape, count, sparse_element(shape))}};
  }
  std::unique_ptr<GradientCodec> codec(const GradientShape& shape, int rank, std::uint64_t seed) const override {
    return std::make_unique<DgcCodec>(choice_, shape, hash_numbers({seed, static_cast<std::uint64_t>(rank)}));
  }
  std::string summary() const override {
    return fmt::format("DGC of {}, {}{}{}", in_words(choice_.selection),
                       choice_.corrects ? fmt::format("momentum {}", choice_.momentum) : "no momentum correction",
                       choice_.clip > 0 ? fmt::format(", clipped at {}", choice_.clip) : "",
                       choice_.masking || !choice_.corrects ? "" : ", no momentum masking");
  }
  /// The state is the velocity, and with momentum correction the momentum.
  Bytes state(const GradientShape& shape) const override {
    return Bytes{(choice_.corrects ? 2 : 1) * shape.elements() * kResidualBytes};
  }
  std::optional<double> momentum() const override {
    return choice_.corrects ? std::optional(choice_.momentum) : std::nullopt;
  }
  int warm_up_stages() const override { return choice_.stages(); }
  int warm_up_steps() const override { return choice_.warm_up_steps; }
  int warm_up_stage(int step) const override { return choice_.stage(step); }

 private:
  DgcChoice choice_;
};

const RegisterCompressor register_dgc{
    {"dgc",
     "deep gradient compression: the largest elements of an accumulated velocity; the density falls in stages",
     "all-gather",
     {"density", "sample", "momentum_correction", "momentum", "clip", "momentum_masking", "warmup_steps"},
     [](Fields& fields) -> std::shared_ptr<const Compressor> {
       DgcChoice choice;
       choice.selection.density = read_density(fields);
       choice.selection.sample = fields.number("sample", 0, 1, 0.01);
       choice.corrects = fields.boolean({"momentum_correction",
                                         "Whether dgc accumulates momentum instead of gradients; `learn`'s optimizer "
                                         "then applies none. Default: true."},
                                        true);
       for (const char* key : {"momentum", "momentum_masking"})
         fields.require_condition(key, choice.corrects,
                                  "with momentum_correction, which keeps the momentum in what is sent");
       choice.momentum = fields.number(
           {"momentum", "Momentum of DGC, which accumulates before gradients are chosen, for example 0.9."}, 0, 1, 0.9);
       choice.clip = fields.number("clip", 0, 1e300, 0);
       choice.masking = fields.boolean(
           {"momentum_masking", "Whether DGC sets the momentum of the elements that it has sent to 0."}, true);
       choice.warm_up_steps = fields.integer_within<int>(
           {"warmup_steps",
            "Number of steps of each stage in which the density falls towards its final value, for example 100."},
           0, 1 << 24, 0);
       return std::make_shared<Dgc>(choice);
     }}};

}  // namespace
}  // namespace trainyard
