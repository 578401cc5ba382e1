"""The parts that Inductor calls: the registration, the interface of the device, wrappers, scheduling, launches."""
