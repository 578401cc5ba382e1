"""Numbers about the device and about models: what it can reach, errors, runs, and how a person reads them."""
