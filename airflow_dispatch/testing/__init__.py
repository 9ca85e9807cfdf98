"""What tests of other packages may use too: doubles of the ports, and their conformance suites."""
