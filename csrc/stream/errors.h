// Names for the tags in the device's error record. The op layer installs its lookup; without one the text says "kernel".
#pragma once
#include <cstdint>

namespace aule::stream {

void set_error_tag_names(const char* (*name_of)(uint32_t tag));
// Throws IndexError once if the record of this (created) device holds an error; see raise_device_errors.
void raise_recorded_error(int device);

}  // namespace aule::stream
