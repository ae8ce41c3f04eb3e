#include "strategies/values/learning/learning_task.hpp"

#include "sim/hashing.hpp"
#include "sim/index.hpp"

namespace trainyard {

Eigen::Index SampleOrder::sample(std::int64_t i) {
  if (samples_ == 0) return i;
  const std::int64_t number = i / samples_;
  Epoch& epoch = epochs_[number % std::ssize(epochs_)];
  if (epoch.number != number) {
    epoch.number = number;
    epoch.order = consecutive_numbers(Eigen::Index{0}, samples_);
    shuffle(epoch.order, seed_, static_cast<std::uint64_t>(number));
  }
  return epoch.order[i % samples_];
}

}  // namespace trainyard
