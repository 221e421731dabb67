"""The demonstration of two regions: one of them dies with flights on the way, and the other goes on."""

US, EU = "us", "eu"
