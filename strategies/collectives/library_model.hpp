#pragma once
#include <memory>
#include <string>

#include "models/reading/figure.hpp"
#include "strategies/collectives/collective_settings.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// NCCL, as it was fitted, on the GPUs and the network of a cluster.
struct LibraryModel {
  std::shared_ptr<const CollectiveModel> model;
  std::string scaled;  ///< "scaled from h100-sxm by …", where the GPU itself was not measured
  Sources sources;
};

/// Throws UserError for chips that do not speak NCCL.
LibraryModel library_model(const ClusterSpec&);

}  // namespace trainyard
