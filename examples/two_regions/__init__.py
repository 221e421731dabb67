"""The demonstration of two regions: one of them dies with flights in progress, and the other continues the job."""

US, EU = "us", "eu"
