"""HTTP ports: server, access, metrics; options of HTTP clients."""
