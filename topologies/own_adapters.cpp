// Chooses the adapters and the socket that a device uses.
#include <algorithm>

#include "topologies/routing.hpp"

namespace trainyard {

/// All devices of the kind in the same node to which the path costs least.
std::vector<DeviceId> Routing::nearest_all(DeviceId from, DeviceKind kind) {
  std::vector<DeviceId> best;
  std::int64_t least = 0;
  for (const DeviceId candidate : graph_.devices_of_kind(kind, device(from).node)) {
    const std::optional<std::int64_t> cost = graph_.cost(from, candidate);
    if (!cost || (!best.empty() && *cost > least)) continue;
    if (best.empty() || *cost < least) best.clear();
    least = *cost;
    best.push_back(candidate);
  }
  return best;
}

/// The nearest device of the kind. If several are equally near, the index of `from` chooses one in turn.
DeviceId Routing::nearest(DeviceId from, DeviceKind kind) {
  const std::vector<DeviceId> best = nearest_all(from, kind);
  return best.empty() ? kNoDevice : best[static_cast<std::size_t>(device(from).index) % best.size()];
}

/// Returns the offset from the device of the first node of the same type and wiring to this one. What is nearest there
/// is nearest here, also in turn by the index. 0: the device stands for itself.
DeviceId Routing::twin_offset(DeviceId id) const {
  const int node = device(id).node;
  if (node < 0 || was_changed_) return 0;
  const DeviceGraph::Twin twin = graph_.twin_of(node);
  const bool is_twin = &spec_.type_of(node) == &spec_.type_of(twin.node) &&
                       device(id - twin.offset).index == device(id).index;  // another GPU may have been taken out
  return is_twin ? twin.offset : 0;
}

DeviceId Routing::hca_of(DeviceId id) {
  if (device(id).kind == DeviceKind::hca || device(id).kind == DeviceKind::network_switch) return id;
  DeviceId& stored = hcas_[id];
  if (stored != kNotAsked) return stored;
  if (const DeviceId offset = twin_offset(id); offset != 0) {
    const DeviceId twin_hca = hca_of(id - offset);
    return stored = twin_hca < 0 ? twin_hca : twin_hca + offset;
  }
  const std::vector<int>& chosen = type_of(id).network.hca_of_gpu;
  if (device(id).kind == DeviceKind::gpu && !chosen.empty())
    return stored = graph_.devices_of_kind(DeviceKind::hca, device(id).node)
                        .at(static_cast<std::size_t>(chosen[device(id).index]));
  return stored = nearest(id, DeviceKind::hca);
}

DeviceId Routing::socket_of(DeviceId id) {
  if (device(id).kind == DeviceKind::cpu) return id;
  DeviceId& stored = sockets_[id];
  if (stored != kNotAsked) return stored;
  const DeviceId offset = twin_offset(id);
  if (offset == 0) return stored = nearest(id, DeviceKind::cpu);
  const DeviceId twin_socket = socket_of(id - offset);
  return stored = twin_socket < 0 ? twin_socket : twin_socket + offset;
}

/// Returns the HCA of a GPU, then the other HCAs of the node as a fallback.
std::vector<DeviceId> Routing::hcas_of(DeviceId id) {
  const DeviceId own_hca = hca_of(id);
  if (own_hca < 0 || own_hca == id) return {own_hca};
  std::vector<DeviceId> hcas = graph_.devices_of_kind(DeviceKind::hca, device(id).node);
  std::stable_partition(hcas.begin(), hcas.end(), [own_hca](DeviceId hca) { return hca == own_hca; });
  return hcas;
}

/// Returns this GPU's part of its nearest HCAs, which equally near GPUs share evenly. The part is one HCA, unless there
/// are at least twice as many HCAs as GPUs.
std::vector<DeviceId> Routing::find_own_hcas(DeviceId id) {
  const DeviceId first = hca_of(id);
  if (device(id).kind != DeviceKind::gpu || first < 0 || !type_of(id).network.hca_of_gpu.empty()) return {first};
  const std::vector<DeviceId> near = nearest_all(id, DeviceKind::hca);
  if (near.size() < 2) return {first};
  std::size_t sharers = 0, turn = 0;
  for (const DeviceId gpu : graph_.devices_of_kind(DeviceKind::gpu, device(id).node)) {
    if (gpu == id) turn = sharers;
    if (nearest_all(gpu, DeviceKind::hca) == near) ++sharers;
  }
  const std::size_t count_each = near.size() / sharers;
  if (count_each < 2) return {first};
  return {near.begin() + static_cast<std::ptrdiff_t>(turn * count_each),
          near.begin() + static_cast<std::ptrdiff_t>((turn + 1) * count_each)};
}

/// Stores the HCAs that devices have by their twins: they stay the same after a change.
void Routing::keep_own_hcas() {
  for (DeviceId id = 0; id < static_cast<DeviceId>(hcas_.size()); ++id) {
    const DeviceId offset = hcas_[id] == kNotAsked ? 0 : twin_offset(id);
    if (offset == 0 || !own_hcas_.contains(id - offset)) continue;
    const OwnHcas hcas = own_hcas(id);
    std::vector<DeviceId> own;
    for (std::size_t i = 0; i < hcas.size(); ++i) own.push_back(hcas[i]);
    own_hcas_[id] = std::move(own);
  }
}

Routing::OwnHcas Routing::own_hcas(DeviceId id) {
  hca_of(id);  // shows that the device has been asked for
  const DeviceId offset = twin_offset(id);
  std::vector<DeviceId>& stored = own_hcas_[id - offset];
  if (stored.empty()) stored = find_own_hcas(id - offset);
  return {stored, offset};
}

}  // namespace trainyard
