// Current device and current stream per thread, and the map from c10::Stream to CommandStream.
#pragma once
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <array>
#include <cstdint>
#include <functional>

#include "stream/interrupts.h"

namespace at {
class Tensor;
}

namespace aule::stream {
class CommandStream;
}

namespace aule::runtime {

using stream::InterruptHooks;
using stream::set_interrupt_hooks;
using stream::Uninterrupted;

c10::DeviceIndex current_device() noexcept;
void set_device(c10::DeviceIndex device);  // throws when out of range
c10::DeviceIndex exchange_device(c10::DeviceIndex device);

c10::Stream current_c10_stream(c10::DeviceIndex device);  // -1: current device
// Submits what the stream that is left has recorded, without waiting: a CUDA program expects launched work to run.
c10::Stream exchange_stream(c10::Stream stream);
// The same for the current stream of a device, when a program turns to another device.
void submit_recorded(c10::DeviceIndex device) noexcept;
c10::Stream private_stream(c10::DeviceIndex device);     // for work that must not join a capture
c10::Stream collective_stream(c10::DeviceIndex device);  // likewise
// Makes a stream wait for what another thread has yet to record (stream/command_stream.h). Returns false, and does
// nothing, for the default stream: a program expects its errors at the call; and for one under capture.
bool wait_later(c10::Stream stream, std::function<bool()> ready, std::function<void()> arrive);
// For copies between the host and the device; kernels cannot run there.
c10::Stream transfer_stream(c10::DeviceIndex device, bool to_host);
bool copies_beside_kernels(c10::DeviceIndex device);  // those on these streams
stream::CommandStream& command_stream(c10::Stream stream);
stream::CommandStream& current_stream(c10::DeviceIndex device = -1);
void finish_current_stream(c10::DeviceIndex device);  // waits for it
bool is_capturing(c10::DeviceIndex device = -1);      // the current stream, a graph
// A tensor of the graph under capture on the current stream, which keeps it as long as its commands; undefined at
// first. It is for zeros that kernels leave as zeros, so that one fill serves all of them. Its memory must not be of
// the graph's pool, which other graphs may use. Null without a capture.
at::Tensor* zeros_of_capture(c10::DeviceIndex device);

// Priorities as torch numbers them: 0, and -1 (high) where the device has queues of both kinds.
int stream_priority(c10::Stream stream);
int64_t capture_stream_id();  // of the stream that captures of a device share
int highest_stream_priority(c10::DeviceIndex device);

// Batches and commands of a stream that have not finished, and its limit of batches: (batches, commands, limit).
std::array<uint64_t, 3> stream_load(c10::Stream stream);
void limit_stream(c10::Stream stream, uint64_t batches);

// Throws when this process is a fork of one that used the device.
void check_not_forked();
bool in_bad_fork() noexcept;

}  // namespace aule::runtime
