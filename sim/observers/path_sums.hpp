#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/hashing.hpp"
#include "sim/observers/timeline.hpp"

namespace trainyard {

/// Seconds by resource, for at most kMost resources. It recognises a name by the address of its text: the texts of all
/// names must outlive it and stay in place.
class PathShares {
 public:
  static constexpr std::size_t kMost = 32;
  using Sums = std::array<double, kMost>;

  void add(Sums& to, std::string_view resource, double seconds) { to[number(resource)] += seconds; }
  // Sums beyond the known names are 0 in all chains.
  void copy(const Sums& from, Sums& to) const { std::copy_n(from.begin(), names_.size(), to.begin()); }
  void clear(Sums& sums) const { std::fill_n(sums.begin(), names_.size(), 0.0); }
  void add(const Sums& sums, Sums& to) const {
    for (std::size_t i = 0; i < names_.size(); ++i) to[i] += sums[i];
  }
  std::map<std::string, double> sums_by_name(const Sums&) const;

 private:
  std::vector<std::string> names_;
  /// The texts that were looked up last, by address: each link has its own text for its kind.
  std::array<std::pair<const char*, std::size_t>, 256> cached_{};

  std::size_t number(std::string_view resource) {
    auto& [text, name] = cached_[mix_bits(std::bit_cast<std::uintptr_t>(resource.data())) % 256];
    if (text != resource.data()) {
      name = find(resource);
      text = resource.data();
    }
    return name;
  }
  std::size_t find(std::string_view resource);
};

/// The critical path of a run by resource (see `critical_path` and `by_resource`) without a record of all operations.
/// Each operation carries the sums of the chain that ends with it, as long as another operation may still follow it.
class PathSums : public Observer, private RoundSums {
 public:
  /// Assigns the pieces of an operation to resources: adds seconds for the parts of [begin, end), in order.
  class Naming {
   public:
    virtual ~Naming() = default;
    using Book = std::pair<PathShares&, PathShares::Sums&>;
    virtual void name(const OpRecord&, double begin, double end, std::string_view resource, Book to) const {
      to.first.add(to.second, resource, end - begin);
    }
  };
  /// `links` and `naming` must outlive this object.
  PathSums(std::span<const Link> links, const Naming& naming) : links_(links), naming_(naming) {}

  Interest interest() const override { return {.level = Level::ops, .stretches = true, .rounds = true}; }
  RoundSums* round_sums() override { return this; }
  bool end_round(std::span<const OpId> live) override;
  void repeat_round(double times) override;
  void posted(const OpRun&) override;
  void started(const OpRun&) override;
  void finished(const OpRun&) override;
  void transferred(const TransferRun&) override;

  std::map<std::string, double> by_resource() const { return shares_.sums_by_name(longest_sums_); }

 private:
  /// Chain of operations. The last one is under way, or has ended and may be the cause of another.
  struct alignas(64) Chain {
    OpId id = 0, cause = 0;
    const char* path = "";
    int holds = 0;  // messages that have departed and whose receivers will follow it
    /// Seconds between the host's last pause and the start of the last operation, if the host launches that late: the
    /// sums are then those of the pause. −1: the operation is in time.
    double launched_for = -1;
    double tail = 0;          ///< seconds at the end of that operation for which its host has launched all
    double ended = HUGE_VAL;  // s
    PathShares::Sums sums{};  // few names are known: the first sums share cache lines with the rest
  };
  std::span<const Link> links_;
  const Naming& naming_;
  PathShares shares_;
  std::vector<Chain> chains_;
  std::vector<std::size_t> free_;
  std::vector<std::size_t> ended_;  // chains that ended at `now_`
  double now_ = 0;
  std::unordered_map<OpId, OpId> causes_of_sends_;         // causes of sends that have departed
  std::unordered_map<OpId, std::vector<LegRecord>> legs_;  // legs of messages under way, by both halves
  // The operation that ends last. If several do: the one with the lowest actor, then the lowest stream.
  PathShares::Sums longest_sums_{};
  double longest_end_ = -1;
  std::tuple<Actor, Stream, OpId> longest_;

  /// Sums of the chain of parts that ends with part i of a series, at index i + 1. Index 0 is the empty chain.
  std::unordered_map<const SeriesTimes*, std::vector<PathShares::Sums>> parts_;

  /// Sums of the chain for whose end the host of an actor waited when it last paused, in this round and the previous.
  struct Pause {
    PathShares::Sums sums{}, earlier{}, growth{};
  };
  std::unordered_map<Actor, Pause> pauses_;

  static constexpr std::size_t kNoChain = ~std::size_t{0};
  /// Sums at the end of a round, and their difference to the previous round, for operations under way and those that
  /// they may follow (RoundSums::end_round).
  struct Live {
    std::size_t chain = kNoChain;
    PathShares::Sums sums{}, growth{};
  };
  std::vector<Live> live_;

  // Table from operation to chain: open addressing, with at least twice as many places as chains. Operation 0 marks an
  // empty place.
  struct Place {
    OpId id = 0;
    std::uint32_t chain = 0;
  };
  std::vector<Place> places_;
  std::size_t used_ = 0;

  void come_to(double now);
  void add_pieces(const OpRecord&, std::span<const LegRecord>, PathShares::Sums&);
  const std::vector<PathShares::Sums>& sums_of(const SeriesTimes&, Actor);
  std::size_t find(OpId) const;
  void insert(std::size_t chain);
  void erase(std::size_t chain);
  std::size_t place_of(OpId) const;
  void follow(Chain&, OpId cause);
  void hold(OpId cause);
  void let_go(OpId cause);
};

}  // namespace trainyard
