#pragma once
#include <map>
#include <string>
#include <vector>

#include "models/fitted/nccl_call.hpp"
#include "models/fitted/nccl_network.hpp"
#include "models/hardware/gpu.hpp"
#include "models/hardware/link_kind.hpp"
#include "models/reading/catalog.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// The protocols of one operation among `gpus` GPUs of one node. Its time is that of the fastest protocol that NCCL
/// uses at the size. LL sends a flag with each 4 bytes and LL128 one with each 120, so neither waits for a whole chunk
/// as Simple does.
struct NcclCurve {
  int gpus = 0;
  NcclProtocol ll, ll128, simple;
  Bytes ll128_until;  ///< above this size NCCL uses Simple even if it is slower; 0: not observed
};

/// NVLink SHARP (NVLS): the switch sums, so that a GPU sends its buffer once, and 1/n of the sum. The same for all n.
struct NcclInSwitch {
  int from_gpus = 0;  ///< NCCL reduces in the switch from this many GPUs on; 0: never
  NcclProtocol nvls;
};

/// NCCL on one kind of GPU: one YAML file in models/catalog/nccls, which `trainyard fit nccl` writes.
struct NcclModel {
  std::string name;
  std::string gpu;           ///< the catalog's GPU that was measured
  std::string architecture;  ///< architecture of `gpu`
  std::string version;       ///< version of NCCL
  BytesPerSecond link;       ///< link rate of `gpu`, per direction; other GPUs are scaled by their ratio to it
  std::map<NcclOperation, std::vector<NcclCurve>> curves;  ///< measured curves, by rising number of GPUs
  NcclInSwitch in_switch;                                  ///< for all-reduce
  double median_error = 0, p90_error = 0;                  ///< errors of rows left out of the fit; 0: there were none
  NcclNetwork between;
  /// Source of the scaling: "scaled from h100-sxm by PCIe 31.5/450 GB/s". If only some operations are scaled, the text
  /// begins with their names. Empty: all operations were measured on this GPU.
  std::string scaled;
  LinkKind link_kind = LinkKind::nvlink;  ///< kind of the links between the GPUs
  Sources sources;
};

/// Reads and checks an entry. Throws UserError with the place.
NcclModel read_nccl_model(const Node& entry);

/// Returns the model of NCCL on `gpu`: its own fit, else the fit of the nearest generation with rates scaled by the
/// links' datasheets (see `scaled`). `network` is an entry of models/catalog/nccl-networks. Throws UserError for a chip
/// without NCCL (TPUs) or without links, and for an unknown network.
NcclModel nccl_model_for(const Gpu& gpu, const Catalog& catalog, const std::string& network = "infiniband");
/// Returns the rate of all links of a GPU to others, per direction: NVLink, chip-to-chip links, or PCIe. NCCL's rates
/// are scaled by it.
BytesPerSecond nccl_link(const Gpu& gpu);
/// Returns `model` scaled to the links of another GPU. Public for tests and what-if.
NcclModel nccl_scaled(const NcclModel& model, const Gpu& gpu);

}  // namespace trainyard
