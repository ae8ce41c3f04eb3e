#pragma once
#include <algorithm>
#include <span>

#include "sim/executor/context.hpp"

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

}  // namespace trainyard::execution
