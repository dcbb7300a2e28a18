// A DerivedStore keeps what is made of something together with it, for the next who needs it: at
// most one thing of each type.
// Threads: any. Ownership: things live as long as the store, or longer where somebody holds them.
#pragma once

#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace warplite {

class DerivedStore {
 public:
  // The T there is, else what make() returns as a std::shared_ptr<T>, which is kept. While one
  // thread makes it, others that want a T wait. Throws what make() throws; then nothing is kept.
  template <class T, class Make>
  std::shared_ptr<T> get(const Make& make) {
    Slot& slot = slot_of(&kTag<std::remove_const_t<T>>);
    const std::lock_guard lock(slot.mutex);
    if (slot.kept == nullptr) {
      const std::shared_ptr<T> made = make();
      slot.kept = std::const_pointer_cast<std::remove_const_t<T>>(made);
    }
    return std::static_pointer_cast<T>(slot.kept);
  }
  // The T there is, else one made from the arguments. REQUIRES: nobody drops it.
  template <class T, class... Arguments>
  T& of(Arguments&&... arguments) {
    return *get<T>([&] { return std::make_shared<T>(std::forward<Arguments>(arguments)...); });
  }
  // Null: there is none.
  template <class T>
  std::shared_ptr<T> find() {
    return get<T>([] { return nullptr; });
  }
  template <class T>
  void drop() {
    Slot& slot = slot_of(&kTag<std::remove_const_t<T>>);
    const std::lock_guard lock(slot.mutex);
    slot.kept = nullptr;
  }

 private:
  // Stands for a type by its address. With some libraries typeid() takes types of one name for the
  // same, although they are in unnamed namespaces of different files.
  template <class T>
  static inline char kTag = 0;

  struct Slot {
    explicit Slot(const void* what) : type(what) {}
    const void* const type;
    std::mutex mutex;
    std::shared_ptr<void> kept;
  };

  Slot& slot_of(const void* type) {
    const std::lock_guard lock(mutex_);
    for (const std::unique_ptr<Slot>& slot : slots_) {
      if (slot->type == type) return *slot;
    }
    slots_.push_back(std::make_unique<Slot>(type));
    return *slots_.back();
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace warplite
