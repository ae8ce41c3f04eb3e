#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "strategies/plan/gossip_graph.hpp"

namespace trainyard {

/// The mixing matrix of a round, ranks × ranks: row i holds the weights with which rank i averages.
Eigen::MatrixXd mixing_matrix(const Gossip&, std::int64_t round);

/// Spectral gap of a fixed graph: 1 − the second largest magnitude of the eigenvalues of its mixing matrix. The larger
/// it is, the faster the ranks agree.
double spectral_gap(const Gossip&);

/// A rank's weighted average in a round of its `own` values and those of its neighbours (`theirs`, in the order of
/// `Gossip::neighbours`).
Eigen::VectorXd mix_parameters(const Gossip&, int rank, std::int64_t round, const Eigen::VectorXd& own,
                               const std::vector<Eigen::VectorXd>& theirs);

}  // namespace trainyard
