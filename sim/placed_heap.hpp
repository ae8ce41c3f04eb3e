#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace trainyard {

constexpr std::uint32_t kNoPlace = 0xffffffffU;  ///< the place of what is in no heap

/// A heap with four below each, the least `due` first: items that are due together cost no moves. `place(id)` is where the
/// place of an item is kept, so that it can be moved.
template <class Item>
class PlacedHeap {
 public:
  bool empty() const { return items_.empty(); }
  std::size_t size() const { return items_.size(); }
  const Item& front() const { return items_.front(); }
  const std::vector<Item>& items() const { return items_; }  ///< the first, and those just below it, are the next
  void clear() { items_.clear(); }
  /// All are due so much later.
  void shift(double by) {
    for (Item& item : items_) item.due += by;
  }

  /// Adds it, or moves it to where it belongs now.
  template <class Place>
  void set(const Item& item, Place&& place) {
    const std::uint32_t at = place(item.id);
    if (at == kNoPlace) {
      items_.push_back(item);
      return sift_up(static_cast<std::uint32_t>(items_.size()) - 1, place);
    }
    const double was = items_[at].due;
    items_[at] = item;
    if (item.due < was)
      sift_up(at, place);
    else
      sift_down(at, place);
  }

  template <class Place>
  void remove(std::uint32_t at, Place&& place) {
    place(items_[at].id) = kNoPlace;
    const Item last = items_.back();
    items_.pop_back();
    if (at == items_.size()) return;
    items_[at] = last;
    if (at > 0 && last.due < items_[(at - 1) / 4].due)
      sift_up(at, place);
    else
      sift_down(at, place);
  }

 private:
  std::vector<Item> items_;

  template <class Place>
  void put(std::uint32_t at, const Item& item, Place& place) {
    items_[at] = item;
    place(item.id) = at;
  }
  template <class Place>
  void sift_up(std::uint32_t at, Place& place) {
    const Item item = items_[at];
    while (at > 0) {
      const std::uint32_t above = (at - 1) / 4;
      if (!(item.due < items_[above].due)) break;
      put(at, items_[above], place);
      at = above;
    }
    put(at, item, place);
  }
  template <class Place>
  void sift_down(std::uint32_t at, Place& place) {
    const Item item = items_[at];
    const auto size = static_cast<std::uint32_t>(items_.size());
    for (;;) {
      const std::uint32_t first = 4 * at + 1, last = std::min(first + 4, size);
      std::uint32_t least = first;
      for (std::uint32_t below = first + 1; below < last; ++below)
        if (items_[below].due < items_[least].due) least = below;
      if (first >= size || !(items_[least].due < item.due)) break;
      put(at, items_[least], place);
      at = least;
    }
    put(at, item, place);
  }
};

}  // namespace trainyard
