"""A job with an objective, whose cadence controller decides, beside fixed settings under the same load."""
