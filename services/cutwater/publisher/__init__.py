"""The publisher service: milestones in, presented rows on the output topic out."""
