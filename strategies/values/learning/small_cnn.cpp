// A small convolutional network: 3 × 3 convolutions as products with patches (im2col), tanh, a maximum over 2 × 2
// pixels, and a linear layer with a softmax loss.
#include <fmt/format.h>

#include <cmath>

#include "sim/error.hpp"
#include "strategies/values/layers/operators.hpp"
#include "strategies/values/layers/product.hpp"
#include "strategies/values/learning/draws.hpp"
#include "strategies/values/learning/tasks.hpp"

namespace trainyard {
namespace {

using Matrix = Eigen::MatrixXd;
using Index = Eigen::Index;
using Map = Eigen::Map<const Matrix>;

constexpr Index kField = 9;  // 3 × 3

/// A convolution with weights (out × 9·in) and biases, on images of `side` × `side` pixels.
struct Convolution {
  Index in, out, side, first;  ///< first: number of its first parameter
  Index weights() const { return out * in * kField; }
};

/// Calls visit(number of the patch, place in the patch, pixel) for each pixel of the patch around each pixel, except for
/// places beyond the edge of the image.
template <class Visit>
void visit_patches(Index side, Visit visit) {
  for (Index y = 0; y < side; ++y)
    for (Index x = 0; x < side; ++x)
      for (Index f = 0; f < kField; ++f) {
        const Index pixel_y = y + f / 3 - 1, pixel_x = x + f % 3 - 1;
        if (pixel_y < 0 || pixel_x < 0 || pixel_y >= side || pixel_x >= side) continue;
        visit(y * side + x, f, pixel_y * side + pixel_x);
      }
}

/// The patch around each pixel, one in each column, with zeros beyond the edge. A row of an image is a channel, a
/// column is a pixel.
Matrix patches(const Matrix& image, Index side) {
  Matrix all = Matrix::Zero(image.rows() * kField, side * side);
  visit_patches(side, [&](Index patch, Index place, Index pixel) {
    all.block(place * image.rows(), patch, image.rows(), 1) = image.col(pixel);
  });
  return all;
}

/// The transpose of `patches`: each pixel is the sum of its values in all patches.
Matrix sum_patches(const Matrix& all, Index channels, Index side) {
  Matrix image = Matrix::Zero(channels, side * side);
  visit_patches(side, [&](Index patch, Index place, Index pixel) {
    image.col(pixel) += all.block(place * channels, patch, channels, 1);
  });
  return image;
}

/// The largest of each 2 × 2 pixels, and its number in the image.
struct PooledImage {
  Matrix values;
  Eigen::MatrixXi from;
};
PooledImage pool(const Matrix& image, Index side) {
  const Index half = side / 2;
  PooledImage p{Matrix(image.rows(), half * half), Eigen::MatrixXi(image.rows(), half * half)};
  for (Index y = 0; y < half; ++y)
    for (Index x = 0; x < half; ++x)
      for (Index c = 0; c < image.rows(); ++c) {
        Index best = 2 * y * side + 2 * x;
        for (const Index other : {best + 1, best + side, best + side + 1})
          if (image(c, other) > image(c, best)) best = other;
        p.values(c, y * half + x) = image(c, best);
        p.from(c, y * half + x) = static_cast<int>(best);
      }
  return p;
}

class SmallCnn : public LearningTask {
 public:
  SmallCnn(SplitSamples samples, const std::vector<int>& channels, std::uint64_t seed)
      : samples_(std::move(samples)), seed_(seed) {
    auto side = static_cast<Index>(std::lround(std::sqrt(static_cast<double>(samples_.training.inputs.rows()))));
    if (side * side != samples_.training.inputs.rows())
      throw UserError(
          fmt::format("task cnn: images must be square, but {} features are not", samples_.training.inputs.rows()));
    side_ = side;
    Index in = 1;
    for (const int out : channels) {
      if (side < 2)
        throw UserError(fmt::format("task cnn: {} layers are too many for images of {}", channels.size(), side_));
      layers_.push_back({in, out, side, size_});
      size_ += layers_.back().weights() + out;
      in = out;
      side /= 2;
    }
    features_ = in * side * side;
    linear_ = size_;
    size_ += samples_.training.classes * (features_ + 1);
  }

