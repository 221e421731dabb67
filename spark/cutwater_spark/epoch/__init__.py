"""One epoch as Spark writes it: rows, proof, barrier, lists."""
