#pragma once
#include <span>

#include "sim/executor/context.hpp"
#include "sim/index.hpp"
#include "sim/machine.hpp"

namespace trainyard::execution {

/// The present capacity of every link, and which links have failed.
class Links {
 public:
  explicit Links(Context&);

  std::size_t size() const { return links_.size(); }
  bool contains(LinkId link) const { return links_.contains(link); }
  /// Returns true if the link fails or comes back. Informs the transport, the observers and the machine.
  bool set_capacity(LinkId, BytesPerSecond);
  /// Sets the relative speed of a link that interference on its actor slows.
  void slow(LinkId, double speed);

  bool any_down() const;
  bool any_down(std::span<const LinkUse> links) const { return ever_down_ && crosses_down(links); }

 private:
  struct State {
    BytesPerSecond capacity;
    double speed = 1;  // relative; below 1 if interference on its actor slows it
  };
  Context& context_;
  IndexedVector<State, LinkId> links_;
  bool ever_down_ = false;

  bool crosses_down(std::span<const LinkUse>) const;
};

/// Returns true if `link` limits a flow and takes precedence over `before`, the limiting link found so far (−1: none).
/// `used` is the share of the capacity of `link` that is in use. Only full links limit; if none is full, the rate cap
/// does. Among full links, the first by the name of their kind limits; among links of one kind, the first on the route.
/// This order keeps rounding from deciding.
inline bool limits(LinkId link, double used, LinkId before, std::span<const Link> links) {
  constexpr double full = 1 - 1e-6;
  return used > full && (before < 0 || links[position(link)].kind < links[position(before)].kind);
}

}  // namespace trainyard::execution
