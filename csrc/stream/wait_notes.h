// Told when an operator makes the host wait for values of the device; by default nobody is.
#pragma once

namespace aule::stream {

void set_wait_note(void (*note)());  // may throw, which refuses the wait
void note_wait();                    // not within an Uninterrupted: what the library asks of a device once is no user's

}  // namespace aule::stream
