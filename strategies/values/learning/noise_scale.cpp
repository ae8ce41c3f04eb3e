#include "strategies/values/learning/noise_scale.hpp"

namespace trainyard {

GradientNoise measure_noise(const LearningTask& task, const Eigen::VectorXd& parameters, SampleOrder& order,
                            std::int64_t first, int batch, int groups) {
  Eigen::VectorXd mean = Eigen::VectorXd::Zero(task.size());
  double small = 0;  // mean squared norm of the groups' gradients
  std::vector<Eigen::Index> samples(static_cast<std::size_t>(batch));
  for (int group = 0; group < groups; ++group) {
    for (Eigen::Index& sample : samples) sample = order.sample(first++);
    Eigen::VectorXd gradient = Eigen::VectorXd::Zero(task.size());
    task.add_gradient(parameters, samples, 1.0 / batch, gradient);
    small += gradient.squaredNorm() / groups;
    mean += gradient / groups;
  }
  const double large = mean.squaredNorm(), size = batch, all = size * groups;
  return {(all * large - size * small) / (all - size), (small - large) / (1 / size - 1 / all)};
}

}  // namespace trainyard
