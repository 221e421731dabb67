"""The mirror: copies another region's events, changelogs and milestones here, and announces arrivals."""
