#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace trainyard {

constexpr std::uint32_t kNoPlace = 0xffffffffU;  ///< place of an item that is in no heap

/// A 4-ary heap with the smallest `due` first. Items with the same due time cost no moves. `place(id)` returns a
/// reference to the stored position of an item, so that the item can be found and moved.
template <class Item>
class PlacedHeap {
 public:
  bool empty() const { return items_.empty(); }
  std::size_t size() const { return items_.size(); }
  const Item& front() const { return items_.front(); }
  const std::vector<Item>& items() const { return items_; }  ///< the first item, then its children, and so on
  void clear() { items_.clear(); }
  /// Adds `seconds` to the due times of all items.
  void shift(double seconds) {
    for (Item& item : items_) item.due += seconds;
  }

  /// Adds the item, or moves it to its new position.
  template <class Place>
  void set(const Item& item, Place&& place) {
    const std::uint32_t place_index = place(item.id);
    if (place_index == kNoPlace) {
      items_.push_back(item);
      return sift_up(static_cast<std::uint32_t>(items_.size()) - 1, place);
    }
    const double due_before = items_[place_index].due;
    items_[place_index] = item;
    if (item.due < due_before)
      sift_up(place_index, place);
    else
      sift_down(place_index, place);
  }

  template <class Place>
  void remove(std::uint32_t place_index, Place&& place) {
    place(items_[place_index].id) = kNoPlace;
    const Item last = items_.back();
    items_.pop_back();
    if (place_index == items_.size()) return;
    items_[place_index] = last;
    if (place_index > 0 && last.due < items_[(place_index - 1) / 4].due)
      sift_up(place_index, place);
    else
      sift_down(place_index, place);
  }

 private:
  std::vector<Item> items_;

  /// Returns the first of the items [first, last) with the smallest due time: at most four. Which of four siblings it is
  /// cannot be predicted, so four are compared without branches.
  std::uint32_t least_of(std::uint32_t first, std::uint32_t last) const {
    const Item* siblings = items_.data() + first;
    if (last - first == 4) {
      const unsigned lower = siblings[1].due < siblings[0].due ? 1 : 0;
      const unsigned upper = siblings[3].due < siblings[2].due ? 3 : 2;
      const unsigned is_upper = siblings[upper].due < siblings[lower].due ? 1 : 0;
      return first + lower + is_upper * (upper - lower);
    }
    std::uint32_t least = first;
    for (std::uint32_t below = first + 1; below < last; ++below)
      if (items_[below].due < items_[least].due) least = below;
    return least;
  }

  template <class Place>
  void put(std::uint32_t place_index, const Item& item, Place& place) {
    items_[place_index] = item;
    place(item.id) = place_index;
  }
  template <class Place>
  void sift_up(std::uint32_t place_index, Place& place) {
    const Item item = items_[place_index];
    while (place_index > 0) {
      const std::uint32_t above = (place_index - 1) / 4;
      if (!(item.due < items_[above].due)) break;
      put(place_index, items_[above], place);
      place_index = above;
    }
    put(place_index, item, place);
  }
  template <class Place>
  void sift_down(std::uint32_t place_index, Place& place) {
    const Item item = items_[place_index];
    const auto size = static_cast<std::uint32_t>(items_.size());
    for (;;) {
      const std::uint32_t first = 4 * place_index + 1;
      if (first >= size) break;
      const std::uint32_t least = least_of(first, std::min(first + 4, size));
      if (!(items_[least].due < item.due)) break;
      put(place_index, items_[least], place);
      place_index = least;
    }
    put(place_index, item, place);
  }
};

}  // namespace trainyard
