// Work that must be done when a call returns, and is no part of the stream that the call is made on.
#pragma once
#include <functional>

namespace aule::ops {

// Runs `body` with a stream of its own current: a probe waits, which a stream under capture cannot.
void on_private_stream(int device, const std::function<void()>& body);

}  // namespace aule::ops
