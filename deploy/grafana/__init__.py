"""Dashboards for Grafana, one for each role, and the code that writes them."""
