"""The writing side: one attempt, one epoch, its proof, its lists."""
