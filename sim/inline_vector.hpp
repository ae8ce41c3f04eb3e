#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace trainyard {

/// A vector whose elements lie in the object itself while there are no more than `N`.
template <typename T, std::uint32_t N>
class InlineVector {
 public:
  std::uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return size_ <= N ? here_.data() : beyond_->data(); }
  const T* begin() const { return size_ <= N ? here_.data() : beyond_->data(); }
  T* end() { return begin() + size_; }
  const T* end() const { return begin() + size_; }
  T& operator[](std::size_t i) { return begin()[i]; }
  const T& operator[](std::size_t i) const { return begin()[i]; }
  const T& back() const { return begin()[size_ - 1]; }

  void clear() { size_ = 0; }
  void push_back(const T& item) {
    if (size_ < N) {
      here_[size_++] = item;
      return;
    }
    if (!beyond_) beyond_ = std::make_unique<std::vector<T>>();
    if (size_ == N) beyond_->assign(here_.begin(), here_.end());
    beyond_->push_back(item);
    ++size_;
  }
  void pop_back() {
    --size_;
    if (size_ == N) std::copy_n(beyond_->begin(), N, here_.begin());
    if (size_ > N) beyond_->pop_back();
  }

 private:
  std::array<T, N> here_{};
  std::unique_ptr<std::vector<T>> beyond_;  // all of them, while there are more than N
  std::uint32_t size_ = 0;
};

}  // namespace trainyard
