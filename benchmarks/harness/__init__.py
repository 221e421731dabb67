"""What all benchmarks share: command, figures, machine, measurement, peers in Java."""
