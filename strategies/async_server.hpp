#pragma once
#include <memory>

#include "sim/names.hpp"
#include "sim/program.hpp"

namespace trainyard {

/// Asynchronous parameter server, one server for all (Li et al. 2014 with no consistency): each worker computes a
/// mini-batch, pushes its gradient and pulls the weights, and goes on without waiting for the others; the server serves
/// whoever comes first.
struct AsyncServerPlan {
  int workers = 1;  ///< actors 0 … workers−1; the server is actor `workers`
  Work mini_batch;  ///< one mini-batch of a worker
  Work apply;       ///< one gradient applied on the server
  Bytes gradient, weights;
  Seconds horizon;  ///< a worker starts no further mini-batch from then on
};

std::unique_ptr<Program> async_worker(int rank, const AsyncServerPlan&, Names&);
/// A daemon: it serves as long as there are workers. Its call 1 is one gradient applied, of worker `Effect::read.buffer`.
std::unique_ptr<Program> async_server(const AsyncServerPlan&, Names&);

}  // namespace trainyard
