#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "sim/hashing.hpp"
#include "strategies/values/learning/draws.hpp"
#include "strategies/values/learning/samples.hpp"

namespace trainyard {
namespace {

void make_labels_noisy(LabelledSamples& s, const MadeData& data, Draws& draws) {
  for (Eigen::Index i = 0; i < s.count(); ++i)
    if (draws.uniform() < data.label_noise) s.labels[i] = draws.integer_below(s.classes);
}

}  // namespace

LabelledSamples clusters(const MadeData& data) {
  Draws draws(hash_numbers({data.seed, 1}));
  LabelledSamples s{Eigen::MatrixXd(data.features, data.samples), Eigen::VectorXi(data.samples), data.classes};
  const Eigen::MatrixXd centers =
      Eigen::MatrixXd::NullaryExpr(data.features, data.classes * data.clusters, [&] { return draws.normal(); });
  for (Eigen::Index i = 0; i < data.samples; ++i) {
    s.labels[i] = draws.integer_below(data.classes);
    const Eigen::Index center = s.labels[i] * data.clusters + draws.integer_below(data.clusters);
    for (Eigen::Index f = 0; f < data.features; ++f) s.inputs(f, i) = centers(f, center) + data.noise * draws.normal();
  }
  make_labels_noisy(s, data, draws);
  return s;
}

LabelledSamples patterns(const MadeData& data, int side) {
  Draws draws(hash_numbers({data.seed, 2}));
  LabelledSamples s{Eigen::MatrixXd(side * side, data.samples), Eigen::VectorXi(data.samples), data.classes};
  // The pattern of a class is the sum of a few waves, which is smooth.
  constexpr int kWaves = 4;
  Eigen::MatrixXd shapes = Eigen::MatrixXd::Zero(side * side, data.classes);
  for (Eigen::Index c = 0; c < data.classes; ++c)
    for (int wave = 0; wave < kWaves; ++wave) {
      const int down = draws.integer_below(4), along = draws.integer_below(4);
      const double phase = 2 * std::numbers::pi * draws.uniform(), size = draws.normal();
      for (int y = 0; y < side; ++y)
        for (int x = 0; x < side; ++x)
          shapes(y * side + x, c) += size * std::cos(2 * std::numbers::pi * (down * y + along * x) / side + phase);
    }
  const int most = std::max(1, side / 4);
  for (Eigen::Index i = 0; i < data.samples; ++i) {
    s.labels[i] = draws.integer_below(data.classes);
    const int down = draws.integer_below(most), along = draws.integer_below(most);
    for (int y = 0; y < side; ++y)
      for (int x = 0; x < side; ++x)
        s.inputs(y * side + x, i) =
            shapes((y + down) % side * side + (x + along) % side, s.labels[i]) + data.noise * draws.normal();
  }
  make_labels_noisy(s, data, draws);
  return s;
}

Sentences sentences(int vocabulary, int states, int length, Eigen::Index count, std::uint64_t seed) {
  Draws draws(hash_numbers({seed, 3}));
  struct Transition {
    int word, to;
  };
  std::vector<std::pair<Transition, Transition>> transitions;
  for (int state = 0; state < states; ++state) {
    const auto draw = [&] { return Transition{draws.integer_below(vocabulary), draws.integer_below(states)}; };
    const Transition first = draw();
    transitions.emplace_back(first, draw());
  }
  constexpr double kFirst = 0.7;  // probability of the first transition
  Sentences all(length, count);
  for (Eigen::Index i = 0; i < count; ++i) {
    int state = draws.integer_below(states);
    for (int position = 0; position < length; ++position) {
      const auto& [first, second] = transitions[state];
      const Transition transition = draws.uniform() < kFirst ? first : second;
      all(position, i) = transition.word;
      state = transition.to;
    }
  }
  return all;
}

}  // namespace trainyard