  Index size() const override { return size_; }
  std::vector<Tensor> tensors() const override {
    std::vector<Tensor> all;
    for (const Convolution& c : layers_) {
      all.push_back({c.first, c.weights(), c.out, true});
      all.push_back({c.first + c.weights(), c.out});
    }
    all.push_back({linear_, classes() * features_, classes(), true});
    all.push_back({linear_ + classes() * features_, classes()});
    return all;
  }
  /// Initial values of Glorot & Bengio 2010; biases are 0.
  Vector initial() const override {
    Vector w = Vector::Zero(size_);
    Draws draws(hash_numbers({seed_, 7}));
    const auto fill = [&](Index first, Index count, Index in, Index out) {
      const double spread = std::sqrt(6.0 / static_cast<double>(in + out));
      for (Index i = 0; i < count; ++i) w[first + i] = spread * (2 * draws.uniform() - 1);
    };
    for (const Convolution& c : layers_) fill(c.first, c.weights(), kField * c.in, kField * c.out);
    fill(linear_, classes() * features_, features_, classes());
    return w;
  }
  Index samples() const override { return samples_.training.count(); }
  double add_gradient(const Vector& w, std::span<const Index> which, double scale, Vector& sum) const override {
    double loss = 0;
    for (const Index sample : which) {
      const Vector out = forward(w, samples_.training, sample);
      const Matrix target = target_of(samples_.training, sample);
      loss += numeric::softmax_loss(out, target);
      backward(w, numeric::softmax_loss_gradient(out, target) * scale, sum);
    }
    return loss;
  }
  TaskScore score(const Vector& w) const override {
    const LabelledSamples& s = samples_.validation;
    double loss = 0, right = 0;
    for (Index i = 0; i < s.count(); ++i) {
      const Vector out = forward(w, s, i);
      loss += numeric::softmax_loss(out, target_of(s, i));
      Index best = 0;
      out.maxCoeff(&best);
      right += best == s.labels[i] ? 1 : 0;
    }
    return {loss / static_cast<double>(s.count()), right / static_cast<double>(s.count())};
  }
  std::string in_words() const override {
    std::vector<Index> channels;
    for (const Convolution& c : layers_) channels.push_back(c.out);
    return fmt::format("CNN of {} channels ({} parameters) on {} images of {} x {}", fmt::join(channels, ", "), size_,
                       samples(), side_, side_);
  }

 private:
  SplitSamples samples_;
  std::uint64_t seed_;
  Index side_ = 0, features_ = 0, linear_ = 0, size_ = 0;
  std::vector<Convolution> layers_;
  struct LayerValues {  // the forward pass stores them for the backward pass
    Matrix patches, activated;
    PooledImage pooled;
  };
  mutable std::vector<LayerValues> kept_;

  Index classes() const { return samples_.training.classes; }
  Matrix target_of(const LabelledSamples& s, Index sample) const { return Vector::Unit(classes(), s.labels[sample]); }
  Map weights(const Vector& w, const Convolution& c) const { return {w.data() + c.first, c.out, c.in * kField}; }
  Map linear(const Vector& w) const { return {w.data() + linear_, classes(), features_}; }

  Vector forward(const Vector& w, const LabelledSamples& s, Index sample) const {
    Matrix image = s.inputs.col(sample).transpose();
    kept_.resize(layers_.size());
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const Convolution& c = layers_[l];
      kept_[l].patches = patches(image, c.side);
      kept_[l].activated = numeric::times(weights(w, c), kept_[l].patches, "convolution");
      kept_[l].activated.colwise() += w.segment(c.first + c.weights(), c.out);
      kept_[l].activated = kept_[l].activated.array().tanh();
      kept_[l].pooled = pool(kept_[l].activated, c.side);
      image = kept_[l].pooled.values;
    }
    return linear(w) * Eigen::Map<const Vector>(image.data(), features_) + w.tail(classes());
  }

  void backward(const Vector& w, const Vector& out, Vector& sum) const {
    const Matrix& last = kept_.back().pooled.values;
    Eigen::Map<Matrix>(sum.data() + linear_, classes(), features_) +=
        out * Eigen::Map<const Vector>(last.data(), features_).transpose();
    sum.tail(classes()) += out;
    const Vector flat = linear(w).transpose() * out;
    Matrix gradient = Eigen::Map<const Matrix>(flat.data(), last.rows(), last.cols());
    for (std::size_t l = layers_.size(); l-- > 0;) {
      const Convolution& c = layers_[l];
      const LayerValues& kept = kept_[l];
      Matrix by_output = Matrix::Zero(c.out, c.side * c.side);
      for (Index p = 0; p < gradient.cols(); ++p)
        for (Index row = 0; row < c.out; ++row) by_output(row, kept.pooled.from(row, p)) = gradient(row, p);
      by_output.array() *= 1 - kept.activated.array().square();
      Eigen::Map<Matrix>(sum.data() + c.first, c.out, c.in * kField) +=
          numeric::times(by_output, kept.patches.transpose(), "gradient of a convolution");
      sum.segment(c.first + c.weights(), c.out) += by_output.rowwise().sum();
      if (l > 0)
        gradient =
            sum_patches(numeric::times(weights(w, c).transpose(), by_output, "gradient by an image"), c.in, c.side);
    }
  }
};

std::shared_ptr<const LearningTask> make_cnn(const TaskChoice& choice) {
  LabelledSamples all = choice.has_files() ? read_samples(choice) : patterns(choice.data, choice.side);
  return small_cnn(split(std::move(all), choice.validation), choice.layers, choice.seed);
}

void read_cnn(Fields& learn, TaskChoice& choice) {
  choice.layers = read_widths(
      learn, {"channels", "Number of channels of each convolution, for example [4, 8]. Default: [4, 8]."}, 64, {4, 8});
  choice.data.samples = 1024;
  read_class_data(learn, choice, true);
}

const Registration register_cnn{learning_tasks(), "cnn",
                                TaskKind{"a small convolutional network on square images", read_cnn, make_cnn}};

}  // namespace

std::shared_ptr<const LearningTask> small_cnn(SplitSamples samples, const std::vector<int>& channels,
                                              std::uint64_t seed) {
  return std::make_shared<SmallCnn>(std::move(samples), channels, seed);
}

}  // namespace trainyard
