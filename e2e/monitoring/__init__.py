"""The dashboards and alerts that the chart ships, before a real Prometheus."""
