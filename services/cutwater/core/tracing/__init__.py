"""Steps of a milestone, from the source to readers and other regions."""
