// Numbers of what lies in host memory and on drives.
#include <fmt/format.h>

#include "sim/error.hpp"
#include "strategies/values/rank_parameters.hpp"

namespace trainyard::numeric {

void RankParameters::fill_share(std::size_t number, Eigen::VectorXd& buffer) {
  Bucket& b = buckets_.at(number);
  const int there = b.exchanged ? b.taken[0] : micro_batches_in(b);
  if (there == b.left) throw InternalError(fmt::format("bucket {} goes to the host without new gradients", number));
  b.left = there;
  buffer.resize(b.own_end - b.own_begin);
  of_share(b, [&](Held& held, Index i, Index at) {
    double& gradient = b.gradients_shared ? held.kept[0][i] : held.shard.gradient[i];
    buffer[at] = gradient;
    if (b.gradients_shared) gradient = 0;
  });
  if (!b.gradients_shared) clear_gradients(number);
}

void RankParameters::keep_on_host(std::size_t number, Eigen::VectorXd& buffer) {
  Bucket& b = buckets_.at(number);
  if (buffer.size() != b.own_end - b.own_begin)
    throw InternalError(fmt::format("gradients of bucket {} have not come to the host", number));
  if (b.on_host.size() == 0)
    b.on_host = buffer;
  else
    b.on_host += buffer;
  b.kept_on_host = b.left;
  buffer.resize(0);  // used up
}

void RankParameters::read_states(std::size_t number) {
  Bucket& b = buckets_.at(number);
  if (b.states_read) throw InternalError(fmt::format("states of bucket {} are read twice", number));
  b.states_read = true;
}

void RankParameters::update_on_host(std::size_t number, Eigen::VectorXd& buffer) {
  Bucket& b = buckets_.at(number);
  if (b.kept_on_host != plan_.micro_batches)
    throw InternalError(fmt::format("the host has the gradients of {} micro-batches of {} of bucket {}", b.kept_on_host,
                                    plan_.micro_batches, number));
  if (plan_.offload.optimizer == OffloadDevice::nvme && !b.states_read)
    throw InternalError(fmt::format("states of bucket {} are on the drives", number));
  buffer.resize(b.own_end - b.own_begin);
  of_share(b, [&](Held& held, Index i, Index at) {
    held.last_gradient[i] = b.on_host[at];
    step(held, i, held.host_parameters[i]);
    buffer[at] = held.host_parameters[i];
  });
  b.updated_on_host = true;
  b.unwritten = plan_.offload.drives();
}

void RankParameters::write_states(std::size_t number, Eigen::VectorXd& buffer) {
  Bucket& b = buckets_.at(number);
  b.states_read = b.unwritten = false;
  if (plan_.offload.parameters == OffloadDevice::nvme) buffer.resize(0);
}

void RankParameters::fill_host_parameters(std::size_t number, Eigen::VectorXd& buffer) {
  const Bucket& b = buckets_.at(number);
  buffer.resize(b.own_end - b.own_begin);
  of_share(b, [&](Held& held, Index i, Index at) { buffer[at] = held.host_parameters[i]; });
}

void RankParameters::take_own(std::size_t number, Eigen::VectorXd& buffer, Eigen::VectorXd& on_host) {
  const Bucket& b = buckets_.at(number);
  if (buffer.size() != b.own_end - b.own_begin)
    throw InternalError(fmt::format("parameters of bucket {} have not come from the host", number));
  of_share(b, [&](Held& held, Index i, Index at) { held.shard.parameters[i] = buffer[at]; });
  buffer.resize(0);  // used up
  if (plan_.offload.parameters != OffloadDevice::cpu) on_host.resize(0);
}

/// The step is over: all has been updated, and is back where it lies.
void RankParameters::finish_on_host() {
  for (std::size_t number = 0; number < buckets_.size(); ++number) {
    Bucket& b = buckets_[number];
    if (!b.updated_on_host) throw InternalError(fmt::format("the host has not updated bucket {}", number));
    if (b.unwritten) throw InternalError(fmt::format("states of bucket {} are not back on the drives", number));
    b.on_host.resize(0);
    b.left = b.kept_on_host = 0;
    b.updated_on_host = false;
  }
}

}  // namespace trainyard::numeric
