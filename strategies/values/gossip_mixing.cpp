#include "strategies/values/gossip_mixing.hpp"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

namespace trainyard {

Eigen::MatrixXd mixing_matrix(const Gossip& gossip, std::int64_t round) {
  Eigen::MatrixXd all = Eigen::MatrixXd::Identity(gossip.ranks(), gossip.ranks());
  for (int rank = 0; rank < gossip.ranks(); ++rank)
    for (const int neighbour : gossip.neighbours(rank, round)) {
      all(rank, neighbour) = gossip.weight(rank, neighbour, round);
      all(rank, rank) -= all(rank, neighbour);
    }
  return all;
}

double spectral_gap(const Gossip& gossip) {
  if (gossip.ranks() < 2) return 1;
  // The solver's own reduction to a tridiagonal matrix also finds eigenvectors, which compiles for seconds.
  const Eigen::MatrixXd mixing = mixing_matrix(gossip, 0);
  const double scale = mixing.cwiseAbs().maxCoeff();
  const Eigen::Tridiagonalization<Eigen::MatrixXd> reduced(mixing / scale);
  Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver;
  solver.computeFromTridiagonal(reduced.diagonal(), reduced.subDiagonal(), Eigen::EigenvaluesOnly);
  const Eigen::VectorXd values = scale * solver.eigenvalues();  // ascending; the last one is 1
  return 1 - std::max(std::abs(values(0)), std::abs(values(values.size() - 2)));
}

Eigen::VectorXd mix_parameters(const Gossip& gossip, int rank, std::int64_t round, const Eigen::VectorXd& own,
                               const std::vector<Eigen::VectorXd>& theirs) {
  const std::vector<int> neighbours = gossip.neighbours(rank, round);
  double own_weight = 1;
  for (const int neighbour : neighbours) own_weight -= gossip.weight(rank, neighbour, round);
  Eigen::VectorXd sum = own_weight * own;
  for (std::size_t i = 0; i < neighbours.size(); ++i) sum += gossip.weight(rank, neighbours[i], round) * theirs[i];
  return sum;
}

}  // namespace trainyard
