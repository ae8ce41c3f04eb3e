#pragma once
#include <Eigen/Core>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/observer.hpp"

namespace trainyard {

/// Executes the effects of a simulated schedule on real arrays, and so shows what the operations leave in memory. A
/// send captures its buffer when it is posted. Two running operations that touch the same range of a buffer are a
/// hazard if one of them writes: the result would depend on the hardware's timing. The chunks of a reference wrap
/// around after the last one: they are a range of a ring of blocks.
class Values : public Observer {
 public:
  Interest interest() const override { return {.transfers = false}; }
  using Call = std::function<void(Actor, const Op&)>;

  /// A scratch buffer (see kScratch) has the length of the buffer it belongs to.
  Eigen::VectorXd& buffer(Actor actor, std::uint16_t id);
  /// Sets the function of Action::call number `id`. It is called when the operation ends.
  void on_call(std::uint16_t id, Call call) { calls_[id] = std::move(call); }
  /// Returns the size of a send from its data, for a program that cannot know the size.
  using Size = std::function<Bytes(Actor, const Op&, const Eigen::VectorXd& sent)>;
  void on_size(Size size) { size_ = std::move(size); }
  /// Sets a function that is called after each effect on `actor` (for a teaching view, or a test of every step).
  void on_change(std::function<void(Actor, const Op&)> changed) { changed_ = std::move(changed); }
  /// Messages arrive as zeros if this function returns true for their receive. The result shows what they are for.
  void lose(std::function<bool(const Op& receive)> lost) { lost_ = std::move(lost); }
  /// End of the operation whose effect is being carried out.
  Seconds now() const { return now_; }
  /// Returns one sentence for each hazard.
  const std::vector<std::string>& hazards() const { return hazards_; }

  void posted(const OpRun&) override;
  Bytes size_of(const OpRun&) override;
  void started(const OpRun&) override;
  void finished(const OpRun&) override;
  void delivered(const OpRun& send, const OpRun& recv) override;

  /// The elements [begin, end) of the referenced chunks in a buffer of `length` elements. Single chunks differ by at
  /// most one element.
  static std::pair<Eigen::Index, Eigen::Index> range(Eigen::Index length, const BufferRef&);

 private:
  struct Use {
    OpId id;
    BufferRef ref;
    bool writes;
    Kind kind;
  };
  std::map<std::pair<Actor, std::uint16_t>, Eigen::VectorXd> buffers_;
  std::unordered_map<OpId, Eigen::VectorXd> captured_;  // indexed by send
  std::unordered_map<Actor, std::vector<Use>> uses_;    // buffer uses by running operations, by actor
  std::unordered_map<std::uint16_t, Call> calls_;
  std::function<void(Actor, const Op&)> changed_;
  Size size_;
  std::vector<std::string> hazards_;
  Seconds now_;
  std::function<bool(const Op&)> lost_;

  Eigen::VectorXd read(Actor, const BufferRef&);
  void write(Actor, const Op&, const Eigen::VectorXd&);
  void use(const OpRun&, const BufferRef&, bool writes);
};

}  // namespace trainyard
