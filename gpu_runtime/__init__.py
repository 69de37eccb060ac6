"""Plans on real memory: the verification that runs an instance's schedule and checks every word."""
