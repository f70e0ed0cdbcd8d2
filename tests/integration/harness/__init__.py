"""What the tests from outside share; none of it knows the daemon's code."""
