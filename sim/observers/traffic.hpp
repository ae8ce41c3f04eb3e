#pragma once
#include <map>
#include <string>
#include <vector>

#include "sim/index.hpp"
#include "sim/observers/growth.hpp"

namespace trainyard {

/// Number of actors and links that each simulated one stands for (sim/folding); empty: only itself.
struct Multiplicity {
  std::vector<double> actors, links;
  double of_actor(Actor actor) const { return actors.empty() ? 1 : actors[position(actor)]; }
  double of_link(LinkId link) const { return links.empty() ? 1 : links[position(link)]; }
};

/// Counts bytes by link and by actor, and checks them when the run ends.
class Traffic : public NumberSums<Traffic> {
 public:
  Interest interest() const override { return {.operations = false, .rounds = true}; }
  explicit Traffic(std::span<const Link> links, Multiplicity = {});
  void transferred(const TransferRun&) override;
  void link_changed(LinkId, BytesPerSecond capacity) override;
  void ended(Seconds end) override { check(end); }

  Bytes on_link(LinkId link) const { return on_link_[link]; }
  /// Upper bound (exclusive) of the actors that have sent or received.
  Actor actors() const { return static_cast<Actor>(std::max(sent_.size(), received_.size())); }
  Bytes sent(Actor actor) const { return bytes_of(sent_, actor); }
  Bytes received(Actor actor) const { return bytes_of(received_, actor); }
  /// Number of messages, counted for all actors that the simulated ones stand for.
  double messages() const { return messages_; }
  Bytes total() const { return total_; }  ///< bytes of all messages, each counted once
  /// Returns the traffic since an earlier state `before`.
  Traffic increase_since(const Traffic& before) const;
  Bytes of_group(GroupId group) const;                ///< bytes of all messages of a group (see Names)
  Bytes most_sent() const;                            ///< largest number of bytes sent by one actor
  std::map<std::string, Bytes> by_link_kind() const;  ///< bytes over each link, summed over all links of a kind
  /// Share of the time `over` in which the busiest link of each kind works, by its highest rate.
  std::map<std::string, double> busiest(Seconds over) const;
  /// Throws InternalError if more bytes left than arrived, or a link carried more than its capacity over `end`.
  void check(Seconds end) const;

 private:
  friend NumberSums<Traffic>;
  using ByActor = IndexedVector<Bytes, Actor>;

  std::span<const Link> links_;
  IndexedVector<BytesPerSecond, LinkId> most_;  // highest capacity that each link has had
  IndexedVector<Bytes, LinkId> on_link_;
  ByActor sent_, received_;
  std::vector<Bytes> of_group_;
  double messages_ = 0;
  Bytes total_;
  Multiplicity multiplicity_;

  template <class Visit>
  void each_number(Visit visit) {
    for (Bytes& bytes : on_link_) visit(bytes.value);
    for (Bytes& bytes : sent_) visit(bytes.value);
    for (Bytes& bytes : received_) visit(bytes.value);
    for (Bytes& bytes : of_group_) visit(bytes.value);
    visit(messages_);
    visit(total_.value);
  }
  static Bytes bytes_of(const ByActor& bytes, Actor actor) {
    const Bytes* found = bytes.find(actor);
    return found ? *found : Bytes{};
  }
};

}  // namespace trainyard
