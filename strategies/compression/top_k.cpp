// The largest gradients of each rank (Aji & Heafield 2017); the others are kept for later steps (Stich et al. 2018,
// "Sparsified SGD with memory").
#include <fmt/format.h>

#include "sim/hashing.hpp"
#include "strategies/compression/sparse.hpp"

namespace trainyard {
namespace {

struct TopKChoice {
  Selection selection;
  bool feedback = true, ring = false;
};

class TopKCodec : public GradientCodec {
 public:
  TopKCodec(const TopKChoice& choice, GradientShape shape, std::uint64_t seed)
      : choice_(choice),
        shape_(std::move(shape)),
        seed_(seed),
        residual_(zeros(shape_)),
        count_(static_cast<std::size_t>(chosen_elements(choice_.selection.density, shape_.elements()))) {}

  std::vector<double> encode(int, std::span<const double> input) override {
    std::vector<double> all(input.begin(), input.end());
    for (std::size_t i = 0; i < all.size() && choice_.feedback; ++i) all[i] += residual_[i];
    const std::vector<std::uint32_t> places = select_places(all, choice_.selection, hash_numbers({seed_, step_++}));
    std::vector<double> sent;
    for (const std::uint32_t place : places) sent.push_back(rounded_to(sent_precision(shape_), all[place]));
    residual_ = std::move(all);
    for (std::size_t i = 0; i < places.size(); ++i) residual_[places[i]] -= sent[i];
    if (!choice_.ring) return sparse_payload(sent, places, count_, sent_precision(shape_));
    std::vector<double> dense(residual_.size(), 0.0);
    for (std::size_t i = 0; i < places.size(); ++i) dense[places[i]] = sent[i];
    return dense;
  }
  std::vector<double> decode(std::span<const double> result) override {
    return choice_.ring ? std::vector<double>(result.begin(), result.end()) : sum_of_payloads(result, shape_, count_);
  }

 private:
  TopKChoice choice_;
  GradientShape shape_;
  std::uint64_t seed_, step_ = 0;
  std::vector<double> residual_;
  std::size_t count_;
};

class TopK : public Compressor {
 public:
  explicit TopK(const TopKChoice& choice) : choice_(choice) {}

  Compression compress(const GradientShape& shape) const override {
    const double count = chosen_elements(choice_.selection.density, shape.elements());
    Compression all;
    CompressionRound round = sparse_round(shape, count, choice_.ring);
    if (choice_.feedback) round.kernels.push_back(add_residual(shape));
    for (KernelCall& kernel :
         selection_kernels(choice_.selection, shape, choice_.feedback ? kResidualBytes : shape.element.value))
      round.kernels.push_back(std::move(kernel));
    if (choice_.feedback) round.kernels.push_back(moves("clear what is sent", count * kResidualBytes));
    // A ring produces one sum, with the places of all ranks.
    const double elements = choice_.ring ? shape.elements() * round.sum_density(shape.ranks) / shape.ranks : count;
    all.decode.push_back(scatter_add(shape, elements, sparse_element(shape)));
    all.rounds.push_back(std::move(round));
    return all;
  }
  std::unique_ptr<GradientCodec> codec(const GradientShape& shape, int rank, std::uint64_t seed) const override {
    return std::make_unique<TopKCodec>(choice_, shape, hash_numbers({seed, static_cast<std::uint64_t>(rank)}));
  }
  std::string summary() const override {
    return fmt::format("top-k of {}{}{}", in_words(choice_.selection),
                       choice_.feedback ? ", error feedback" : ", no error feedback",
                       choice_.ring ? ", summed by a ring" : "");
  }
  Bytes state(const GradientShape& shape) const override { return residual_size(shape, choice_.feedback); }
  bool by_messages() const override { return choice_.ring; }
  bool pushes() const override { return !choice_.ring; }

 private:
  TopKChoice choice_;
};

const RegisterCompressor register_top_k{{"top-k",
                                         "the largest gradients of each rank, exactly or by a sampled threshold",
                                         "all-gather, or a ring of sparse sums",
                                         {"density", "sample", "error_feedback", "exchange"},
                                         [](Fields& fields) -> std::shared_ptr<const Compressor> {
                                           TopKChoice choice;
                                           choice.selection = read_selection(fields);
                                           choice.feedback = read_error_feedback(fields);
                                           choice.ring = read_sparse_ring(fields);
                                           return std::make_shared<TopK>(choice);
                                         }}};

}  // namespace
}  // namespace trainyard
