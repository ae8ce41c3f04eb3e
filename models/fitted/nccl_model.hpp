#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/fitted/nccl_call.hpp"
#include "models/fitted/nccl_network.hpp"
#include "models/hardware/gpu.hpp"
#include "models/hardware/link_kind.hpp"
#include "models/reading/catalog.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// How one operation takes its time among `gpus` of one node: the protocol that is fastest, of those in use at that size.
/// LL sends a flag with each 4 bytes and LL128 one with each 120, so neither waits for a whole chunk as Simple does.
struct NcclCurve {
  int gpus = 0;
  NcclProtocol ll, ll128, simple;
  Bytes ll128_until;  ///< NCCL leaves LL (and LL128) above this size, even where Simple is slower; 0: never so seen
};

/// NVLink SHARP (NVLS): the switch adds, so that a GPU sends its buffer once, and 1/n of the sum. The same for all n.
struct NcclInSwitch {
  int from_gpus = 0;  ///< NCCL reduces in the switch from this many GPUs; 0: never
  NcclProtocol nvls;
};

/// NCCL on one kind of GPU: one YAML file in models/catalog/nccls, which `trainyard fit nccl` writes.
struct NcclModel {
  std::string name;
  std::string gpu;           ///< the catalog's GPU that was measured
  std::string architecture;  ///< of that
  std::string version;       ///< of NCCL
  BytesPerSecond link;       ///< of that GPU, per direction, by which other GPUs are scaled
  std::map<NcclOperation, std::vector<NcclCurve>> curves;  ///< by number of GPUs, rising; measured
  NcclInSwitch in_switch;                                  ///< of all-reduce
  double median_error = 0, p90_error = 0;                  ///< of rows that were kept out of the fit; 0: none were
  NcclNetwork between;
  /// Why this is more than a fit: "scaled from h100-sxm by PCIe 31.5/450 GB/s"; empty for the GPU that was measured.
  std::string scaled;
  LinkKind link_kind = LinkKind::nvlink;  ///< of `link`
  Sources sources;
};

/// Reads and checks an entry. Throws UserError with the place.
NcclModel read_nccl_model(const Node& entry);

/// NCCL on `gpu`: its own fit, else the fit of the nearest generation with its rates scaled by the links' datasheet
/// (`scaled` says so). `network` is an entry of models/catalog/nccl-networks. Throws UserError for a chip that does not
/// speak NCCL (TPUs) or has no link, and for an unknown network.
NcclModel nccl_model_for(const Gpu& gpu, const Catalog& catalog, const std::string& network = "infiniband");
/// All links of a GPU to others, per direction, by which NCCL's rates are scaled: NVLink, those of chips, or PCIe.
BytesPerSecond nccl_link(const Gpu& gpu);
/// `model` on the links of another GPU. Public for tests and what-if.
NcclModel nccl_scaled(const NcclModel& model, const Gpu& gpu);

}  // namespace trainyard
