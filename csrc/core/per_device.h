// State of which every device has its own.
#pragma once
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace aule {

inline constexpr int kMaxDevices = 64;  // that a process may see

// A T for every device, all made together. Never destroyed: tensors and streams may be used until the process is gone.
// Throws std::out_of_range for a device that cannot be.
template <class T>
class PerDevice {
 public:
  T& operator[](int device) const {
    if (device < 0 || device >= kMaxDevices)
      throw std::out_of_range("device " + std::to_string(device) + ": at most " + std::to_string(kMaxDevices));
    return (*all_)[static_cast<size_t>(device)];
  }

 private:
  std::array<T, kMaxDevices>* all_ = new std::array<T, kMaxDevices>{};
};

}  // namespace aule
