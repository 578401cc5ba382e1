// Names for the tags in the device's error record. The op layer installs its lookup. Without one the name is "kernel".
#pragma once
#include <cstdint>

namespace aule::stream {

void set_error_tag_names(const char* (*name_of)(uint32_t tag));
// Once, if the record of this (created) device has one: raises FailureKind::index, or throws Error for other records.
void raise_recorded_error(int device);

}  // namespace aule::stream
